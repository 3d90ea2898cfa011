"""The file of embeddings: its name, its one table, and what tells a whole entry."""

import sqlite3
import zlib
from typing import Final

__all__ = ["COLUMNS", "FILE", "TABLE", "TIMES", "checksum", "columns"]

FILE: Final = "embeddings.sqlite"

COLUMNS: Final = ("key", "vector", "checksum", "written")
"""The last in seconds since 1970."""

TABLE: Final = """
CREATE TABLE IF NOT EXISTS embeddings (
    key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL, written REAL NOT NULL
)
"""

TIMES: Final = "ALTER TABLE embeddings ADD COLUMN written REAL NOT NULL DEFAULT 0"
"""For files that were made without the last column: what is in them counts as old."""


def columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Those of the table that is there; none where there is no table."""
    return tuple(name for _, name, *_ in connection.execute("PRAGMA table_info(embeddings)"))


def checksum(key: str, blob: bytes) -> int:
    """Of an entry, key and vector together."""
    return zlib.crc32(blob, zlib.crc32(key.encode()))
