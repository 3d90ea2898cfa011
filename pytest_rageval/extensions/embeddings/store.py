"""The stores of embeddings: an SQLite file in a cache folder, with its maintenance; or the reply store of a team.

Losing embeddings costs only time, so no fault of the file stops a run: an unreadable entry counts as missing, a failed
write is ignored, and a damaged file is replaced by an empty one.
"""

import base64
import binascii
import contextlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Final, TypeVar

from pytest_rageval.core.errors import StoreError
from pytest_rageval.lib.cache_folder import (
    UntrustedFolderError,
    foreign_objects,
    make_cache_folder,
    make_private_file,
)
from pytest_rageval.lib.files import SpecialFileError, refuse_special
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry, ReplyStore
from pytest_rageval.options.command import Survey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE: Final = "embeddings.sqlite"
FORMAT_VERSION: Final = 1  # the version of the file's format
TABLE: Final = """
CREATE TABLE IF NOT EXISTS embeddings (
    key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL, written REAL NOT NULL
)
"""
"""`written` is a time in seconds since 1970."""

FILE_DTYPE: Final = "<f4"  # the numpy dtype of a vector in the file, on every machine
BUSY_TIMEOUT_S: Final = 60.0  # the time for which a statement waits for other processes' transactions
FILE_MOVED: Final = "SQLITE_READONLY_DBMOVED"  # SQLite's error for an open file that was removed or renamed
T = TypeVar("T")


