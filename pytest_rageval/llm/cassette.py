"""Replies in a text file that belongs in git: one a line, sorted by key, compressed if it ends in .gz.

The version stands in the lines: git merges line by line (`merge=union`), and
would merge a first line with a version like any other. A line without a version
is of version 1, which is the one that is written.
"""

import gzip
import json
import reprlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final, cast

from pytest_rageval.errors import StoreError
from pytest_rageval.files import refuse_special, write_whole
from pytest_rageval.llm.messages import Reply, read_outline
from pytest_rageval.llm.store import Entry

__all__ = [
    "LaterVersionError",
    "cassette_lines",
    "entry_line",
    "read_cassette",
    "read_entry",
    "write_cassette",
]

VERSION: Final = 1

MIB: Final = 2**20

MOST_OF_A_LINE: Final = 16 * MIB
"""Bytes, decompressed: a reply of the largest size, with its prompt."""

MOST: Final = 1024 * MIB
"""Likewise of a whole cassette."""

LEAST_OF_A_LINE: Final = 512
"""As so many bytes counts even a shorter line: an entry takes that in memory."""


class LaterVersionError(ValueError):
    """A line was written by a later version of this package; it may mean what this one does not know."""


def read_cassette(path: Path) -> dict[str, Entry]:
    """All replies of a cassette by key; of two under one key, as a merge may leave them, the first.

    Raises:
        StoreError: the file cannot be read, or a line of it is no reply: file, line and why.
    """
    entries: dict[str, Entry] = {}
    try:
        for number, line in enumerate(cassette_lines(path), 1):
            if line.strip():
                try:
                    entry = read_entry(line)
                except LaterVersionError as error:
                    message = f"{path} line {number}: {error}.\nUpdate pytest-rageval."
                    raise StoreError(message) from None
                except ValueError as error:
                    message = (
                        f"{path} line {number} is no recorded reply: {error}.\n"
                        "Take the line out (after a merge conflict, both sides may stay), "
                        "or delete the file and record it anew with --rageval-record."
                    )
                    raise StoreError(message) from None
                entries.setdefault(entry.key, entry)
    except (OSError, EOFError, zlib.error) as error:
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
    version = {"version": VERSION} if VERSION > 1 else {}
    return entry.reply.dumps(key=entry.key, **version, **outline)


def read_entry(line: str) -> Entry:
    """The inverse of `entry_line`.

    Raises:
        ValueError: the line is no such entry; it says why.
        LaterVersionError: it is one of a later version.
    """
    try:
        record = json.loads(line)
    except RecursionError:
        message = "it is nested too deeply"
        raise ValueError(message) from None
    if isinstance(record, dict):
        _check_version(record.pop("version", 1))
    key = record.pop("key", None) if isinstance(record, dict) else None
    if not isinstance(key, str):
        message = "the key is missing"
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    if not key.isascii():
        message = f"the key is {reprlib.repr(key)}, expected hexadecimal digits"
        raise ValueError(message)
    told = record.pop("request", {})
    outline = read_outline(told)
    if told and not outline:
        message = f"'request' is {reprlib.repr(told)}, expected an object that describes a request"
        raise ValueError(message)
    return Entry(key, Reply.of(record), outline)


def cassette_lines(path: Path, errors: str = "strict") -> Iterator[str]:
    """The lines of a cassette as they stand there.

    Args:
        path: of the file.
        errors: what becomes of bytes that are not UTF-8, as `bytes.decode` has it.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read, or not further.
        StoreError: a line, or all of them together, are larger than any recording; or not UTF-8.
    """
    refuse_special(path)
    with path.open("rb") as file:
        stream = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
        number = total = 0
        while raw := stream.readline(MOST_OF_A_LINE + 1):
            number += 1
            total += max(len(raw), LEAST_OF_A_LINE)
            for size, most, what in ((len(raw), MOST_OF_A_LINE, f" line {number}"), (total, MOST, "")):
                if size > most:
                    message = (
                        f"{path}{what} is larger than {most // MIB} MiB{_decompressed(path)}, and was not read on: no "
                        "recording is.\nTake the file from git again, or record it anew with --rageval-record."
                    )
                    raise StoreError(message)
            try:
                # An editor may have put a mark at its beginning.
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8", errors)
            except UnicodeDecodeError as error:
                message = (
                    f"The cassette {path} cannot be read: line {number} is not UTF-8 ({error}).\n"
                    "Save it in UTF-8, or take it from git again."
                )
                raise StoreError(message) from None


def _decompressed(path: Path) -> str:
    return " when decompressed" if path.suffix == ".gz" else ""


def _check_version(version: object) -> None:
    if type(version) is not int or version < 1:
        message = f"'version' is {reprlib.repr(version)}, expected a whole number"
        raise ValueError(message)
    if version > VERSION:
        message = (
            f"it is of version {version}, written by a later pytest-rageval; this one reads version {VERSION}"
        )
        raise LaterVersionError(message)
