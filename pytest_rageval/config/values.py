"""From what was typed to a value: each raises ValueError, whose text says what is allowed."""

from collections.abc import Callable
from typing import Literal, TypeVar

__all__ = [
    "amount",
    "count",
    "is_ci",
    "odd",
    "part",
    "positive",
    "rate",
    "seconds",
    "share",
    "switch",
    "update",
]

N = TypeVar("N", int, float)


def positive(text: str) -> int:
    """A whole number from 1."""
    return _number(text, int, lambda value: value >= 1, "a whole number, at least 1")


def odd(text: str) -> int:
    """A whole number from 1 that is odd."""
    allowed = "an odd whole number, at least 1: an even number of votes may be tied"
    return _number(text, int, lambda value: value >= 1 and value % 2 == 1, allowed)


def count(text: str) -> int:
    """A whole number from 0."""
    return _number(text, int, lambda value: value >= 0, "a whole number, at least 0")


def seconds(text: str) -> float:
    """A time."""
    return _number(text, float, lambda value: 0 < value < float("inf"), "a number of seconds above 0")


def share(text: str) -> float:
    """A share, which may be none."""
    return _number(text, float, lambda value: 0 <= value <= 1, "a share between 0 and 1")


def part(text: str) -> float:
    """A share that is some."""
    return _number(text, float, lambda value: 0 < value <= 1, "a share above 0, at most 1")


def rate(text: str) -> float:
    """How many a minute."""
    return _number(text, float, lambda value: 0 < value < float("inf"), "a number above 0")


def amount(text: str) -> float:
    """Of money."""
    return _number(text, float, lambda value: 0 <= value < float("inf"), "an amount, at least 0")


def _number(text: str, kind: Callable[[str], N], fits: Callable[[N], bool], allowed: str) -> N:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"expected {allowed}") from None
    if not fits(value):
        raise ValueError(f"expected {allowed}")
    return value


def switch(text: str) -> bool:
    """On or off, as ini files say it."""
    known = {"true": True, "1": True, "yes": True, "on": True}
    known |= {"false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        message = "expected true or false"
        raise ValueError(message)
    return known[text.lower()]


def update(text: str) -> bool | Literal["force"]:
    """On or off, or on where it is refused otherwise."""
    if text.lower() == "force":
        return "force"
    try:
        return switch(text)
    except ValueError:
        message = "expected nothing, or force"
        raise ValueError(message) from None


def is_ci(value: str | None) -> bool:
    """Whether the environment variable CI says that this is a build server."""
    return (value or "").strip().lower() not in {"", "0", "false", "no", "off"}
