"""The kinds of stores that the conformance tests run with, and how each stores and damages an entry."""

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from pytest_rageval.lib.secret import parse_cache
from pytest_rageval.models.stores.fallback import open_store
from pytest_rageval.models.stores.interface import Damaged, Entry, ReplyStore
from pytest_rageval.models.stores.sqlite import SqliteStore, inspect_entries
from pytest_rageval.models.stores.sqlite_file import FILE, Database
from pytest_rageval.run.registry import Registry
from tests.redis_server import RedisServer, redis_client

OPEN = "from tests.store_kinds import opened\n"
"""An import for the code of another process, which then opens the store by `opened(PLACE)`."""


def opened(place: str) -> ReplyStore:
    parsed = parse_cache(place)
    return SqliteStore(parsed) if isinstance(parsed, Path) else open_store(parsed, Registry().stores)


def stored_entries(database: Database) -> list[Entry]:
    entries = (entry.rest if isinstance(entry, Damaged) else entry for entry in inspect_entries(database))
    return [entry for entry in entries if entry is not None]


class Kind(Protocol):
    name: str

    def places(self, folder: Path) -> Iterator[str]: ...

    def damage(self, place: str, key: str, how: str) -> None:
        """Damage the reply of an entry: `how` is "cut", "changed" or "no text" (bytes that are not UTF-8)."""
        ...


class SqliteKind:
    name = "sqlite"

    def places(self, folder: Path) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield str(folder / f"cache{number}")

    def damage(self, place: str, key: str, how: str) -> None:
        sql = {
            "cut": "UPDATE replies SET text = substr(text, 1, 1) WHERE key = ?",
            "changed": "UPDATE replies SET text = text || 'x' WHERE key = ?",
            "no text": "UPDATE replies SET text = x'ff00' WHERE key = ?",
        }[how]
        with contextlib.closing(sqlite3.connect(Path(place) / FILE)) as connection, connection:
            assert connection.execute(sql, (key,)).rowcount == 1


class RedisKind:
    name = "redis"

    def places(self, folder: Path) -> Iterator[str]:
        with RedisServer(folder) as server:
            for number in itertools.cycle(range(16)):
                server.client(number).flushdb()
                yield f"{server.url}/{number}"

    def damage(self, place: str, key: str, how: str) -> None:
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
    name = "diskcache"

    def places(self, folder: Path) -> Iterator[str]:
        pytest.importorskip("diskcache")
        for number in itertools.count():
            yield f"diskcache:{folder / str(number)}"

    def damage(self, place: str, key: str, how: str) -> None:
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
    """The diskcache store in a folder with a `diskcache.FanoutCache` that already exists and has another entry."""

    name = "fanout"

    def places(self, folder: Path) -> Iterator[str]:
        diskcache = pytest.importorskip("diskcache")
        for place in super().places(folder):
            with diskcache.FanoutCache(place.partition(":")[2], shards=3, eviction_policy="none") as cache:
                cache["theirs"] = {"pickled": True}
            yield place


KINDS = [
    pytest.param(kind, id=kind.name, marks=[pytest.mark.slow, pytest.mark.long] if kind is FanoutKind else [])
    for kind in (SqliteKind, RedisKind, DiskcacheKind, FanoutKind)
]
