"""`CacheFolder`: a reply cache that tests can fill and damage, and entries for it."""

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import Database, ReplyTable
from tests.store_kinds import stored_entries

DAY_2024 = 1_704_110_400.0
"""2024-01-01T12:00:00+00:00."""


class Done(NamedTuple):
    status: int
    out: str
    err: str


class CacheFolder:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.file = directory / "replies.sqlite"

    def put(self, entries: Iterable[Entry]) -> None:
        with contextlib.closing(Database(self.directory)) as database, database.transaction():
            ReplyTable(database).put_many(entries)

    def entries(self) -> list[Entry]:
        with contextlib.closing(Database(self.directory)) as database:
            return stored_entries(database)

    def sql(self, statement: str, *values: object) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()


def key(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def entry(number: int, **changes: Any) -> Entry:
    fields = {"text": f"„Antwort“ {number}", "model": "m-2024", "tokens_in": 10, "tokens_out": 2}
    summary = {"base_url": "http://host/v1", "model": "m"}
    defaults = {"summary": summary, "written": DAY_2024 + 86_400 * number}
    entry_fields = {name: changes.pop(name, value) for name, value in defaults.items()}
    return Entry(key(number), Reply(**fields | changes), **entry_fields)
