"""Output of the commands: results on stdout, errors and notes on stderr."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from pytest_rageval.plural import plural
from pytest_rageval.printable import one_line, printable
from pytest_rageval.reports.layout import align_columns

__all__ = ["count", "date", "note", "plain", "reason_lines", "say", "size", "table"]

KILO: Final = 1000


def say(text: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(f"{printable(text)}\n")


def note(text: str) -> None:
    """Print an error or a note."""
    sys.stderr.write(f"{printable(text)}\n")


def plain(text: str | bytes) -> str:
    """Return a text from a file on one line."""
    return repr(text) if isinstance(text, bytes) else one_line(text)


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 reply", "5,000 replies"."""
    return f"{number:,} {plural(number, noun)}"


def size(number: float) -> str:
    """Return a number of bytes with a unit, a power of 1000: "4.1 kB"."""
    units = ["B", "kB", "MB", "GB"]
    while number >= KILO and len(units) > 1:
        number /= KILO
        del units[0]
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def date(seconds: float) -> str:
    """Return seconds since 1970 as an ISO date and time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns under their heads: the first to the left, the others to the right."""
    return "\n".join(align_columns([head, *rows], right=range(1, len(head))))


def reason_lines(reasons: Iterable[str]) -> list[str]:
    """Return a line for each reason with its number, the most frequent first: "  3 × no answer"."""
    return [f"  {number:,} × {plain(reason)}" for reason, number in Counter(reasons).most_common()]
