"""The one way to a model: cache, then cassette, then the server, each reply paid once."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rageval.errors import RagevalError, StoreError, Unscored
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.client import Client

if TYPE_CHECKING:
    from pytest_rageval.llm.reply import Reply
    from pytest_rageval.llm.request import Request
    from pytest_rageval.llm.servers import Server
    from pytest_rageval.llm.store import Store

__all__ = ["Access", "Door", "Usage"]


@dataclass(slots=True)
class Usage:
    """What a run asked for.

    Attributes:
        requests: replies asked for, however they were had.
        cached: of these, had from the cache or the cassette.
        live: of these, had from a server now.
        failed: of these, not had.
        tokens_in: of the live ones.
        tokens_out: of the live ones.
    """

    requests: int = 0
    cached: int = 0
    live: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Usage)))

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(Usage)))


@dataclass(frozen=True, slots=True)
class Access:
    """How models are reached.

    Attributes:
        cache_dir: of the reply cache.
        cassette: a file of recorded replies, read where the cache has none; or None.
        refresh: ask again, whatever is kept.
        record: keep every reply used in `Door.used`, to be written as a cassette.
        concurrency: the most requests in flight to one server.
        timeout_s: of one attempt, in seconds.
        retries: attempts after the first.
    """

    cache_dir: Path
    cassette: Path | None = None
    refresh: bool = False
    record: bool = False
    concurrency: int = 16
    timeout_s: float = 60.0
    retries: int = 4


@dataclass
class Door:
    """Asks models; used from one event loop.

    Two requests of the same key are one: the second waits for the first. A
    server that cannot answer at all is asked no more, so that a wrong key is
    one error and not four hundred.
    """

    access: Access
    usage: Usage = field(default_factory=Usage)
    used: "dict[str, Reply]" = field(default_factory=dict)
    _asking: "dict[str, asyncio.Future[Reply]]" = field(default_factory=dict)
    _broken: dict[tuple[str, str], RagevalError] = field(default_factory=dict)
    _clients: dict[str, Client] = field(default_factory=dict)
    _limits: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    _store: "Store | None" = None
    _cassette: "Mapping[str, Reply] | None" = None

    async def ask(self, server: "Server", request: "Request") -> "Reply":
        """The reply to a request, from wherever it can be had first.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: none can be answered: no server, a wrong key, an unusable cache.
        """
        key = request.key
        if key not in self._asking:
            asking = asyncio.ensure_future(self._ask(server, request))
            self._asking[key] = asking
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        # Shielded: the one who waits may be cancelled, the reply is for the others too.
        return await asyncio.shield(self._asking[key])

    async def close(self) -> None:
        """Close connections and files."""
        for client in self._clients.values():
            await client.close()
        if self._store is not None:
            self._store.close()
        self._clients.clear()
        self._store = None

    async def _ask(self, server: "Server", request: "Request") -> "Reply":
        self.usage.requests += 1
        reply = None if self.access.refresh else self._kept(request.key)
        if reply is not None:
            self.usage.cached += 1
        else:
            reply = await self._live(server, request)
        if self.access.record:
            self.used[request.key] = reply
        return reply

    def _kept(self, key: str) -> "Reply | None":
        if self.access.cassette is not None and self._cassette is None:
            self._cassette = self._read_cassette(self.access.cassette)
        recorded = None if self._cassette is None else self._cassette.get(key)
        try:
            return self._open_store().get(key) or recorded
        except StoreError:
            # A folder that cannot be written does no harm where everything is recorded.
            if recorded is None:
                raise
            return recorded

    def _read_cassette(self, path: Path) -> "Mapping[str, Reply]":
        # The first recording has no file to read yet; without recording a missing file is an error.
        return {} if self.access.record and not path.exists() else read_cassette(path)

    async def _live(self, server: "Server", request: "Request") -> "Reply":
        where = server.base_url, request.model
        async with self._limit(server):
            if where in self._broken:
                self.usage.failed += 1
                raise self._broken[where]
            try:
                # Opened first, so that no reply is paid that cannot be kept.
                store = self._open_store()
                reply = await self._client(server).complete(request)
                store.put(request.key, reply)
            except Unscored:
                self.usage.failed += 1
                raise
            except RagevalError as error:
                self.usage.failed += 1
                self._broken[where] = error
                raise
        self.usage.live += 1
        self.usage.tokens_in += reply.tokens_in
        self.usage.tokens_out += reply.tokens_out
        return reply

    def _client(self, server: "Server") -> Client:
        if server.base_url not in self._clients:
            self._clients[server.base_url] = Client(
                server, timeout_s=self.access.timeout_s, retries=self.access.retries
            )
        return self._clients[server.base_url]

    def _limit(self, server: "Server") -> asyncio.Semaphore:
        if server.base_url not in self._limits:
            limit = min(self.access.concurrency, server.in_flight or self.access.concurrency)
            self._limits[server.base_url] = asyncio.Semaphore(limit)
        return self._limits[server.base_url]

    def _open_store(self) -> "Store":
        if self._store is None:
            from pytest_rageval.llm.store import Store  # noqa: PLC0415 - with SQLite, when needed

            self._store = Store(self.access.cache_dir)
        return self._store
