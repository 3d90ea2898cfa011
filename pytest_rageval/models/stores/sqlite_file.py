"""The SQLite file of the reply cache, which many processes use.

Values are stored in plain columns. Nothing is unpickled: CI restores cache folders from elsewhere, and unpickling runs
code. Nothing is evicted: every reply was paid for. A transaction is atomic, even if the process is killed.
"""

import contextlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import StoreError
from pytest_rageval.lib.cache_folder import (
    UntrustedFolderError,
    foreign_objects,
    make_cache_folder,
    make_private_file,
)
from pytest_rageval.lib.files import SpecialFileError, refuse_special
from pytest_rageval.models.messages import FIELD_TYPES, Reply
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import RUN_FIELD

FILE: Final = "replies.sqlite"
APPLICATION_ID: Final = 0x52414756  # identifies the files of this package among SQLite files
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

COLUMNS: Final[Mapping[str, type]] = {
    "key": str,
    **FIELD_TYPES,
    "checksum": int,
    "outline": str,
    "written": float,
}
"""The columns of the table of replies, with the Python types of their values."""

REPLY_COLUMN_TYPES: Final[Sequence[type]] = list(COLUMNS.values())[:10]
# The key, the fields of `Reply` in their order, and the checksum. The summary (`outline`) has the run; it is read only
# if the run matters: with `only_run`, or for an empty reply.
SELECT: Final = (
    f"SELECT {', '.join(list(COLUMNS)[:10])}, CASE WHEN ? THEN outline END "  # noqa: S608 - our own names
    "FROM replies WHERE key IN (SELECT value FROM json_each(?))"
)
WAIT_S: Final = 60.0  # how long a statement waits for other processes' transactions, which take milliseconds
RESTORE_PAUSES_S: Final = (0.01, 0.05)  # pauses between attempts to restore a file that was removed

UNWRITABLE: Final = {"SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY", "SQLITE_CANTOPEN"}
"""SQLite's errors for a folder or file without write permission."""


