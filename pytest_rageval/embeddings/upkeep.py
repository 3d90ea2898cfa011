"""Looking after the file of embeddings: what is in it, what of it is damaged, what is old."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_rageval.embeddings.file import COLUMNS, FILE, check, checksum, columns, unusable

__all__ = ["Survey", "delete_damaged", "delete_older", "survey"]


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
    file = directory / FILE
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
    file = directory / FILE
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
