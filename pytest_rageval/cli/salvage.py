"""Replies out of a cache file that SQLite will not read.

SQLite gives a file up when one page that leads to others is gone. The other
pages still hold whole replies, each with its checksum: so every page is looked
at by itself, after https://www.sqlite.org/fileformat2.html.
"""

import itertools
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.maintenance import COLUMNS, Damaged, inspect
from pytest_rageval.llm.store import Database, Entry

__all__ = ["salvage"]

PAGE_SIZES: Final = {2**n for n in range(9, 17)}
USUAL_PAGE_SIZE: Final = 4096

CELLS: Final = {0x0A: (8, 0), 0x02: (12, 4)}
"""Kinds of page that hold rows of a table without row ids: where cell pointers begin, and a cell's rest."""

INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
FLOAT, ZERO, ONE = 7, 8, 9
FIRST_BLOB, FIRST_TEXT = 12, 13

VARINT_BYTES: Final = 9

PUT: Final = (
    f"INSERT INTO replies ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "  # noqa: S608 - our own names
    "ON CONFLICT (key) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in COLUMNS)
    + " WHERE excluded.written > replies.written"
)


def salvage(file: Path) -> Iterator[Entry | Damaged]:
    """The entries that are found in the pages of a cache file, by key, good or damaged.

    Of several under one key, the newest. A reply that was deleted may be among them: its page can be
    there still. What is in a `-wal` file beside it is not looked at.

    Raises:
        OSError: the file cannot be read.
        StoreError: the folder for temporary files cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="rageval-") as folder:
        # In a whole cache, they are read and checked as all others are.
        database = Database(Path(folder))
        try:
            with database.transaction():
                for row in _rows(file.read_bytes()):
                    _put(database, row)
            yield from inspect(database)
        finally:
            database.close()


def _put(database: Database, row: list[Any]) -> None:
    try:
        database.execute(PUT, row)
    except StoreError as error:
        if getattr(error.__cause__, "sqlite_errorname", "").startswith("SQLITE_CONSTRAINT"):
            return  # a column is empty that never is: no reply
        raise


def _rows(content: bytes) -> Iterator[list[Any]]:
    """All rows that look like replies."""
    size = int.from_bytes(content[16:18])
    size = 2**16 if size == 1 else size
    size = size if size in PAGE_SIZES else USUAL_PAGE_SIZE
    usable = size - content[20] if len(content) > size and content[20] < size // 8 else size
    # The first page tells of the tables; no reply is on it.
    for start in range(size, len(content), size):
        for position in _cells(content, start, size):
            try:
                row = _record(_payload(content, position, size, usable))
            except (IndexError, ValueError, struct.error):
                continue  # not a page of ours, or a damaged one
            if len(row) == len(COLUMNS):
                yield row


def _cells(content: bytes, start: int, size: int) -> Iterator[int]:
    """Where on a page the payloads of its cells begin."""
    first, before = CELLS.get(content[start], (0, 0))
    if not first:
        return
    number = int.from_bytes(content[start + 3 : start + 5])
    for pointer in range(start + first, min(start + first + 2 * number, start + size), 2):
        offset = int.from_bytes(content[pointer : pointer + 2])
        if offset < size:
            yield start + offset + before


def _payload(content: bytes, position: int, size: int, usable: int) -> bytes:
    """The bytes of a row: on its page, and what does not fit there on a chain of others."""
    length, position = _varint(content, position)
    if length > len(content):
        raise ValueError("longer than the file")
    most, least = (usable - 12) * 64 // 255 - 23, (usable - 12) * 32 // 255 - 23
    if length <= most:
        return content[position : position + length]
    local = least + (length - least) % (usable - 4)
    local = local if local <= most else least
    parts, missing = [content[position : position + local]], length - local
    after = position + local
    while missing > 0:
        # From page to page, at most as often as there is something to find.
        page = (int.from_bytes(content[after : after + 4]) - 1) * size
        if page < 0 or page >= len(content):
            raise ValueError("the chain of pages is broken")
        parts.append(content[page + 4 : page + 4 + min(missing, usable - 4)])
        missing -= usable - 4
        after = page
    return b"".join(parts)


def _record(payload: bytes) -> list[Any]:
    """The columns of a row."""
    end, position = _varint(payload, 0)
    kinds = []
    while position < end:
        kind, position = _varint(payload, position)
        kinds.append(kind)
    return [
        _value(kind, payload[start:stop])
        for kind, (start, stop) in zip(
            kinds, itertools.pairwise(itertools.accumulate(map(_width, kinds), initial=end)), strict=True
        )
    ]


def _width(kind: int) -> int:
    """How many bytes a value takes."""
    if kind >= FIRST_BLOB:
        return (kind - FIRST_BLOB) // 2
    return 8 if kind == FLOAT else INTEGER_BYTES.get(kind, 0)


def _value(kind: int, content: bytes) -> Any:
    if len(content) != _width(kind):
        raise ValueError("the row breaks off")
    if kind in INTEGER_BYTES:
        return int.from_bytes(content, signed=True)
    if kind == FLOAT:
        return struct.unpack(">d", content)[0]
    if kind in {ZERO, ONE}:
        return kind - ZERO
    if kind >= FIRST_TEXT and kind % 2:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            return content  # as bytes, which is then named as damage
    return content if kind >= FIRST_BLOB else None


def _varint(content: bytes, position: int) -> tuple[int, int]:
    """A number of SQLite's, of one to nine bytes, and where it ends."""
    number = 0
    for read in range(1, VARINT_BYTES + 1):
        byte = content[position]
        position += 1
        if read == VARINT_BYTES:
            return number << 8 | byte, position
        number = number << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004 - the bit that says "and on"
            break
    return number, position
