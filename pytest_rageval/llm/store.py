"""The reply cache on disk: one SQLite file for many processes.

Plain columns: nothing is unpickled (CI restores cache folders from elsewhere, and unpickling runs code), and
nothing is evicted (a reply was paid for). SQLite survives a process that is killed at any moment: a
transaction is in the file whole or not at all.
"""

import contextlib
import json
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import StoreError
from pytest_rageval.files import make_cache_folder, make_private_file, planted, refuse_special
from pytest_rageval.llm.messages import RUN, Reply, read_outline

__all__ = ["FILE", "Database", "Entry", "ForeignSchemaError", "Store"]

FILE: Final = "replies.sqlite"

APPLICATION_ID: Final = 0x52414756
"""Tells our files from other SQLite files."""

SCHEMA: Final = 1
"""Of the tables below; a file with a higher one is left to the version that wrote it."""

WAIT_S: Final = 60.0
"""How long a statement waits for other processes' transactions, which take milliseconds."""

PAUSES_S: Final = (0.01, 0.05)
"""Before it is tried again to make a file that was removed."""

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


class ForeignSchemaError(StoreError):
    """There is something in the file that this package did not make."""


class Database:
    """A connection to the file, for one thread.

    Where the folder cannot be written, the file is opened to read alone.

    Args:
        directory: of the cache; made if missing, with a `.gitignore` in it, as pytest does with its own.
        restored: called when the file had been removed or replaced, and was made again.

    Raises:
        StoreError: here and from every method, when the file cannot be used; it names the folder.
    """

    def __init__(self, directory: Path, *, restored: Callable[[], None] = lambda: None) -> None:
        self.directory = directory
        self.read_only = False
        self._file = directory / FILE
        self._restored = restored
        with self.mapped():
            make_cache_folder(directory)
            make_private_file(self._file)
            try:
                self._connection = self._opened(f"{_uri(self._file)}?mode=rwc")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname not in UNWRITABLE or not self._file.is_file():
                    raise
                self._connection = self._opened_to_read(self._file)
                self.read_only = True
            self._identities = self._found()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run one statement; outside of `transaction` it is one by itself."""
        with self.mapped():
            return self._in_place().execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows that a statement gives; a text in them that is not UTF-8 is given as bytes."""
        with self.mapped():
            connection = self._in_place()
            try:
                return connection.execute(sql, parameters).fetchall()
            except (sqlite3.OperationalError, UnicodeDecodeError) as error:
                # Python's own, and not one of SQLite's: then it is about such a text.
                if hasattr(error, "sqlite_errorcode") or connection.text_factory is _text:
                    raise
                self.read_any_text()
                return connection.execute(sql, parameters).fetchall()

    def read_any_text(self) -> None:
        """From now on, give texts that are not UTF-8 as bytes; slower than to expect none."""
        self._connection.text_factory = _text

    def execute_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of several rows."""
        with self.mapped():
            self._in_place().executemany(sql, parameters)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All statements inside, or none of them; no other process writes meanwhile."""
        if self.read_only:
            why = "it cannot be written, and a new reply could not be kept"
            raise self.unusable(why, "let the folder and the files in it be written")
        self.execute("BEGIN IMMEDIATE")
        while self._elsewhere():
            # While this waited for its turn, another process has brought everything into a new file.
            self.execute("ROLLBACK")
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
        # The last chance for what is in a file that was removed; closed already, there is nothing to do.
        with contextlib.suppress(OSError, sqlite3.Error, StoreError):
            self._in_place()
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

    def unusable(
        self, why: str, remedy: str | None = None, kind: type[StoreError] = StoreError
    ) -> StoreError:
        """The error that says so, and what to do beside naming another folder."""
        remedy = remedy or (
            f"save what can be read with `rageval cache export FILE --cache-dir '{self.directory}'`, and delete the "
            f"files {FILE}* (what is in no cassette is then asked for again)"
        )
        return kind(
            f"The reply cache in {self.directory} cannot be used: {why}.\n"
            f"Name another folder with --rageval-cache-dir; or {remedy}."
        )

    def _elsewhere(self) -> bool:
        """Whether what is open does not have its name any more: the file, or one beside it, was removed or replaced."""
        if self.read_only:
            return False
        # Where there is no log, as on some network drives, the file alone counts.
        there = zip(self._identities, self._found(), strict=True)
        return self._identities[0] is None or any(before not in {None, now} for before, now in there)

    def _in_place(self) -> sqlite3.Connection:
        """The connection, to the file that has the name; what is in another one is brought there first."""
        if self._connection.in_transaction or not self._elsewhere():
            return self._connection
        for pause in (*PAUSES_S, None):
            try:
                self._move()
                break
            except (OSError, sqlite3.OperationalError):
                # Whoever removes the folder may not be done yet.
                if pause is None:
                    raise
                time.sleep(pause)
        self._restored()
        return self._connection

    def _move(self) -> None:
        """Bring all that is kept into the file that has the name, which is made if it is missing."""
        old = self._connection
        # One process at a time, of all that have the same file open.
        old.execute("BEGIN IMMEDIATE")
        try:
            if self._found()[0] in {None, self._identities[0]}:
                # What is left of the old file would be taken for a part of the new one.
                for path, identity in zip(self._paths, self._identities, strict=True):
                    if identity is not None and _identity(path) == identity:
                        path.unlink(missing_ok=True)
            make_cache_folder(self.directory)
            make_private_file(self._file)
            new = self._opened(f"{_uri(self._file)}?mode=rwc")
            try:
                _copy(old, new)
                # Only once: who comes later must not bring back a lease that was released meanwhile.
                old.execute("DELETE FROM leases")
            except BaseException:
                new.close()
                raise
        finally:
            with contextlib.suppress(sqlite3.Error):
                old.execute("COMMIT")
        self._connection, self._identities = new, self._found()
        old.close()

    @property
    def _paths(self) -> list[Path]:
        """The file, and those that SQLite keeps beside it while it is open."""
        return [self._file.with_name(f"{FILE}{ending}") for ending in ("", "-wal", "-shm")]

    def _found(self) -> list[tuple[int, int] | None]:
        return [_identity(path) for path in self._paths]

    def _opened(self, uri: str, *, write: bool = True) -> sqlite3.Connection:
        if self._file.exists():
            refuse_special(self._file)
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
        """Refuse a file that is not ours, is from the future, or holds what we did not make."""
        connection.execute("PRAGMA trusted_schema = OFF")
        # In one transaction: another process may be making the tables right now.
        connection.execute("BEGIN")
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        foreign = planted(connection, TABLES.split(";"))
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
        if foreign:
            raise self.unusable(
                f"its file {FILE} holds what pytest-rageval did not make: {', '.join(foreign)}",
                kind=ForeignSchemaError,
            )


