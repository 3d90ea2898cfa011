"""The reply cache on disk: one SQLite file for many processes.

Plain columns: nothing is unpickled (CI restores cache folders from elsewhere, and unpickling runs code), and
nothing is evicted (every reply was paid for). A transaction is in the file as a whole or not at all, even when
the process is killed.
"""

import contextlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import StoreError
from pytest_rageval.files import foreign_objects, make_cache_folder, make_private_file, refuse_special
from pytest_rageval.llm.messages import FIELD_TYPES, RUN_FIELD, Reply
from pytest_rageval.llm.stores.interface import Entry

__all__ = ["COLUMNS", "FILE", "Database", "ForeignSchemaError", "ReplyTable", "stored_summary"]

FILE: Final = "replies.sqlite"
APPLICATION_ID: Final = 0x52414756  # marks our files among SQLite files
SCHEMA: Final = 1  # the version of the tables below
TABLES: Final = """
CREATE TABLE IF NOT EXISTS replies (
  key TEXT PRIMARY KEY, text TEXT NOT NULL, model TEXT NOT NULL, finish_reason TEXT NOT NULL,
  tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, refusal TEXT NOT NULL, tool_calls TEXT NOT NULL,
  without TEXT NOT NULL, checksum INTEGER NOT NULL, outline TEXT NOT NULL, written REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
  key TEXT PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spending (
  run TEXT PRIMARY KEY, calls INTEGER NOT NULL, cost REAL NOT NULL, began REAL NOT NULL,
  open_calls INTEGER NOT NULL, open_cost REAL NOT NULL
) WITHOUT ROWID;
"""

COLUMNS: Final = {"key": str, **FIELD_TYPES, "checksum": int, "outline": str, "written": float}
"""The columns of the table of replies, with the Python types of their values."""

REPLY_COLUMN_TYPES: Final = list(COLUMNS.values())[:10]
# The key, the fields of `Reply` in its order, and their checksum. The summary is read only where it matters.
SELECT: Final = (
    f"SELECT {', '.join(list(COLUMNS)[:10])}, CASE WHEN ? OR text < '!' THEN outline END "  # noqa: S608 - our own names
    "FROM replies WHERE key IN "
)
WAIT_S: Final = 60.0  # how long a statement waits for other processes' transactions, which take milliseconds
RESTORE_PAUSES_S: Final = (0.01, 0.05)  # pauses between attempts to restore a file that was removed

UNWRITABLE: Final = {"SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY", "SQLITE_CANTOPEN"}
"""SQLite's errors for a folder or file that may only be read."""


