"""Embeddings on disk, by key, for many processes: they cost time alone, so no accident here stops a run.

What cannot be read counts as missing, what cannot be written is not kept, and
a file that is damaged is begun anew. A file of a later version, or with
something planted in it, is an error.
"""

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, Final, TypeVar

import numpy as np

from pytest_rageval.cache_folder import make_cache_folder, make_private_file
from pytest_rageval.embeddings.encoder import Vectors
from pytest_rageval.embeddings.file import (
    COLUMNS,
    FILE,
    TABLE,
    TIMES,
    VERSION,
    check,
    checksum,
    columns,
    refuse_irregular,
    version,
)

__all__ = ["EmbeddingStore"]

T = TypeVar("T")

WAIT_S: Final = 60.0
"""How long a statement waits for other processes' transactions."""

MOVED: Final = "SQLITE_READONLY_DBMOVED"
"""How SQLite names it when the file that is open does not have its name any more."""

FORM: Final = np.dtype("<f4")
"""Of a number in the file, on every machine."""


class EmbeddingStore:
    """One SQLite file in a cache folder; from any thread.

    Args:
        directory: the folder, made at the first use.

    Raises:
        StoreError: from any method, when the file is of a later version, or holds what this package did not make.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._connection: sqlite3.Connection | None = None
        self._lock = RLock()

    def get_many(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """The vectors kept under these keys; a key without one, or with a damaged one, is not in the result."""
        wanted = json.dumps(sorted(keys))

        def read(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
            return connection.execute(
                "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))",
                (wanted,),
            ).fetchall()

        rows = self._attempt(read) or []
        return {
            key: np.frombuffer(blob, FORM).astype(np.float32, copy=False)
            for key, blob, told in rows
            if isinstance(blob, bytes) and told == checksum(key, blob)
        }

    def put_many(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors, all or none; then other processes see them, and this one may be killed."""
        blobs = {key: vector.astype(FORM, copy=False).tobytes() for key, vector in vectors.items()}
        rows = [(key, blob, checksum(key, blob), time.time()) for key, blob in blobs.items()]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", rows)

        self._attempt(write)

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What the work gives; None where the file does not let it."""
        with self._lock:
            try:
                try:
                    return work(self._opened())
                except sqlite3.OperationalError as error:
                    if getattr(error, "sqlite_errorname", "") != MOVED:
                        raise
                    # The folder was removed meanwhile: what comes is kept in a new one.
                    self.close()
                    return work(self._opened())
            except (sqlite3.OperationalError, OSError):
                # It may not be written, it is full, another holds it too long.
                return None
            except sqlite3.DatabaseError:
                self._begin_anew()
                return None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_cache_folder(self._directory)
            file = self._directory / FILE
            refuse_irregular(file)
            make_private_file(file)
            # Not the write-ahead log: one file can be read where nothing may be written, and thrown away whole.
            connection = sqlite3.connect(file, timeout=WAIT_S, check_same_thread=False)
            try:
                check(connection, file)
                # Nothing is lost when a process is killed; when the power fails, a damaged file is begun anew.
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(TABLE)
                if columns(connection) == COLUMNS[:-1]:
                    connection.execute(TIMES)
                if version(connection) < VERSION:
                    with contextlib.suppress(sqlite3.OperationalError):
                        # A file that may only be read stays as it is.
                        connection.execute(f"PRAGMA user_version = {VERSION}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _begin_anew(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            # The journal first: it would be played back into the new file.
            (self._directory / f"{FILE}-journal").unlink(missing_ok=True)
            (self._directory / FILE).unlink(missing_ok=True)