def _copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Bring what is in one file into another, where that does not have it."""
    old.text_factory = _text
    new.execute("BEGIN IMMEDIATE")
    for table in ("replies", "leases", "spending"):
        rows = old.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own names
        values = ", ".join("?" * len(rows.description))
        new.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({values})", rows)  # noqa: S608 - likewise
    new.execute("COMMIT")


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one of the same name; None where there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


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


COLUMNS: Final = "key, text, model, finish_reason, tokens_in, tokens_out, refusal, tool_calls, without"

KINDS: Final = (str, str, str, str, int, int, str, str, str, int)
"""Of these columns and the checksum, as SQLite gives them."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A reply as it is kept.

    Attributes:
        key: of the request.
        reply: to it.
        outline: of the request, as far as it is known; see `pytest_rageval.llm.messages`.
        written: when it was kept, in seconds since 1970.
    """

    key: str
    reply: Reply
    outline: Mapping[str, Any] = field(default_factory=dict)
    written: float = 0.0


class Store:
    """The table of replies.

    An entry that is not as it was written is passed over, as if it were not there.

    Attributes:
        damaged: keys of the entries that were passed over.

    Raises:
        StoreError: from any method, when the file cannot be used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.damaged: set[str] = set()

    def get_many(self, keys: Sequence[str], *, run: str = "", asked_in_run: bool = False) -> dict[str, Reply]:
        """The replies kept under these keys; a key without one is not in the result.

        Args:
            keys: any number.
            run: of the silent replies, only those that this run asked for count; empty for those of all runs.
            asked_in_run: whether that holds for every reply.
        """
        rows = self._database.rows(
            # In order, neighbours are on the same page of the file. The outline is read where it decides.
            f"SELECT {COLUMNS}, checksum, CASE WHEN ? OR text < '!' THEN outline END FROM replies "  # noqa: S608 - our own names
            "WHERE key IN (SELECT value FROM json_each(?))",
            (asked_in_run, json.dumps(sorted(keys))),
        )
        found = {}
        for row in rows:
            reply = self._reply(row)
            if reply is None or ((asked_in_run or (run and reply.silent)) and _run(row[10]) != run):
                continue
            found[row[0]] = reply
        return found

    def put_many(self, entries: Iterable[Entry], *, run: str = "") -> None:
        """Keep replies; call it in a transaction.

        When that has ended other processes see them, and this one may be killed.

        Args:
            entries: any number.
            run: that asked for them; empty where that is not known.
        """
        now, asked = time.time(), {RUN: run} if run else {}
        rows = [
            (*row, _checksum(row), json.dumps({**entry.outline, **asked}), entry.written or now)
            for entry in entries
            for row in [_row(entry)]
        ]
        self._database.execute_many(
            f"INSERT OR REPLACE INTO replies ({COLUMNS}, checksum, outline, written) "  # noqa: S608 - our own names
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def entries(self) -> Iterator[Entry]:
        """Everything that is kept, by key."""
        self._database.read_any_text()
        rows = self._database.execute(
            f"SELECT {COLUMNS}, checksum, outline, written FROM replies ORDER BY key"  # noqa: S608 - our own names
        )
        with self._database.mapped():
            for row in rows:
                reply = self._reply(row)
                if reply is not None:
                    yield Entry(row[0], reply, _outline(row[10]), row[11])

    def delete_many(self, keys: Iterable[str]) -> None:
        """Forget replies; call it in a transaction."""
        self._database.execute_many("DELETE FROM replies WHERE key = ?", [(key,) for key in keys])

    def _reply(self, row: tuple[Any, ...]) -> Reply | None:
        """The reply in a row; None where it is damaged: a pickle that was planted, a byte that has turned."""
        kinds = tuple(map(type, row[:10])) == KINDS
        if kinds and row[9] == _checksum(row) and row[4] >= 0 <= row[5]:
            return Reply(*row[1:9])
        self.damaged.add(str(row[0]))
        return None


def _row(entry: Entry) -> tuple[str | int, ...]:
    reply = entry.reply
    return (
        entry.key,
        reply.text,
        reply.model,
        reply.finish_reason,
        reply.tokens_in,
        reply.tokens_out,
        reply.refusal,
        reply.tool_calls,
        reply.without,
    )


def _checksum(row: tuple[Any, ...]) -> int:
    """Over kinds and contents of the columns; against accidents, not against forgery."""
    return zlib.crc32(repr(row[:9]).encode("utf-8", "surrogatepass"))


def _outline(text: object) -> Mapping[str, Any]:
    """What a row says of its request; nothing where that is unreadable: it only explains."""
    return read_outline(_parsed(text))


def _run(text: object) -> object:
    """The run that asked, as far as a row says."""
    outline = _parsed(text)
    return outline.get(RUN) if isinstance(outline, dict) else None


def _parsed(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
