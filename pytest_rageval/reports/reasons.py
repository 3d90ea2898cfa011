"""Why examples have no score, below its row: it is not defined for them, or they could not be scored."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["undefined_text", "unscored_text"]

SHOWN: Final = 5
"""How many different reasons are told."""


def undefined_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line: "3 undefined: 3 × nothing was cited"; empty where it is defined for all."""
    return _told(entry, "undefined")


def unscored_text(entry: Mapping[str, Any]) -> str:
    """Likewise of those that should have a score: "4 unscored: 4 × no gold passages"."""
    return _told(entry, "unscored")


def _told(entry: Mapping[str, Any], what: str) -> str:
    reasons = Counter(
        " ".join(example[what].split())
        for example in entry.get("examples", ())
        if example.get(what) is not None
    )
    told = [f"{count} × {reason}" for reason, count in reasons.most_common(SHOWN)]
    more = [f"{len(reasons) - SHOWN} more reasons"] if len(reasons) > SHOWN else []
    return f"{reasons.total()} {what}: {', '.join([*told, *more])}" if told else ""
