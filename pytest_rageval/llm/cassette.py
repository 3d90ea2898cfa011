"""Replies in a text file that belongs in git: one a line, sorted by key, compressed if it ends in .gz."""

import gzip
import json
import reprlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_rageval.errors import StoreError
from pytest_rageval.file_writing import write_whole
from pytest_rageval.llm.reply import Reply
from pytest_rageval.llm.store import Entry

__all__ = ["entry_line", "read_cassette", "read_entry", "write_cassette"]


def read_cassette(path: Path) -> dict[str, Entry]:
    """All replies of a cassette by key; of two under one key, as a merge may leave them, the first.

    Raises:
        StoreError: the file cannot be read, or a line of it is no reply: file, line and why.
    """
    entries: dict[str, Entry] = {}
    try:
        for number, line in enumerate(_lines(path), 1):
            if line.strip():
                try:
                    entry = read_entry(line)
                except ValueError as error:
                    message = (
                        f"{path} line {number} is no recorded reply: {error}.\n"
                        "Take the line out (after a merge conflict, both sides may stay), "
                        "or delete the file and record it anew with --rageval-record."
                    )
                    raise StoreError(message) from None
                entries.setdefault(entry.key, entry)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        message = (
            f"The cassette {path} cannot be read: {error}.\n"
            "Check --rageval-cassette; or record it anew with --rageval-record, and delete it first if it is there."
        )
        raise StoreError(message) from error
    return entries


def write_cassette(path: Path, entries: Iterable[Entry]) -> None:
    """Write the replies as the whole content of the file, all or nothing.

    The same replies make the same file, byte by byte.

    Raises:
        StoreError: the file cannot be written; the file of before still stands.
    """
    ordered = sorted(entries, key=lambda entry: entry.key)
    content = "".join(f"{entry_line(entry)}\n" for entry in ordered).encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, [content])
    except OSError as error:
        message = f"The cassette {path} cannot be written: {error}."
        raise StoreError(message) from error


def entry_line(entry: Entry) -> str:
    """One line of a cassette, without its end."""
    outline = {"request": dict(entry.outline)} if entry.outline else {}
    return entry.reply.dumps(key=entry.key, **outline)


def read_entry(line: str) -> Entry:
    """The inverse of `entry_line`.

    Raises:
        ValueError: the line is no such entry; it says why.
    """
    try:
        record = json.loads(line)
    except RecursionError:
        message = "it is nested too deeply"
        raise ValueError(message) from None
    key = record.pop("key", None) if isinstance(record, dict) else None
    if not isinstance(key, str):
        message = "the key is missing"
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    if not key.isascii():
        message = f"the key is {key!r}, expected hexadecimal digits"
        raise ValueError(message)
    outline = record.pop("request", {})
    if not isinstance(outline, dict):
        message = f"'request' is {reprlib.repr(outline)}, expected an object"
        raise ValueError(message)  # noqa: TRY004 - likewise
    return Entry(key, Reply.of(record), outline)


def _lines(path: Path) -> Iterator[str]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8-sig") as lines:
            yield from lines
    else:
        # An editor may have put a mark at its beginning.
        with path.open(encoding="utf-8-sig") as lines:
            yield from lines
