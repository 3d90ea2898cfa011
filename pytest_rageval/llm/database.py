"""The SQLite file of the reply cache: opened for many processes, and known to be ours.

SQLite itself survives a process that is killed at any moment: a transaction is
in the file whole or not at all.
"""

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cache_folder import make_cache_folder, make_private_file
from pytest_rageval.errors import StoreError

__all__ = ["FILE", "Database"]

FILE: Final = "replies.sqlite"

APPLICATION_ID: Final = 0x52414756
"""Tells our files from other SQLite files."""

SCHEMA: Final = 1
"""Of the tables below; a file with a higher one is left to the version that wrote it."""

WAIT_S: Final = 60.0
"""How long a statement waits for other processes' transactions, which take milliseconds."""

UNWRITABLE: Final = {"SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY", "SQLITE_CANTOPEN"}
"""How SQLite names it when the folder or the file may only be read."""

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


class Database:
    """A connection to the file, for one thread.

    Where the folder cannot be written, the file is opened to read alone.

    Args:
        directory: of the cache; made if missing, with a `.gitignore` in it, as pytest does with its own.

    Raises:
        StoreError: here and from every method, when the file cannot be used; it names the folder.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.read_only = False
        with self.mapped():
            make_cache_folder(directory)
            make_private_file(directory / FILE)
            try:
                self._connection = self._opened(f"{_uri(directory / FILE)}?mode=rwc")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in UNWRITABLE or not (directory / FILE).is_file():
                    raise
                self._connection = self._opened_to_read(directory / FILE)
                self.read_only = True

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement; outside of `transaction` it is one by itself."""
        with self.mapped():
            return self._connection.execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows that a statement gives."""
        with self.mapped():
            return self._connection.execute(sql, parameters).fetchall()

    def execute_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of several rows."""
        with self.mapped():
            self._connection.executemany(sql, parameters)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside, or none of them; no other process writes meanwhile."""
        if self.read_only:
            why = "it cannot be written, and a new reply could not be kept"
            raise self.unusable(why, "let the folder and the files in it be written")
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # SQLite has rolled back by itself where the disk is full.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        with self.mapped():
            self._connection.close()

    @contextlib.contextmanager
    def mapped(self) -> Iterator[None]:
        """Turn the errors of SQLite and of the file system into ours."""
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeError, OverflowError) as error:
            # In a damaged file even SQLite's own message may be no text.
            raise self.unusable(f"{type(error).__name__}: {error}") from error

    def unusable(self, why: str, remedy: str | None = None) -> StoreError:
        """The error that says so, and what to do beside naming another folder."""
        remedy = remedy or (
            f"save what can be read with `rageval cache export FILE --cache-dir '{self.directory}'`, and delete the "
            f"files {FILE}* (what is in no cassette is then asked for again)"
        )
        return StoreError(
            f"The reply cache in {self.directory} cannot be used: {why}.\n"
            f"Name another folder with --rageval-cache-dir; or {remedy}."
        )

    def _opened(self, uri: str, *, write: bool = True) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_S, isolation_level=None)
        try:
            self._check(connection)
            if write:
                _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened_to_read(self, file: Path) -> sqlite3.Connection:
        # Immutable: without it SQLite wants to write beside the file even in order to read it. But then
        # it does not see what a killed process has left in the log.
        log = file.with_name(f"{file.name}-wal")
        unseen = log.exists() and log.stat().st_size
        return self._opened(f"{_uri(file)}?mode=ro{'' if unseen else '&immutable=1'}", write=False)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not ours, or is from the future."""
        # In one transaction: another process may be making the tables right now.
        connection.execute("BEGIN")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("COMMIT")
        if application != APPLICATION_ID and (application or version or tables):
            raise self.unusable(f"its file {FILE} was not written by pytest-rageval")
        if version > SCHEMA:
            raise self.unusable(
                f"its file {FILE} has schema {version}, written by a later version of pytest-rageval; "
                f"this one knows schema {SCHEMA}",
                "update pytest-rageval",
            )


def _prepare(connection: sqlite3.Connection) -> None:
    # Readers and one writer at once; and a process that is killed loses nothing that was committed.
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA:
        # Where only reading is allowed, this is where it shows.
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
    """Kept in the file: the first process does it. SQLite does not wait for others here, so we do."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _uri(path: Path) -> str:
    return path.resolve().as_uri()
