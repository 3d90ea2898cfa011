"""The stores that are tested against the port, each at a place of its own, and what harms them."""

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from pytest_rageval.llm.maintenance import inspect_entries
from pytest_rageval.llm.stores.factory import open_store
from pytest_rageval.llm.stores.interface import Damaged, Entry, ReplyStore
from pytest_rageval.llm.stores.sqlite import SqliteStore
from pytest_rageval.llm.stores.sqlite_file import FILE, Database
from pytest_rageval.secret import parse_cache
from tests.redis_server import RedisServer, redis_client

__all__ = ["KINDS", "OPEN", "Kind", "opened", "stored_entries"]

OPEN = "from tests.store_kinds import opened\n"
"""In the code of another process: `opened(PLACE)` opens the store."""


def opened(place: str) -> ReplyStore:
    """The store at a folder or URL."""
    parsed = parse_cache(place)
    return SqliteStore(parsed) if isinstance(parsed, Path) else open_store(parsed)


def stored_entries(database: Database) -> list[Entry]:
    """The entries in a cache folder with a good reply, sorted by key."""
    entries = (entry.rest if isinstance(entry, Damaged) else entry for entry in inspect_entries(database))
    return [entry for entry in entries if entry is not None]


class Kind(Protocol):
    """One kind of store."""

    name: str

    def places(self, folder: Path) -> Iterator[str]:
        """Yield places, each without entries."""
        ...

    def damage(self, place: str, key: str, how: str) -> None:
        """Do to an entry what an accident might: it is cut, changed, or no text."""
        ...


class SqliteKind:
    """The default: a folder."""

    name = "sqlite"

    def places(self, folder: Path) -> Iterator[str]:
        """One folder after the other."""
        number = 0
        while True:
            number += 1
            yield str(folder / f"cache{number}")

    def damage(self, place: str, key: str, how: str) -> None:
        """With SQLite itself."""
        sql = {
            "cut": "UPDATE replies SET text = substr(text, 1, 1) WHERE key = ?",
            "changed": "UPDATE replies SET text = text || 'x' WHERE key = ?",
            "no text": "UPDATE replies SET text = x'ff00' WHERE key = ?",
        }[how]
        with contextlib.closing(sqlite3.connect(Path(place) / FILE)) as connection, connection:
            assert connection.execute(sql, (key,)).rowcount == 1


class RedisKind:
    """One server, whose databases are emptied."""

    name = "redis"

    def places(self, folder: Path) -> Iterator[str]:
        """Databases of one server, one after the other, each emptied."""
        with RedisServer(folder) as server:
            for number in itertools.cycle(range(16)):
                server.client(number).flushdb()
                yield f"{server.url}/{number}"

    def damage(self, place: str, key: str, how: str) -> None:
        """With a client of its own."""
        client = redis_client(place)
        name = f"rageval:1:replies:reply:{key}"
        text = client.get(name)
        assert text is not None
        changed = {
            "cut": text[: len(text) // 2],
            "changed": text.replace(b'"m"', b'"n"'),
            "no text": b"\xff\x00",
        }
        client.set(name, changed[how])


class DiskcacheKind:
    """A folder with a `Cache`."""

    name = "diskcache"

    def places(self, folder: Path) -> Iterator[str]:
        """One folder after the other, which the store makes."""
        pytest.importorskip("diskcache")
        for number in itertools.count():
            yield f"diskcache:{folder / str(number)}"

    def damage(self, place: str, key: str, how: str) -> None:
        """With SQLite itself."""
        sql = {
            "cut": "UPDATE Cache SET value = substr(value, 1, length(value) / 2) WHERE key = ?",
            "changed": "UPDATE Cache SET value = replace(value, '\"m\"', '\"n\"') WHERE key = ?",
            "no text": "UPDATE Cache SET value = CAST(x'ff00' AS TEXT) WHERE key = ?",
        }[how]
        changed = 0
        for file in Path(place.partition(":")[2]).rglob("cache.db"):
            with contextlib.closing(sqlite3.connect(file)) as connection, connection:
                changed += connection.execute(sql, (f"rageval:replies:reply:{key}",)).rowcount
        assert changed == 1


class FanoutKind(DiskcacheKind):
    """A folder with a `FanoutCache`, which a team has made."""

    name = "fanout"

    def places(self, folder: Path) -> Iterator[str]:
        """One folder after the other, with a team's own value in it."""
        diskcache = pytest.importorskip("diskcache")
        for place in super().places(folder):
            with diskcache.FanoutCache(place.partition(":")[2], shards=3, eviction_policy="none") as cache:
                cache["theirs"] = {"pickled": True}
            yield place


KINDS = [
    pytest.param(kind, id=kind.name, marks=[pytest.mark.slow, pytest.mark.long] if kind is FanoutKind else [])
    for kind in (SqliteKind, RedisKind, DiskcacheKind, FanoutKind)
]