class ReplyTable:
    """The table of replies. A damaged entry counts as missing; its key is in `damaged`. Errors are as in `Database`."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self.damaged: set[str] = set()

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Return the replies kept under these keys; missing ones are left out.

        With a `run`, the empty replies that other runs requested are left out; with `only_run`, all of theirs.
        """
        # Sorted keys share pages of the file.
        many = f"{SELECT} (SELECT value FROM json_each(?))"  # noqa: S608 - our own names
        rows = self._database.rows(many, (only_run, json.dumps(sorted(keys))))
        return self._select_usable(rows, run, only_run=only_run)

    def get_nowait(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """As `get_many` for a few keys, without waiting; what takes waiting is left out."""
        few = f"{SELECT} ({', '.join('?' * len(keys))})"
        rows = self._database.rows_nowait(few, (only_run, *keys))
        return self._select_usable(rows, run, only_run=only_run)

    def put_many(self, entries: Iterable[Entry], *, run: str = "") -> None:
        """Store replies, and the run that requested them where it is known; call it in a transaction."""
        now, by_run = time.time(), {RUN_FIELD: run} if run else {}
        rows = []
        for entry in entries:
            values = (entry.key, *(getattr(entry.reply, name) for name in FIELD_TYPES))
            summary = json.dumps({**entry.summary, **by_run})
            rows.append((*values, _checksum(values), summary, entry.written or now))
        marks = ", ".join("?" * len(COLUMNS))
        self._database.execute_many(f"INSERT OR REPLACE INTO replies VALUES ({marks})", rows)  # noqa: S608 - only marks

    def delete_many(self, keys: Iterable[str]) -> None:
        """Delete replies; call it in a transaction."""
        self._database.execute_many("DELETE FROM replies WHERE key = ?", [(key,) for key in keys])

    def _select_usable(
        self, rows: Iterable[tuple[Any, ...]], run: str, *, only_run: bool
    ) -> dict[str, Reply]:
        """Return the undamaged replies in rows of `SELECT` that count in this run."""
        found = {}
        for row in rows:
            reply = self._reply(row)
            if reply is None:
                continue
            any_run = not only_run and not (run and reply.silent)
            if any_run or (stored_summary(row[10]) or {}).get(RUN_FIELD) == run:
                found[row[0]] = reply
        return found

    def _reply(self, row: tuple[Any, ...]) -> Reply | None:
        """Return the reply in a row; None where the row is damaged."""
        valid = list(map(type, row[:10])) == REPLY_COLUMN_TYPES
        if valid and row[9] == _checksum(row) and row[4] >= 0 <= row[5]:
            return Reply(*row[1:9])
        self.damaged.add(str(row[0]))
        return None


def _checksum(row: tuple[Any, ...]) -> int:
    """Return the checksum of types and values; against accidents, not against forgery."""
    return zlib.crc32(repr(row[:9]).encode("utf-8", "surrogatepass"))


def stored_summary(text: object) -> dict[str, Any] | None:
    """Return a stored summary, with the run; None where it is damaged."""
    try:
        parsed = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


class ForeignSchemaError(StoreError):
    """The file holds tables, views or triggers that this package did not make."""


class Database:
    """A connection to the file, for one thread at a time; read-only where the folder cannot be written.

    Args:
        directory: the cache folder; made if missing, with a `.gitignore` in it.
        restored: called when the file had been removed or replaced, and was made again.
        replies_only: only to read the table of replies. Other objects may then be foreign: none of them runs.

    Raises:
        StoreError: from every method, when the file cannot be used; names the folder.
    """

    def __init__(
        self, directory: Path, *, restored: Callable[[], None] = lambda: None, replies_only: bool = False
    ) -> None:
        self.directory = directory
        self.read_only = False
        self._replies_only = replies_only
        self._file = directory / FILE
        self._paths = [
            self._file,
            directory / f"{FILE}-wal",
            directory / f"{FILE}-shm",
        ]  # with SQLite's companions
        self._restored = restored
        with self.map_errors():
            make_cache_folder(directory)
            make_private_file(self._file)
            try:
                self._connection = self._opened("mode=rwc", write=not replies_only)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in UNWRITABLE or not self._file.is_file():
                    raise
                # SQLite writes companion files even to read, unless the file is immutable. But then it does not
                # see the log that a killed process has left.
                log = self._paths[1]
                unseen = log.exists() and log.stat().st_size
                self._connection = self._opened(f"mode=ro{'' if unseen else '&immutable=1'}", write=False)
                self.read_only = True
            self._identities = self._current_identities()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement; outside `transaction` it is committed at once."""
        with self.map_errors():
            return self._current_connection().execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; text that is not UTF-8 comes as bytes."""
        with self.map_errors():
            connection = self._current_connection()
            try:
                return connection.execute(sql, parameters).fetchall()
            except (sqlite3.OperationalError, UnicodeDecodeError) as error:
                # Python's own error, not SQLite's, is about text that is not UTF-8.
                if hasattr(error, "sqlite_errorcode") or connection.text_factory is _text_or_bytes:
                    raise
                self.read_any_text()
                return connection.execute(sql, parameters).fetchall()

    def rows_nowait(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that only reads, without waiting for other processes; none where that fails.

        They are of the file that is open, even where that was removed: what was kept still counts.
        """
        try:
            return self._connection.execute(sql, parameters).fetchall() if self._never_waits else []
        except (sqlite3.Error, UnicodeDecodeError):
            # `rows` says what is wrong, or reads it in another way.
            return []

    def read_any_text(self) -> None:
        """From now on, return text that is not UTF-8 as bytes; slower."""
        self._connection.text_factory = _text_or_bytes

    def execute_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of several rows."""
        with self.map_errors():
            self._current_connection().executemany(sql, parameters)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run all statements inside or none of them; no other process writes meanwhile."""
        if self.read_only:
            raise self.unusable_error(
                "it cannot be written, and a new reply could not be kept",
                "let the folder and the files in it be written",
            )
        self.execute("BEGIN IMMEDIATE")
        while self._replaced():
            # Another process has restored the file while this one waited for its turn.
            self.execute("ROLLBACK")
            self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # On a full disk SQLite has rolled back already.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        # A last chance to restore a file that was removed.
        with contextlib.suppress(OSError, sqlite3.Error, StoreError):
            self._current_connection()
        with self.map_errors():
            self._connection.close()

    @contextlib.contextmanager
    def map_errors(self) -> Iterator[None]:
        """Turn the errors of SQLite and of the file system into `StoreError`."""
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeError, OverflowError) as error:
            # UnicodeError: in a damaged file even SQLite's message may not be text.
            raise self.unusable_error(f"{type(error).__name__}: {error}") from error

    def unusable_error(self, why: str, remedy: str = "", kind: type[StoreError] = StoreError) -> StoreError:
        """Return the error for an unusable_error cache; `remedy` is added to the advice to name another folder."""
        saving = (
            f"save what can be read with `rageval cache export FILE --cache-dir '{self.directory}'`, and delete the "
            f"files {FILE}* (what is in no cassette is then asked for again)"
        )
        return kind(
            f"The reply cache in {self.directory} cannot be used: {why}.\n"
            f"Name another folder with --rageval-cache-dir; or {remedy or saving}."
        )

    def _replaced(self) -> bool:
        """Whether the open file, or SQLite's log of it, was removed or replaced."""
        if self.read_only:
            return False
        # On some network drives there is no log: then only the file counts.
        pairs = zip(self._identities, self._current_identities(), strict=True)
        return self._identities[0] is None or any(before not in {None, now} for before, now in pairs)

    def _current_connection(self) -> sqlite3.Connection:
        """Return the connection; a file that was removed or replaced is restored first."""
        if self._connection.in_transaction or not self._replaced():
            return self._connection
        for pause in RESTORE_PAUSES_S:
            # Another process may still be removing the folder.
            with contextlib.suppress(OSError, sqlite3.OperationalError):
                self._restore()
                break
            time.sleep(pause)
        else:
            self._restore()
        self._restored()
        return self._connection

    def _restore(self) -> None:
        """Copy everything from the open file into the file at its path, which is made if it is missing."""
        old = self._connection
        # One at a time, of all processes that have the removed file open.
        old.execute("BEGIN IMMEDIATE")
        try:
            if self._current_identities()[0] in {None, self._identities[0]}:
                # SQLite would take the old log for a part of the new file.
                for path, identity in zip(self._paths, self._identities, strict=True):
                    if identity is not None and _identity(path) == identity:
                        path.unlink(missing_ok=True)
            make_cache_folder(self.directory)
            make_private_file(self._file)
            new = self._opened("mode=rwc")
            try:
                _copy(old, new)
                # Only once: the next process must not restore a lease that was released meanwhile.
                old.execute("DELETE FROM leases")
            except BaseException:
                new.close()
                raise
        finally:
            with contextlib.suppress(sqlite3.Error):
                old.execute("COMMIT")
        self._connection, self._identities = new, self._current_identities()
        old.close()

    def _current_identities(self) -> list[tuple[int, int] | None]:
        return [_identity(path) for path in self._paths]

    def _opened(self, query: str, *, write: bool = True) -> sqlite3.Connection:
        if self._file.exists():
            refuse_special(self._file)
        uri = f"{self._file.resolve().as_uri()}?{query}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=WAIT_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._check(connection)
            if write:
                _prepare(connection)
            # Some network drives have no such log; then readers wait for writers.
            self._never_waits = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, is of a later version, or holds foreign objects."""
        connection.execute("PRAGMA trusted_schema = OFF")
        # In one transaction: another process may be making the tables right now.
        connection.execute("BEGIN")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        foreign = foreign_objects(connection, TABLES.split(";"))
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("COMMIT")
        if application != APPLICATION_ID and (application or version or tables):
            raise self.unusable_error(f"its file {FILE} was not written by pytest-rageval")
        if version > SCHEMA:
            later = f"its file {FILE} has schema {version}, written by a later version of pytest-rageval"
            raise self.unusable_error(f"{later}; this one knows schema {SCHEMA}", "update pytest-rageval")
        if self._replies_only:
            foreign = [each for each in foreign if each.endswith(" 'replies'")]
        if foreign:
            why = f"its file {FILE} contains tables that pytest-rageval did not create: {', '.join(foreign)}"
            raise self.unusable_error(why, kind=ForeignSchemaError)


def _copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Copy the rows of one file that another one lacks."""
    old.text_factory = _text_or_bytes
    new.execute("BEGIN IMMEDIATE")
    for table in ("replies", "leases", "spending"):
        rows = old.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own names
        values = ", ".join("?" * len(rows.description))
        new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({values})", rows)  # noqa: S608 - likewise
    new.execute("COMMIT")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None where there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _prepare(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, which lets others read during a write, and make the tables if missing."""
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
        # A statement that fails where the file may only be read.
        connection.execute("DELETE FROM leases WHERE expires < 0")
        return
    # One process makes the tables, and the others wait for it.
    connection.execute("BEGIN IMMEDIATE")
    for statement in TABLES.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute("COMMIT")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite's own timeout does not cover this statement.
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
