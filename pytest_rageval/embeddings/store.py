"""The file of embeddings: one SQLite file in a cache folder for many processes, and its maintenance.

Losing embeddings costs only time, so no fault here stops a run: an unreadable entry counts as missing, a failed write
    is ignored, and a damaged file is replaced by an empty one.
"""

import contextlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pytest_rageval.errors import StoreError
from pytest_rageval.files import (
    SpecialFileError,
    foreign_objects,
    make_cache_folder,
    make_private_file,
    refuse_special,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["EMBEDDINGS_FILE", "EmbeddingStore", "Survey", "delete_damaged", "delete_older", "survey"]

EMBEDDINGS_FILE: Final = "embeddings.sqlite"
VERSION: Final = 1  # the version of the file; one without a version has this one
COLUMNS: Final = ("key", "vector", "checksum", "written")  # `written` is in seconds since 1970
TABLE: Final = """
CREATE TABLE IF NOT EXISTS embeddings (
    key TEXT PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL, written REAL NOT NULL
)
"""

ADD_TIMES: Final = "ALTER TABLE embeddings ADD COLUMN written REAL NOT NULL DEFAULT 0"
"""For files without the last column: their embeddings count as old."""

ALL_TABLES: Final = (
    TABLE,
    TABLE.replace(", written REAL NOT NULL", ""),
    TABLE.replace("written REAL NOT NULL", "written REAL NOT NULL DEFAULT 0"),
)
"""Every form of the table that this package has made."""

NUMBER: Final = "<f4"  # the type of a vector's numbers in the file, on every machine
WAIT_S: Final = 60.0  # how long a statement waits for other processes' transactions
MOVED: Final = "SQLITE_READONLY_DBMOVED"  # SQLite's error for an open file that was removed or renamed
T = TypeVar("T")


class EmbeddingStore:
    """The embeddings in a cache folder, made at the first use; for any thread.

    Every method raises StoreError when the file has a later version or foreign contents.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._connection: sqlite3.Connection | None = None
        self._lock = RLock()

    def get_many(self, keys: Iterable[str]) -> "dict[str, NDArray[np.float32]]":
        """Return the vectors kept under these keys; missing and damaged ones are left out."""
        import numpy as np  # noqa: PLC0415 - not needed for maintenance

        sql = "SELECT key, vector, checksum FROM embeddings WHERE key IN (SELECT value FROM json_each(?))"
        wanted = json.dumps(sorted(keys))
        return {
            key: np.frombuffer(blob, NUMBER).astype(np.float32, copy=False)
            for key, blob, checksum in self._attempt(lambda file: file.execute(sql, (wanted,)).fetchall())
            or []
            if isinstance(blob, bytes) and checksum == _checksum(key, blob)
        }

    def put_many(self, vectors: "Mapping[str, NDArray[np.float32]]") -> None:
        """Keep vectors, all or none."""
        blobs = {key: vector.astype(NUMBER, copy=False).tobytes() for key, vector in vectors.items()}
        rows = [(key, blob, _checksum(key, blob), time.time()) for key, blob in blobs.items()]

        def write(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", rows)

        self._attempt(write)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of the work; None where the file cannot be used."""
        with self._lock:
            try:
                try:
                    return work(self._opened())
                except sqlite3.OperationalError as error:
                    if getattr(error, "sqlite_errorname", "") != MOVED:
                        raise
                    # The folder was removed: make a new one.
                    self.close()
                    return work(self._opened())
            except (sqlite3.OperationalError, OSError):
                # Read-only, a full disk, or locked for too long.
                return None
            except sqlite3.DatabaseError:
                self.close()
                with contextlib.suppress(OSError):
                    # The journal first: SQLite would apply it to the new file.
                    for name in (f"{EMBEDDINGS_FILE}-journal", EMBEDDINGS_FILE):
                        (self._directory / name).unlink(missing_ok=True)
                return None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            make_cache_folder(self._directory)
            file = self._directory / EMBEDDINGS_FILE
            _refuse_irregular(file)
            make_private_file(file)
            # No write-ahead log: the file is readable where nothing may be written, and easy to delete.
            connection = sqlite3.connect(file, timeout=WAIT_S, check_same_thread=False)
            try:
                _check(connection, file)
                # Safe when a process is killed; after a power failure a damaged file is replaced.
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute(TABLE)
                if _columns(connection) == COLUMNS[:-1]:
                    connection.execute(ADD_TIMES)
                if _version(connection) < VERSION:
                    # A read-only file stays as it is.
                    with contextlib.suppress(sqlite3.OperationalError):
                        connection.execute(f"PRAGMA user_version = {VERSION}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection


class Survey(NamedTuple):
    """The file's number of good and damaged embeddings, when each good one was `written`, ascending, and its size.

    Times are in seconds since 1970.
    """

    embeddings: int
    damaged: int
    written: list[float]
    bytes: int


def survey(directory: Path) -> Survey | None:
    """Return the contents of the file in a cache folder; None for no file, StoreError for an unusable one."""
    file = directory / EMBEDDINGS_FILE
    if not file.is_file():
        return None
    with _existing(directory, "ro") as connection:
        written = sorted(at for _, at in _good_rows(connection))
        ((entries,),) = connection.execute("SELECT count(*) FROM embeddings")
    return Survey(len(written), entries - len(written), written, file.stat().st_size)


def delete_older(directory: Path, until: float) -> int:
    """Delete the good embeddings kept before a time; return their number."""
    with _existing(directory, "rw") as connection:
        old = [(row,) for row, at in _good_rows(connection) if at < until]
        _delete(connection, old)
    return len(old)


def delete_damaged(directory: Path) -> None:
    """Delete the damaged entries, whose texts are then encoded again."""
    with _existing(directory, "rw") as connection:
        good = {row for row, _ in _good_rows(connection)}
        rows = connection.execute("SELECT rowid FROM embeddings").fetchall()
        _delete(connection, [(row,) for (row,) in rows if row not in good])


def _good_rows(connection: sqlite3.Connection) -> Iterator[tuple[int, float]]:
    """Yield row and time of the undamaged entries."""
    # As bytes: Python would refuse a key that is not UTF-8.
    statement = "SELECT rowid, CAST(key AS BLOB), vector, checksum, written FROM embeddings"
    for row, key, vector, checksum, written in connection.execute(statement):
        valid = isinstance(key, bytes) and isinstance(vector, bytes) and isinstance(written, float)
        if valid and checksum == _checksum(key.decode(errors="replace"), vector):
            yield row, written


def _delete(connection: sqlite3.Connection, rows: list[tuple[int]]) -> None:
    with connection:
        connection.executemany("DELETE FROM embeddings WHERE rowid = ?", rows)
    if rows:
        connection.execute("VACUUM")


@contextlib.contextmanager
def _existing(directory: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Open the file for maintenance: it is neither made nor replaced."""
    file = directory / EMBEDDINGS_FILE
    remedy = "If this persists, delete the file: embeddings are computed again, which costs only time."
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            _check(connection, file)
            if _columns(connection) != COLUMNS:
                raise _unusable(file, "its table is of another form, in which nothing is kept", remedy)
            yield connection
    except sqlite3.Error as error:
        raise _unusable(file, error, remedy) from error


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """Refuse a later version and foreign contents, before any of it can run."""
    connection.execute("PRAGMA trusted_schema = OFF")
    foreign, version = foreign_objects(connection, ALL_TABLES), _version(connection)
    if version > VERSION:
        later = f"it has version {version}, written by a later version of pytest-rageval"
        remedy = "Update pytest-rageval, or name another folder with --rageval-cache-dir."
        raise _unusable(file, f"{later}; this one reads version {VERSION}", remedy)
    if foreign:
        remedy = "Delete the file: embeddings are computed again, which costs only time."
        raise _unusable(
            file, f"it contains tables that pytest-rageval did not create: {', '.join(foreign)}", remedy
        )


def _refuse_irregular(file: Path) -> None:
    try:
        refuse_special(file)
    except SpecialFileError as error:
        raise _unusable(file, error, "Delete it.") from None
    except OSError:
        # Missing or not accessible: opening it will raise.
        return


def _unusable(file: Path, why: object, remedy: str) -> StoreError:
    return StoreError(f"The embeddings in {file} cannot be used: {why}.\n{remedy}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(name for _, name, *_ in connection.execute("PRAGMA table_info(embeddings)"))


def _checksum(key: str, blob: bytes) -> int:
    return zlib.crc32(blob, zlib.crc32(key.encode()))
