"""The file of embeddings: its name, its version, its one table, and what tells a whole entry."""

import sqlite3
import zlib
from pathlib import Path
from typing import Final

from pytest_rageval.cache_folder import planted
from pytest_rageval.errors import StoreError
from pytest_rageval.regular_file import SpecialFileError, refuse_special

__all__ = [
    "COLUMNS",
    "FILE",
    "TABLE",
    "TIMES",
    "VERSION",
    "check",
    "checksum",
    "columns",
    "refuse_irregular",
    "unusable",
    "version",
]

FILE: Final = "embeddings.sqlite"

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
