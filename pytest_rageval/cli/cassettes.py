"""A cassette looked at line by line, so that everything wrong with it is told at once."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rageval.cli.show import count
from pytest_rageval.errors import InputError
from pytest_rageval.llm.cassette import LaterVersionError, cassette_lines, read_entry
from pytest_rageval.llm.reply import Reply
from pytest_rageval.llm.store import Entry

__all__ = ["Check", "check_cassette"]


@dataclass(slots=True)
class Check:
    """What was found.

    Attributes:
        replies: how many good ones are there, one a key.
        damage: each line that is no reply, with its number and why; and where the file breaks off.
        notices: what does no harm: other replies under one key (the first counts), repeated lines,
            lines out of order.
    """

    replies: int = 0
    damage: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def check_cassette(path: Path) -> Check:
    """Look at every line. One that is not UTF-8 does not hide the others.

    Raises:
        InputError: the file is not there, or may not be read.
        StoreError: it is larger than any recording.
    """
    check = Check()
    seen: dict[str, tuple[int, Reply]] = {}
    repeated, unsorted, before = 0, [], ""
    for number, entry in _entries(path, check):
        first, reply = seen.setdefault(entry.key, (number, entry.reply))
        if reply != entry.reply:
            check.notices.append(
                f"line {number} has another reply to the request of line {first}; the first one counts"
            )
        elif first != number:
            repeated += 1
        if entry.key < before:
            unsorted.append(number)
        before = max(before, entry.key)
    if repeated:
        check.notices.append(
            "1 line repeats another" if repeated == 1 else f"{repeated:,} lines repeat others"
        )
    if unsorted:
        check.notices.append(f"{count(len(unsorted), 'line')} out of order, the first is line {unsorted[0]}")
    check.replies = len(seen)
    return check


def _entries(path: Path, check: Check) -> Iterator[tuple[int, Entry]]:
    """The good lines with their numbers; the others go to the check."""
    number = 0
    try:
        for number, line in enumerate(cassette_lines(path, "surrogateescape"), 1):
            if line.strip():
                try:
                    entry = _entry(line)
                except LaterVersionError as error:
                    check.damage.append(f"line {number}: {error}")
                except ValueError as error:
                    check.damage.append(f"line {number} is no recorded reply: {error}")
                else:
                    yield number, entry
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        check.damage.append(f"it breaks off after line {number}: {error}")
    except OSError as error:
        raise InputError(f"The cassette {path} cannot be read: {error}.\nCheck the name.") from error


def _entry(line: str) -> Entry:
    if not line.isascii():
        try:
            line.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("it is not UTF-8") from None
    return read_entry(line)
