"""How the text of each option is read: into the value of `Settings`, or ValueError with what is allowed."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pytest_rageval.config.destinations import parse_destination
from pytest_rageval.config.model_settings import (
    AMOUNT,
    COUNT,
    POSITIVE,
    RATE,
    SECONDS,
    number,
    parse_parameters,
)
from pytest_rageval.lazy import Lazy
from pytest_rageval.secret import BaseURL, parse_public_cache

__all__ = ["PARSERS"]

ODD: Final = number(
    int,
    lambda value: value >= 1 and value % 2 == 1,
    "an odd whole number, at least 1: an even number of votes may be tied",
)
DEGREE: Final = number(float, lambda value: 0 <= value < float("inf"), "a number, at least 0")
SHARE: Final = number(float, lambda value: 0 <= value <= 1, "a share between 0 and 1")
PART: Final = number(float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def _switch(text: str) -> bool:
    on = text.lower() in {"true", "1", "yes", "on"}
    if not on and text.lower() not in {"false", "0", "no", "off"}:
        raise ValueError("expected true or false")
    return on


def _update(text: str) -> bool | Literal["force"]:
    if text.lower() == "force":
        return "force"
    try:
        return _switch(text)
    except ValueError:
        raise ValueError("expected nothing, or force") from None


def _shard(text: str) -> tuple[int, int]:
    index, _, number = text.partition("/")
    if index.isdecimal() and number.isdecimal() and 1 <= int(index) <= int(number):
        return int(index), int(number)
    raise ValueError("expected I/N with 1 ≤ I ≤ N, such as 2/8")


def _batch(text: str) -> bool | str:
    return text if text in {"submit", "status", "collect"} else _switch(text)


def _cutoffs(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(map(POSITIVE, text.split(","))))
    except ValueError:
        raise ValueError("expected whole numbers from 1, with commas between them, such as 1,5,10") from None


def _encoder(text: str) -> str:
    _, at, layer = text.rpartition("@")
    if at and not (layer.isdecimal() and int(layer) >= 1):
        raise ValueError("expected a model, or one with a layer from 1, such as roberta-large@17")
    return text


def _choice(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return text

    return parse


PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "model": str,
    "judge_model": str,
    "judge_votes": ODD,
    "both_orders": _switch,
    "preset": Lazy("config.presets", "read_preset"),
    "cutoffs": _cutoffs,
    "temperature": DEGREE,
    "draws": POSITIVE,
    "llm_reteval_temperature": DEGREE,
    "llm_reteval_draws": POSITIVE,
    "arena_pairs": COUNT,
    "arena_examples": _switch,
    "base_url": BaseURL.parse,
    "judge_base_url": BaseURL.parse,
    "parameters": parse_parameters,
    "judge_parameters": parse_parameters,
    "comparator": str,
    "match_share": PART,
    "encoder": _encoder,
    "bleu_smoothing": _choice("exp", "none"),
    "max_tokens": POSITIVE,
    "gateway": _switch,
    "concurrency": POSITIVE,
    "rpm": RATE,
    "tpm": RATE,
    "timeout": SECONDS,
    "retries": COUNT,
    "patience": SECONDS,
    "threads": POSITIVE,
    "flex": _switch,
    "cache": parse_public_cache,
    "cache_dir": Path,
    "refresh": _switch,
    "replay": _switch,
    "cassette": Path,
    "record": _switch,
    "record_prompts": _switch,
    "drop_unused": _switch,
    "plan": _switch,
    "batch": _batch,
    "batch_errors": _choice("live", "unscored"),
    "max_calls": COUNT,
    "max_cost": AMOUNT,
    "prices": Path,
    "prompts": Path,
    "max_unscored": SHARE,
    "baseline": Path,
    "update_baseline": _update,
    "pin_baseline": _switch,
    "require_baseline": _switch,
    "family": POSITIVE,
    "inconclusive": _choice("warn", "fail"),
    "early_stop": _switch,
    "canary": COUNT,
    "calibration": Path,
    "repeat": POSITIVE,
    "sample": PART,
    "shard": _shard,
    "report": parse_destination,
    "history": Path,
    "annotations": _switch,
    "seed": COUNT,
}
"""By the name of the option."""
