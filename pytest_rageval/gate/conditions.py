"""What a score depends on beside the retriever, as a fingerprint: whether it is the same as in the baseline."""

from collections.abc import Mapping
from typing import Any, Final

from pytest_rageval.fingerprint import digest

__all__ = ["changes_of", "mark_of"]

NOTED: Final = frozenset({"package"})
"""What a fingerprint tells and does not depend on: of a release, what moves scores has a name of its own."""

SHORT: Final = 8
"""Hex digits that tell the few fingerprints of one score apart."""


def changes_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two fingerprints, a line each."""
    lines = []
    for name in sorted({*before, *now} - NOTED):
        then, today = before.get(name), now.get(name)
        if then != today:
            lines.append(f"{name}: {_shown(then)} in the baseline, {_shown(today)} now")
    return lines


def mark_of(fingerprint: Mapping[str, Any]) -> str:
    """A short digest of a fingerprint, by which each example of the baseline tells that it is its own."""
    return digest({name: value for name, value in fingerprint.items() if name not in NOTED})[:SHORT]


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
