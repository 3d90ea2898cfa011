"""Parsers of the options: from text to the value of `Settings`, or ValueError with what is allowed.

The destination of a report is a file, or an `Address` such as `otlp:http://localhost:4318`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.core.model_settings import (
    number_parser,
    parse_amount,
    parse_count,
    parse_parameters,
    parse_positive_int,
    parse_rate,
    parse_seconds,
)
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.secret import HIDDEN, BaseURL, parse_public_cache, public_url

SCHEME: Final = r"[A-Za-z][A-Za-z0-9+-]+:"
"""The scheme of an address. It has at least two characters, since a single letter is a drive on Windows."""

KIND_PATTERN: Final = re.compile(rf"\.\w+|{SCHEME}")
"""The text that selects the kind of a report: the suffix of a file name, or the scheme of an address."""


@dataclass(frozen=True)
class Address:
    """An address to which a report is sent, in place of a file.

    Attributes:
        scheme: the scheme in lower case, with its colon.
        rest: the text after the scheme.
    """

    scheme: str
    rest: str

    def __str__(self) -> str:
        """Return the address without the user and the password of a URL in it."""
        if "://" not in self.rest:
            return f"{self.scheme}{self.rest}"
        try:
            return f"{self.scheme}{public_url(self.rest)}"
        except ValueError:
            return f"{self.scheme}{HIDDEN}"


def parse_destination(text: str) -> Path | Address:
    """Return an `Address` if the text begins with a scheme, else the path of a file.

    >>> parse_destination("otlp:http://localhost:4318").scheme, str(parse_destination("out/results.json"))
    ('otlp:', 'out/results.json')
    """
    match = re.match(SCHEME, text)
    return Address(match[0].lower(), text[match.end() :]) if match else Path(text)


def destination_kind(destination: Path | Address) -> str:
    """Return the scheme of an address, or the suffix of a file name."""
    return destination.scheme if isinstance(destination, Address) else destination.suffix


parse_odd_int: Final = number_parser(
    int,
    lambda value: value >= 1 and value % 2 == 1,
    "an odd whole number, at least 1: an even number of votes may be tied",
)
parse_temperature: Final = number_parser(
    float, lambda value: 0 <= value < float("inf"), "a number, at least 0"
)
parse_share: Final = number_parser(float, lambda value: 0 <= value <= 1, "a share between 0 and 1")
parse_positive_share: Final = number_parser(float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def _parse_switch(text: str) -> bool:
    on = text.lower() in {"true", "1", "yes", "on"}
    if not on and text.lower() not in {"false", "0", "no", "off"}:
        raise ValueError("expected true or false")
    return on


def _parse_ref(text: str) -> str:
    from pytest_rageval.lib.git import REF  # noqa: PLC0415 - few runs name a commit

    if not REF.fullmatch(text):
        raise ValueError("expected a commit or a branch, such as origin/main")
    return text


def _parse_update(text: str) -> bool | Literal["force"]:
    if text.lower() == "force":
        return "force"
    try:
        return _parse_switch(text)
    except ValueError:
        raise ValueError("expected nothing, or force") from None


def _parse_shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count):
        return int(index), int(count)
    raise ValueError("expected I/N with 1 ≤ I ≤ N, such as 2/8")


def _parse_batch(text: str) -> bool | str:
    return text if text in {"submit", "status", "collect"} else _parse_switch(text)


def _parse_cutoffs(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(map(parse_positive_int, text.split(","))))
    except ValueError:
        raise ValueError("expected whole numbers from 1, with commas between them, such as 1,5,10") from None


def _parse_encoder(text: str) -> str:
    _, at, layer = text.rpartition("@")
    if at and not (layer.isdecimal() and int(layer) >= 1):
        raise ValueError("expected a model, or one with a layer from 1, such as roberta-large@17")
    return text


def _parse_path(text: str) -> str:
    # In pytest.ini, the quotes of a line that was written for pyproject.toml are a part of the value.
    path = text.strip().strip("\"'")
    if not all(path.split(".")):
        raise ValueError("expected the path of a field, such as metadata.source")
    return path


def _choice_parser(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return text

    return parse


PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "model": str,
    "judge_model": str,
    "judge_votes": parse_odd_int,
    "both_orders": _parse_switch,
    "preset": Lazy("core.presets", "read_preset"),
    "cutoffs": _parse_cutoffs,
    "temperature": parse_temperature,
    "draws": parse_positive_int,
    "llm_reteval_temperature": parse_temperature,
    "llm_reteval_draws": parse_positive_int,
    "arena_pairs": parse_count,
    "arena_examples": _parse_switch,
    "base_url": BaseURL.parse,
    "judge_base_url": BaseURL.parse,
    "parameters": parse_parameters,
    "judge_parameters": parse_parameters,
    "comparator": str,
    "match_share": parse_positive_share,
    "document_id": _parse_path,
    "encoder": _parse_encoder,
    "bleu_smoothing": _choice_parser("exp", "none"),
    "max_tokens": parse_positive_int,
    "gateway": _parse_switch,
    "concurrency": parse_positive_int,
    "rpm": parse_rate,
    "tpm": parse_rate,
    "timeout": parse_seconds,
    "retries": parse_count,
    "patience": parse_seconds,
    "threads": parse_positive_int,
    "flex": _parse_switch,
    "cache": parse_public_cache,
    "cache_dir": Path,
    "refresh": _parse_switch,
    "replay": _parse_switch,
    "cassette": Path,
    "record": _parse_switch,
    "record_prompts": _parse_switch,
    "drop_unused": _parse_switch,
    "plan": _parse_switch,
    "batch": _parse_batch,
    "batch_errors": _choice_parser("live", "unscored"),
    "max_calls": parse_count,
    "max_cost": parse_amount,
    "prices": Path,
    "prompts": Path,
    "max_unscored": parse_share,
    "baseline": Path,
    "baseline_ref": _parse_ref,
    "update_baseline": _parse_update,
    "pin_baseline": _parse_switch,
    "require_baseline": _parse_switch,
    "allow_missing": str,
    "max_removed": parse_share,
    "inconclusive": _choice_parser("warn", "fail"),
    "early_stop": _parse_switch,
    "canary": parse_count,
    "calibration": Path,
    "repeat": parse_positive_int,
    "sample": parse_positive_share,
    "shard": _parse_shard,
    "report": parse_destination,
    "history": Path,
    "annotations": _parse_switch,
    "seed": parse_count,
}
"""The parser of each option, by the name of the option."""
