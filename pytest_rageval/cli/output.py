"""Output of the commands: results on stdout, everything else on stderr."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pytest_rageval.printable import one_line, printable

__all__ = ["count", "date", "note", "plain", "say", "size", "table"]

KILO: Final = 1000


def say(text: str) -> None:
    """A line of the result."""
    sys.stdout.write(f"{printable(text)}\n")


def note(text: str) -> None:
    """A line beside the result: an error, or what should be known."""
    sys.stderr.write(f"{printable(text)}\n")


def plain(text: str | bytes) -> str:
    """A text out of a file, on one line."""
    return repr(text) if isinstance(text, bytes) else one_line(text)


def count(number: int, what: str) -> str:
    """A number of things: "1 reply", "5,000 replies"."""
    if number != 1:
        what = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what}"


def size(number: float) -> str:
    """Bytes in the unit that suits: "4.1 kB"; units are powers of 1000."""
    units = ["B", "kB", "MB", "GB"]
    while number >= KILO and len(units) > 1:
        number /= KILO
        del units[0]
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def date(seconds: float) -> str:
    """Seconds since 1970 as an ISO date and time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under their heads: the first one to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in (head, *rows)
    )