class ReplyTable:
    """The table of replies; raises as `Database`. `damaged` are the keys of damaged entries that were read."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self.damaged: set[str] = set()

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        return self._select_usable(self._database.rows, keys, run, only_run=only_run)

    def get_nowait(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """`get_many` without waiting; replies that cannot be read without waiting are left out."""
        return self._select_usable(self._database.rows_nowait, keys, run, only_run=only_run)

    def put_many(self, entries: Iterable[Entry], *, run: str = "") -> None:
        """Store replies, with the run that requested them if it is known; call this method in a transaction."""
        now, run_field = time.time(), {RUN_FIELD: run} if run else {}
        rows = []
        for entry in entries:
            values = (entry.key, *(getattr(entry.reply, name) for name in FIELD_TYPES))
            summary = json.dumps({**entry.summary, **run_field})
            rows.append((*values, _checksum(values), summary, entry.written or now))
        marks = ", ".join("?" * len(COLUMNS))
        self._database.execute_many(f"INSERT OR REPLACE INTO replies VALUES ({marks})", rows)  # noqa: S608 - only marks

    def delete_many(self, keys: Iterable[str]) -> None:
        self._database.execute_many("DELETE FROM replies WHERE key = ?", [(key,) for key in keys])

    def _select_usable(
        self, read: Callable[..., list[tuple[Any, ...]]], keys: Sequence[str], run: str, *, only_run: bool
    ) -> dict[str, Reply]:
        """Return the undamaged replies that count in this run; `read` returns the rows of a statement."""
        replies, silent = {}, []
        # Sorted keys: neighbours are on the same page of the file.
        for row in read(SELECT, (only_run, json.dumps(sorted(keys)))):
            reply = self._reply(row)
            if reply is None or (only_run and (stored_summary(row[10]) or {}).get(RUN_FIELD) != run):
                continue
            if run and not only_run and reply.silent:
                silent.append(row[0])
            else:
                replies[row[0]] = reply
        return replies | self._select_usable(read, silent, run, only_run=True) if silent else replies

    def _reply(self, row: tuple[Any, ...]) -> Reply | None:
        valid = [*map(type, row[:10])] == REPLY_COLUMN_TYPES
        if valid and row[9] == _checksum(row) and row[4] >= 0 <= row[5]:
            return Reply(*row[1:9])
        self.damaged.add(str(row[0]))
        return None


def _checksum(row: tuple[Any, ...]) -> int:
    """Return the checksum of types and values. It detects accidental damage, not forgery."""
    return zlib.crc32(repr(row[:9]).encode("utf-8", "surrogatepass"))


def stored_summary(text: object) -> dict[str, object] | None:
    try:
        parsed = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


class ForeignSchemaError(StoreError):
    pass


class Database:
    """A connection to the file, used by one thread at a time; read-only if the folder is not writable.

    If the file is removed or replaced while it is open, it is restored, and `restored` is called. With `replies_only`,
    other tables, views and triggers may be foreign: SQLite executes none of them. Every method raises StoreError, which
    names the folder, if the file cannot be used.
    """

    def __init__(
        self, directory: Path, *, restored: Callable[[], None] = lambda: None, replies_only: bool = False
    ) -> None:
        self.directory = directory
        self.read_only: bool = False
        self._replies_only = replies_only
        self._file = directory / FILE
        # With the companion files of SQLite.
        self._paths = [self._file, directory / f"{FILE}-wal", directory / f"{FILE}-shm"]
        self._restored = restored
        with self.map_errors():
            make_cache_folder(directory)
            make_private_file(self._file)
            try:
                self._connection = self._open("mode=rwc", write=not replies_only)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in UNWRITABLE or not self._file.is_file():
                    raise
                # Even to read, SQLite writes companion files, unless the file is opened as immutable. But then it
                # ignores the log, which has data after a process was killed.
                log = self._paths[1]
                log_has_data = log.exists() and log.stat().st_size
                query = f"mode=ro{'' if log_has_data else '&immutable=1'}"
                self._connection = self._open(query, write=False)
                self.read_only = True
            self._identities = self._current_identities()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute one statement; outside of `transaction`, it is committed at once."""
        with self.map_errors():
            return self._current_connection().execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement; text that is not UTF-8 is returned as bytes."""
        with self.map_errors():
            connection = self._current_connection()
            try:
                return connection.execute(sql, parameters).fetchall()
            except (sqlite3.OperationalError, UnicodeDecodeError) as error:
                # An error of Python, not of SQLite: a text is not UTF-8.
                if hasattr(error, "sqlite_errorcode") or connection.text_factory is _text_or_bytes:
                    raise
                # From now on text that is not UTF-8 is returned as bytes, which is slower.
                connection.text_factory = _text_or_bytes
                return connection.execute(sql, parameters).fetchall()

    def rows_nowait(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that only reads, without waiting for other processes; none if it fails.

        The rows are those of the open file, even if it was removed: its replies still count.
        """
        try:
            return self._connection.execute(sql, parameters).fetchall() if self._can_read_nowait else []
        except (sqlite3.Error, UnicodeDecodeError):
            # `rows` raises the error, or can read the rows in another way.
            return []

    def execute_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        with self.map_errors():
            self._current_connection().executemany(sql, parameters)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Execute the statements in the block atomically; no other process writes meanwhile.

        A transaction within another one is a part of it.
        """
        with self.map_errors():
            is_inner = self._connection.in_transaction
        if is_inner:
            yield
            return
        if self.read_only:
            raise self.unusable_error(
                "it cannot be written, and a new reply could not be kept",
                "let the folder and the files in it be written",
            )
        self.execute("BEGIN IMMEDIATE")
        while self._replaced():
            # Another process restored the file while this one waited for its lock.
            self.execute("ROLLBACK")
            self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # On a full disk, SQLite has already rolled back.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def faults(self) -> list[str]:
        """Return the faults that SQLite's integrity check finds; StoreError if the file is too damaged for it."""
        faults = [str(line) for (line,) in self.rows("PRAGMA integrity_check")]
        return [] if faults == ["ok"] else faults

    @property
    def schema_version(self) -> int:
        return int(self.rows("PRAGMA user_version")[0][0])

    def close(self) -> None:
        # If the file was removed, restore it before it is closed.
        with contextlib.suppress(OSError, sqlite3.Error, StoreError):
            self._current_connection()
        with self.map_errors():
            self._connection.close()

    @contextlib.contextmanager
    def map_errors(self) -> Iterator[None]:
        try:
            yield
        except UntrustedFolderError as error:
            raise self.unusable_error(str(error), error.remedy) from None
        except SpecialFileError as error:
            raise self.unusable_error(f"{self._file}: {error}", "remove this file") from error
        except (OSError, sqlite3.Error, UnicodeError, OverflowError) as error:
            # UnicodeError: in a damaged file, even SQLite's message may not be UTF-8.
            if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise self.unusable_error(
                    f"another process{_other_users(self._file)} has locked its file {FILE} for more than {WAIT_S:g} s",
                    "end that process, and run again: the file is not damaged",
                ) from None
            file = next(filter(_is_file, (self.directory, *self.directory.parents)), None)
            if file is not None:
                raise self.unusable_error(f"{file} is a file, not a folder", "remove this file") from error
            raise self.unusable_error(f"{type(error).__name__}: {error}") from error

    def unusable_error(self, why: str, remedy: str = "", kind: type[StoreError] = StoreError) -> StoreError:
        """Return the error for an unusable cache, with what to do: name another folder, or else `remedy`."""
        if not remedy and _is_file(self._file):
            remedy = (
                f"save what can be read with `rageval cache export FILE --cache-dir '{self.directory}'`, and delete "
                f"the files {FILE}* (what is in no cassette is then requested again)"
            )
        return kind(
            f"The reply cache in {self.directory} cannot be used: {why}.\n"
            f"Name another folder with --rageval-cache DIR{remedy and '; or '}{remedy}."
        )

    def _replaced(self) -> bool:
        """Whether the open file, or SQLite's log for it, was removed or replaced."""
        if self.read_only:
            return False
        # On some network drives there is no log, and only the file is checked.
        pairs = zip(self._identities, self._current_identities(), strict=True)
        return self._identities[0] is None or any(before not in {None, now} for before, now in pairs)

    def _current_connection(self) -> sqlite3.Connection:
        """Return the connection; if the file was removed or replaced, restore it first."""
        if self._connection.in_transaction or not self._replaced():
            return self._connection
        for pause in RESTORE_PAUSES_S:
            # An error is possible while another process removes the folder: try again.
            with contextlib.suppress(OSError, sqlite3.OperationalError):
                self._restore()
                break
            time.sleep(pause)
        else:
            self._restore()
        self._restored()
        return self._connection

    def _restore(self) -> None:
        """Copy everything from the open file into the file at its path, which is created if it is missing."""
        old = self._connection
        # Lock: only one of the processes that have the removed file open may copy at a time.
        old.execute("BEGIN IMMEDIATE")
        try:
            if self._current_identities()[0] in {None, self._identities[0]}:
                # Remove the old log, which SQLite would apply to the new file.
                for path, identity in zip(self._paths, self._identities, strict=True):
                    if identity is not None and _identity(path) == identity:
                        path.unlink(missing_ok=True)
            make_cache_folder(self.directory)
            make_private_file(self._file)
            new = self._open("mode=rwc")
            try:
                _copy(old, new)
                # Claims are copied only once: another process must not restore a claim that was released meanwhile.
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

    def _open(self, query: str, *, write: bool = True) -> sqlite3.Connection:
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
            # Without a write-ahead log, as on some network drives, readers wait for writers.
            self._can_read_nowait = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Raise StoreError for a file of another program or of a later version, or with foreign objects."""
        connection.execute("PRAGMA trusted_schema = OFF")
        # In one transaction: another process may be creating the tables at the same time.
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
            foreign = [description for description in foreign if description.endswith(" 'replies'")]
        if foreign:
            why = f"its file {FILE} contains tables that pytest-rageval did not create: {', '.join(foreign)}"
            raise self.unusable_error(why, kind=ForeignSchemaError)


def _other_users(file: Path) -> str:
    """Return the ids of the other processes that have a file open, in parentheses; "" if they cannot be known."""
    # Only Linux shows them, and only those of this user.
    found, identity = [], _identity(file)
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if _identity(link) == identity and link.parts[2] != str(os.getpid()):
                found.append(link.parts[2])
    return f" ({', '.join(dict.fromkeys(found))})" if found else ""


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises an error in a folder that may not be read


def _copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    old.text_factory = _text_or_bytes
    new.execute("BEGIN IMMEDIATE")
    for table in ("replies", "leases", "spending"):
        rows = old.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own names
        values = ", ".join("?" * len(rows.description))
        new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({values})", rows)  # noqa: S608 - likewise
    new.execute("COMMIT")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _prepare(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, with which others can read during a write, and create missing tables."""
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
        # A statement without effect, which fails if the file is read-only.
        connection.execute("DELETE FROM leases WHERE expires < 0")
        return
    # One process creates the tables, and the others wait for it.
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
