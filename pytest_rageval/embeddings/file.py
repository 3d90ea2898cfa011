"""The file of embeddings: its name, its table, and its maintenance."""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pytest_rageval.errors import StoreError
from pytest_rageval.files import SpecialFileError, planted, refuse_special

__all__ = [
    "COLUMNS",
    "EMBEDDINGS_FILE",
    "TABLE",
    "TIMES",
    "VERSION",
    "Survey",
    "check",
    "checksum",
    "columns",
    "delete_damaged",
    "delete_older",
    "refuse_irregular",
    "survey",
    "unusable",
    "version",
]

EMBEDDINGS_FILE: Final = "embeddings.sqlite"

VERSION: Final = 1
"""Of what is in the file; one that does not say has this one."""

COLUMNS: Final = ("key", "vector", "checksum", "written")
"""The last in seconds since 1970."""

TABLE: Final = """
CREATE TABLE IF NOT EXISTS embeddings (
    key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL, written REAL NOT NULL
)
"""

TIMES: Final = "ALTER TABLE embeddings ADD COLUMN written REAL NOT NULL DEFAULT 0"
"""For files that were made without the last column: what is in them counts as old."""

WITHOUT_TIMES: Final = TABLE.replace(", written REAL NOT NULL", "")

MADE: Final = (
    TABLE,
    WITHOUT_TIMES,
    TABLE.replace("written REAL NOT NULL", "written REAL NOT NULL DEFAULT 0"),
)
"""All forms of the table that this package has ever made."""


def check(connection: sqlite3.Connection, file: Path) -> None:
    """Let pass what this package has made, this version of it or an earlier one; nothing of it is run before.

    Raises:
        StoreError: it is of a later version, or holds something else.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    foreign, found = planted(connection, MADE), version(connection)
    if found > VERSION:
        raise unusable(
            file,
            f"it has version {found}, written by a later version of pytest-rageval; this one reads version {VERSION}",
            "Update pytest-rageval, or name another folder with --rageval-cache-dir.",
        )
    if foreign:
        raise unusable(
            file,
            f"it holds what pytest-rageval did not make: {', '.join(foreign)}",
            "Delete the file: embeddings are made anew, which costs time alone.",
        )


def refuse_irregular(file: Path) -> None:
    """Let pass a file that can be opened, or none.

    Raises:
        StoreError: it is a pipe, a device or a socket.
    """
    try:
        refuse_special(file)
    except SpecialFileError as error:
        raise unusable(file, error, "Delete it.") from None
    except OSError:
        # Missing, or out of reach: opening it says so.
        return


def unusable(file: Path, why: object, remedy: str) -> StoreError:
    """The error for a file in which nothing may be read or written."""
    return StoreError(f"The embeddings in {file} cannot be used: {why}.\n{remedy}")


def version(connection: sqlite3.Connection) -> int:
    """Of what is in the file; 0 where it does not say."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Those of the table that is there; none where there is no table."""
    return tuple(name for _, name, *_ in connection.execute("PRAGMA table_info(embeddings)"))


def checksum(key: str, blob: bytes) -> int:
    """Of an entry, key and vector together."""
    return zlib.crc32(blob, zlib.crc32(key.encode()))


class Survey(NamedTuple):
    """What is in the file.

    Attributes:
        embeddings: how many whole ones.
        damaged: how many others.
        written: when each whole one was kept, in seconds since 1970, ascending.
        bytes: of the file.
    """

    embeddings: int
    damaged: int
    written: list[float]
    bytes: int


def survey(directory: Path) -> Survey | None:
    """What the file in a cache folder holds; None where there is no such file.

    Raises:
        StoreError: SQLite cannot read it, or it is of another version.
    """
    file = directory / EMBEDDINGS_FILE
    if not file.is_file():
        return None
    with _opened(directory, "ro") as connection:
        written = sorted(at for _, at in _whole(connection))
        ((entries,),) = connection.execute("SELECT count(*) FROM embeddings")
    return Survey(len(written), entries - len(written), written, file.stat().st_size)


def delete_older(directory: Path, until: float) -> int:
    """Delete the embeddings that were kept before a time; how many those were. Damaged ones stay.

    Raises:
        StoreError: SQLite cannot read or write the file.
    """
    with _opened(directory, "rw") as connection:
        old = [(row,) for row, at in _whole(connection) if at < until]
        _delete(connection, old)
    return len(old)


def delete_damaged(directory: Path) -> None:
    """Delete the damaged entries: their texts are encoded again.

    Raises:
        StoreError: SQLite cannot read or write the file.
    """
    with _opened(directory, "rw") as connection:
        whole = {row for row, _ in _whole(connection)}
        rows = connection.execute("SELECT rowid FROM embeddings").fetchall()
        _delete(connection, [(row,) for (row,) in rows if row not in whole])


def _whole(connection: sqlite3.Connection) -> Iterator[tuple[int, float]]:
    """Row and time of the entries that are what was kept."""
    # As bytes: a key that is no text any more shall not end the reading.
    statement = "SELECT rowid, CAST(key AS BLOB), vector, checksum, written FROM embeddings"
    for row, key, vector, told, written in connection.execute(statement):
        kinds = isinstance(key, bytes) and isinstance(vector, bytes) and isinstance(written, float)
        if kinds and told == checksum(key.decode(errors="replace"), vector):
            yield row, written


def _delete(connection: sqlite3.Connection, rows: list[tuple[int]]) -> None:
    with connection:
        connection.executemany("DELETE FROM embeddings WHERE rowid = ?", rows)
    if rows:
        connection.execute("VACUUM")


@contextlib.contextmanager
def _opened(directory: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """The file as it is: it is neither made nor begun anew."""
    file = directory / EMBEDDINGS_FILE
    again = "Delete the file if it stays so: they are made anew, which costs time alone."
    try:
        with contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode={mode}", uri=True)
        ) as opened:
            check(opened, file)
            if columns(opened) != COLUMNS:
                raise unusable(file, "its table is of another form, in which nothing is kept", again)
            yield opened
    except sqlite3.Error as error:
        raise unusable(file, error, again) from error
