"""The stores that are tested against the port, each at a place of its own, and what harms them."""

import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from pytest_rageval.config.store_url import parse_cache
from pytest_rageval.llm.open_store import open_store
from pytest_rageval.llm.port import ReplyStore
from pytest_rageval.llm.store import FILE
from tests.redis_server import RedisServer, redis_client

__all__ = ["KINDS", "OPEN", "Kind", "opened"]

OPEN = "from tests.store_kinds import opened\n"
"""In the code of another process: `opened(PLACE)` opens the store."""


def opened(place: str) -> ReplyStore:
    """The store at a folder or URL."""
    return open_store(parse_cache(place))


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


KINDS: list[Callable[[], Kind]] = [SqliteKind, RedisKind]
