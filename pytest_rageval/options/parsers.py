"""Parsers of the options: from text to the value of `Settings`, or ValueError with what is allowed.

The destination of a report is a file, or an `Address` such as `otlp:http://localhost:4318`.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

if TYPE_CHECKING:
    from pytest_rageval.lib.secret import BaseURL, StoreURL

N = TypeVar("N", int, float)

SCHEME: Final = r"[A-Za-z][A-Za-z0-9+-]+:"
"""The scheme of an address. It has at least two characters, since a single letter is a drive on Windows."""

KIND_PATTERN: Final = re.compile(rf"\.\w+|{SCHEME}")
"""The text that selects the kind of a report: the suffix of a file name, or the scheme of an address."""


@dataclass(frozen=True)
class Address:
    """An address to which a report is sent: its scheme in lower case, with its colon, and the rest."""

    scheme: str
    rest: str

    def __str__(self) -> str:
        """Return the address without the user and the password of a URL in it."""
        from pytest_rageval.lib.secret import HIDDEN, public_url  # noqa: PLC0415 - every run of pytest imports this module

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


def number_parser(kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> Callable[[str], N]:
    """Return a parser of numbers that raises ValueError for any other text. NaN never `fits`."""

    def parse(text: str) -> N:
        with suppress(ValueError):
            value = kind(text)
            if fits(value):
                return value
        raise ValueError(f"expected {allowed}")

    return parse


parse_count: Final = number_parser(int, lambda value: value >= 0, "a whole number, at least 0")
parse_positive_int: Final = number_parser(int, lambda value: value >= 1, "a whole number, at least 1")
parse_seconds: Final = number_parser(float, lambda value: 0 < value < inf, "a number of seconds above 0")
parse_rate: Final = number_parser(float, lambda value: 0 < value < inf, "a number above 0")
parse_amount: Final = number_parser(float, lambda value: 0 <= value < inf, "an amount, at least 0")
parse_odd_int: Final = number_parser(
    int,
    lambda value: value >= 1 and value % 2 == 1,
    "an odd whole number, at least 1: an even number of votes may be tied",
)
parse_temperature: Final = number_parser(float, lambda value: 0 <= value < inf, "a number, at least 0")
parse_share: Final = number_parser(float, lambda value: 0 <= value <= 1, "a share between 0 and 1")
parse_positive_share: Final = number_parser(float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def parse_switch(text: str) -> bool:
    on = text.lower() in {"true", "1", "yes", "on"}
    if not on and text.lower() not in {"false", "0", "no", "off"}:
        raise ValueError("expected true or false")
    return on


def parse_ref(text: str) -> str:
    from pytest_rageval.lib.git import REF  # noqa: PLC0415 - few runs name a commit

    if not REF.fullmatch(text):
        raise ValueError("expected a commit or a branch, such as origin/main")
    return text


def parse_update(text: str) -> bool | Literal["force"]:
    if text.lower() == "force":
        return "force"
    try:
        return parse_switch(text)
    except ValueError:
        raise ValueError("expected nothing, or force") from None


def parse_cutoffs(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(map(parse_positive_int, text.split(","))))
    except ValueError:
        raise ValueError("expected whole numbers from 1, with commas between them, such as 1,5,10") from None


def parse_path(text: str) -> str:
    # In pytest.ini, the quotes of a line that was written for pyproject.toml are a part of the value.
    path = text.strip().strip("\"'")
    if not all(path.split(".")):
        raise ValueError("expected the path of a field, such as metadata.source")
    return path


def choice_parser(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected {' or '.join(words)}")
        return text

    return parse


def parse_base_url(text: str) -> "BaseURL":
    from pytest_rageval.lib.secret import BaseURL  # noqa: PLC0415 - every run of pytest imports this module

    return BaseURL.parse(text)


CACHE_URL: Final = "RAGEVAL_CACHE_URL"
"""The environment variable with the URL of the cache. A URL with a password is accepted only there."""


def parse_cache_option(text: str) -> "Path | StoreURL":
    """Parse a folder or the URL of a store; ValueError for a URL with a password, since others can read options."""
    from pytest_rageval.lib.secret import parse_cache  # noqa: PLC0415 - as above

    location = parse_cache(text)
    if not isinstance(location, Path) and location.private:
        raise ValueError(
            f"a URL with a user or password belongs in the environment variable {CACHE_URL}, since command lines and "
            f"ini files are read by others; here it is {location.public}"
        )
    return location


_CONNECTION_ARGUMENTS: Final = (
    *("organization", "project", "base_url", "http_client", "default_headers", "default_query"),
    *("extra_headers", "extra_query"),
)

REJECTED_ARGUMENTS: Final = {
    "n": "one reply is used of each request",
    "stream": "a reply is kept whole",
    "timeout": "it is an option: --rageval timeout=SECONDS, or the key timeout of the table of a model",
    "max_retries": "it is an option: --rageval retries=N",
    "api_key": "it is read from the environment, and written nowhere",
    **dict.fromkeys(_CONNECTION_ARGUMENTS, "it belongs to the connection, not to a request"),
}
"""Arguments that client libraries accept and that requests of this package must not have, with the reason."""

_FIXED_PARAMETERS: Final = {
    "model": "it is an option: --rageval-model, --rageval-judge-model",
    "messages": "the prompts are the package's own, or those of --rageval prompts=FILE",
    "input": "the prompts are the package's own, or those of --rageval prompts=FILE",
    "response_format": "the prompts say the form of each reply",
}

LENGTH_PARAMETERS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names of the parameter that limits the number of tokens of a reply."""


def parse_parameters(text: str) -> dict[str, object]:
    """Parse a JSON object of request parameters. ValueError says what is allowed.

    >>> parse_parameters('{"reasoning_effort": "low"}')
    {'reasoning_effort': 'low'}
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return check_parameters(value)


def check_parameters(value: object) -> dict[str, object]:
    """Return an object of request parameters unchanged. ValueError says what is allowed."""
    if not isinstance(value, dict):
        message = 'expected an object of parameters, such as {"reasoning_effort": "low"}'
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    for name in value:
        if why := {**REJECTED_ARGUMENTS, **_FIXED_PARAMETERS}.get(name):
            raise ValueError(f"expected parameters of a request, without {name!r}: {why}")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "expected values that JSON has: texts, numbers, booleans, lists and objects"
        ) from None
    return value


def merge_parameters(defaults: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    """Return the package's default parameters of a request, replaced by those of the user.

    A length limit of the user replaces every length limit of the package, whatever its name is.

    >>> merge_parameters({"temperature": 0.5, "max_tokens": 20}, {"max_completion_tokens": 500})
    {'temperature': 0.5, 'max_completion_tokens': 500}
    """
    limited = not own.keys().isdisjoint(LENGTH_PARAMETERS)
    kept = {name: value for name, value in defaults.items() if not (limited and name in LENGTH_PARAMETERS)}
    return {**kept, **own}