class EmbeddingStore:
    """The embeddings in a cache folder. The file is created at the first use. Any thread may use the store.

    Every method raises StoreError if the file has a later version or foreign contents.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._connection: sqlite3.Connection | None = None
        self._lock = RLock()

    def get_many(self, keys: Iterable[str]) -> "dict[str, NDArray[np.float32]]":
        """Return the vectors stored under these keys, without missing and damaged ones."""
        import numpy as np  # noqa: PLC0415 - not needed for maintenance

        sql = "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))"
        parameters = (json.dumps(sorted(keys)),)
        rows = self._attempt(lambda connection: connection.execute(sql, parameters).fetchall())
        return {
            key: np.frombuffer(blob, FILE_DTYPE).astype(np.float32, copy=False)
            for key, blob, checksum in rows or []
            if isinstance(blob, bytes) and checksum == _checksum(key, blob)
        }

    def put_many(self, vectors: "Mapping[str, NDArray[np.float32]]") -> None:
        blobs = {key: vector.astype(FILE_DTYPE, copy=False).tobytes() for key, vector in vectors.items()}
        rows = [(key, blob, _checksum(key, blob), time.time()) for key, blob in blobs.items()]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", rows)

        self._attempt(write)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of work on the file; None if the file cannot be used. Delete a damaged file."""
        with self._lock:
            try:
                try:
                    return work(self._connect())
                except sqlite3.OperationalError as error:
                    if getattr(error, "sqlite_errorname", "") != FILE_MOVED:
                        raise
                    # The folder was removed while the file was open. `_connect` creates a new one.
                    self.close()
                    return work(self._connect())
            except UntrustedFolderError as error:
                raise StoreError(
                    f"The embeddings in {self._directory} cannot be used: {error}.\n"
                    f"Name another folder with --rageval-cache DIR; or {error.remedy}."
                ) from None
            except (sqlite3.OperationalError, OSError):
                # The file is read-only, the disk is full, or the file was locked for too long.
                return None
            except sqlite3.DatabaseError:
                self.close()
                with contextlib.suppress(OSError):
                    # The journal is deleted first, because SQLite would apply it to the new file.
                    for name in (f"{FILE}-journal", FILE):
                        (self._directory / name).unlink(missing_ok=True)
                return None

    def _connect(self) -> sqlite3.Connection:
        """Return the open connection; if there is none, open the file, and create it if it is missing."""
        if self._connection is None:
            make_cache_folder(self._directory)
            file = self._directory / FILE
            _check_regular(file)
            make_private_file(file)
            # Without a write-ahead log, the file is readable in a read-only folder, and easy to delete.
            connection = sqlite3.connect(file, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
            try:
                _check_contents(connection, file)
                # This is safe if a process is killed. A file that was damaged by a power failure is replaced.
                connection.execute("PRAGMA synchronous = OFF")
                if not _version(connection):
                    connection.execute(TABLE)
                    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection


class SharedEmbeddings:
    """The interface of `EmbeddingStore` over a reply store. Each vector is the text of a reply, in base64.

    `open_store` is called at the first use. A vector that cannot be read counts as missing, and one that cannot be
    written is not stored.
    """

    def __init__(self, open_store: Callable[[], ReplyStore]) -> None:
        self._open_store = open_store
        self._store: ReplyStore | None = None
        self._unusable = False
        self._lock = Lock()

    def get_many(self, keys: Iterable[str]) -> "dict[str, NDArray[np.float32]]":
        import numpy as np  # noqa: PLC0415 - not needed for maintenance

        keys = list(keys)
        vectors = {}
        for key, reply in (self._attempt(lambda store: store.get_many(keys)) or {}).items():
            with contextlib.suppress(binascii.Error, ValueError):
                vector = np.frombuffer(base64.b64decode(reply.text, validate=True), FILE_DTYPE)
                vectors[key] = vector.astype(np.float32, copy=False)
        return vectors

    def put_many(self, vectors: "Mapping[str, NDArray[np.float32]]") -> None:
        entries = [
            Entry(key, Reply(base64.b64encode(vector.astype(FILE_DTYPE, copy=False).tobytes()).decode()))
            for key, vector in vectors.items()
        ]
        self._attempt(lambda store: store.keep(entries))

    def close(self) -> None:
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                with contextlib.suppress(StoreError):
                    store.close()

    def _attempt(self, operation: Callable[[ReplyStore], T]) -> T | None:
        """Return the result of an operation on the store; None after the first error, for all further operations."""
        with self._lock:
            if self._unusable:
                return None
            try:
                self._store = self._store or self._open_store()
                return operation(self._store)
            except StoreError:
                self._unusable = True
                return None


def survey(directory: Path) -> Survey | None:
    """Return the contents of the file in a cache folder; None if there is no file, StoreError if it cannot be used."""
    file = directory / FILE
    if not file.is_file():
        return None
    with _open_for_maintenance(directory, "ro") as connection:
        times = sorted(written for _, written in _good_rows(connection))
        ((entries,),) = connection.execute("SELECT count(*) FROM embeddings")
    return Survey(len(times), entries - len(times), times, file.stat().st_size)


def delete_older(directory: Path, until: float) -> int:
    """Delete the good embeddings that were stored before a time in seconds since 1970; return their number."""
    with _open_for_maintenance(directory, "rw") as connection:
        old = [(row_id,) for row_id, written in _good_rows(connection) if written < until]
        _delete_rows(connection, old)
    return len(old)


def delete_damaged(directory: Path) -> None:
    """Delete the damaged embeddings. Their texts are encoded again when they are needed."""
    with _open_for_maintenance(directory, "rw") as connection:
        good = {row_id for row_id, _ in _good_rows(connection)}
        rows = connection.execute("SELECT rowid FROM embeddings").fetchall()
        _delete_rows(connection, [(row_id,) for (row_id,) in rows if row_id not in good])


def _good_rows(connection: sqlite3.Connection) -> Iterator[tuple[int, float]]:
    # Keys are read as bytes, because Python would raise an error for a key that is not UTF-8.
    statement = "SELECT rowid, CAST(key AS BLOB), vector, checksum, written FROM embeddings"
    for row_id, key, vector, checksum, written in connection.execute(statement):
        valid = isinstance(key, bytes) and isinstance(vector, bytes) and isinstance(written, float)
        if valid and checksum == _checksum(key.decode(errors="replace"), vector):
            yield row_id, written


def _delete_rows(connection: sqlite3.Connection, row_ids: list[tuple[int]]) -> None:
    with connection:
        connection.executemany("DELETE FROM embeddings WHERE rowid = ?", row_ids)
    if row_ids:
        connection.execute("VACUUM")


@contextlib.contextmanager
def _open_for_maintenance(directory: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open the existing file, which is neither created nor replaced; StoreError if it cannot be used."""
    file = directory / FILE
    remedy = "If this persists, delete the file: embeddings are computed again, which costs only time."
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            _check_contents(connection, file)
            yield connection
    except sqlite3.Error as error:
        raise _unusable(file, error, remedy) from error


def _check_contents(connection: sqlite3.Connection, file: Path) -> None:
    """Raise StoreError for a later version or foreign contents, before a foreign object can run code."""
    connection.execute("PRAGMA trusted_schema = OFF")
    foreign, version = foreign_objects(connection, [TABLE]), _version(connection)
    if version > FORMAT_VERSION:
        later = f"it has version {version}, written by a later version of pytest-rageval"
        remedy = "Update pytest-rageval, or name another folder with --rageval-cache DIR."
        raise _unusable(file, f"{later}; this one reads version {FORMAT_VERSION}", remedy)
    if foreign:
        remedy = "Delete the file: embeddings are computed again, which costs only time."
        raise _unusable(
            file, f"it contains tables that pytest-rageval did not create: {', '.join(foreign)}", remedy
        )


def _check_regular(file: Path) -> None:
    try:
        refuse_special(file)
    except SpecialFileError as error:
        raise _unusable(file, error, "Delete it.") from None
    except OSError:
        # The file is missing or not accessible. Opening it will create it or raise the error.
        return


def _unusable(file: Path, reason: object, remedy: str) -> StoreError:
    return StoreError(f"The embeddings in {file} cannot be used: {reason}.\n{remedy}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _checksum(key: str, blob: bytes) -> int:
    return zlib.crc32(blob, zlib.crc32(key.encode()))
