"""Output of the commands: results on stdout, errors and notes on stderr; and formats of numbers, dates and tables."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from pytest_rageval.lib.text import one_line, plural, printable
from pytest_rageval.reports.layout import align_columns

KILO: Final = 1000


def echo(text: str) -> None:
    """Print a text and a line feed to stdout; control characters are escaped."""
    sys.stdout.write(f"{printable(text)}\n")


def echo_err(text: str) -> None:
    """Print a text and a line feed to stderr; control characters are escaped."""
    sys.stderr.write(f"{printable(text)}\n")


def to_one_line(text: str | bytes) -> str:
    """Escape a text from a file so that it prints on one line; bytes become their `repr`."""
    return repr(text) if isinstance(text, bytes) else one_line(text)


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 reply", "5,000 replies"."""
    return f"{number:,} {plural(number, noun)}"


def format_bytes(number: float) -> str:
    """Return a number of bytes with a unit, a power of 1000: "4.1 kB"."""
    units = ["B", "kB", "MB", "GB"]
    while number >= KILO and len(units) > 1:
        number /= KILO
        del units[0]
    return f"{number:.0f} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def format_timestamp(seconds: float) -> str:
    """Return seconds since 1970 as an ISO 8601 date and time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text below a header line; the first column is left-aligned, all other columns right-aligned."""
    return "\n".join(align_columns([head, *rows], right=range(1, len(head))))


def reason_lines(reasons: Iterable[str]) -> list[str]:
    """Return one line for each distinct reason with its count, the most frequent first: "  3 × no answer"."""
    return [f"  {number:,} × {to_one_line(reason)}" for reason, number in Counter(reasons).most_common()]
