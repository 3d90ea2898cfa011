"""Output of the commands: results on stdout, errors and notes on stderr; and formats of numbers, dates and tables."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from pytest_rageval.lib.text import one_line, plural, printable
from pytest_rageval.reports.layout import align_columns

KILO: Final = 1000

own_options: Final[dict[str, str]] = {}
"""The options of the command that runs, by their spelling in pytest, which messages of shared parts have."""


def echo(*texts: str) -> None:
    """Print texts to stdout, each with a line feed; control characters are escaped."""
    sys.stdout.writelines(f"{printable(text)}\n" for text in texts)


def echo_err(*texts: str) -> None:
    """Print texts to stderr as `echo` does; options are those of the command."""
    sys.stderr.writelines(f"{printable(_with_own_options(text))}\n" for text in texts)


def _with_own_options(text: str) -> str:
    """Replace options of pytest by those of the command, but not where pytest is to be run.

    What a text says in parentheses of an option that the command lacks is left out.
    """
    if not own_options:
        return text
    spellings = "|".join(map(re.escape, sorted(own_options, key=len, reverse=True)))
    text = re.sub(rf"(?<!pytest )(?:{spellings})(?![\w-])", lambda match: own_options[match[0]], text)
    return re.sub(r" \([^()]*(?<!pytest )--rageval-[^()]*\)", "", text)


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
    reasons = map(_with_own_options, reasons)
    return [f"  {number:,} × {to_one_line(reason)}" for reason, number in Counter(reasons).most_common()]
