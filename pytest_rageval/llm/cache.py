"""The reply cache of a run: look-ups, and claims that decide which process requests a missing reply.

Replies are looked up in the store and then in the cassette. A reply that is in neither is requested by the one
process that has its claim; the others wait until the reply is stored or the claim has expired. A claim lasts for
seconds and is renewed by a thread, so a process that dies holds up the others only that long.

The store runs in its own thread. It may have to wait for another process's transaction or for a server; meanwhile the
requests in flight continue. A reply that takes no waiting is read at once (`Cache.get_nowait`): thousands of
coroutines that wait for one each take memory, and turns of the event loop.
"""

import asyncio
import contextlib
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any, Final, Generic, TypedDict, TypeVar, cast

from pytest_rageval.concurrency.event_loop import DaemonThreads
from pytest_rageval.errors import StoreError
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.messages import Reply, Request, RequestSummary
from pytest_rageval.llm.stores.interface import Entry, OpenStore, ReplyStore, Spending, skip_damaged
from pytest_rageval.llm.stores.sqlite import SqliteStore

__all__ = ["Cache"]

POLL_S: Final = 0.05  # how often a waiting process looks for another one's reply
DAMAGED: Final = "damaged entry of the cache passed over (`rageval cache verify` lists such entries)"
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class Cache:
    """The cache of one process; used from one event loop.

    Args:
        place: the cache folder, shared by all processes and made at the first use; or what opens another store.
        cassette: a file of recorded replies, or None.
        missing_ok: whether the cassette may be missing, because this run writes it.
        refresh: find only replies that this run requested, and none of the cassette.
        run: a name that the processes of a run share.

    Raises:
        StoreError: from any method, when the store or the cassette cannot be used.
    """

    def __init__(
        self,
        place: Path | OpenStore,
        cassette: Path | None,
        *,
        missing_ok: bool = False,
        refresh: bool = False,
        run: str = "",
    ) -> None:
        self._open: OpenStore = partial(SqliteStore, place) if isinstance(place, Path) else place
        self._cassette_file = cassette
        self._missing_ok = missing_ok
        self._refresh = refresh
        self._run = run or uuid.uuid4().hex
        self.remarks: Counter[str] = Counter()
        self._new_remarks: list[str] = []
        self._store: ReplyStore | None = None
        self._has_file = isinstance(place, Path)
        # Of the thread that uses the store.
        self._using = threading.Lock()
        self._thread = _thread()
        self._cassette: Mapping[str, Entry] | None = None
        self._poll: asyncio.Task[None] | None = None
        self._claims: _Batch[str, Reply | bool] = _Batch(self._claim_all, self._off_loop)
        self._owned: _Batch[str, bool | None] = _Batch(self._owned_all, self._off_loop)
        self._entries: _Batch[Entry, Reply] = _Batch(self._keep_all, self._off_loop)

    @property
    def store(self) -> ReplyStore:
        """The store; opened at the first access."""
        if self._store is None:
            self._store = self._open(self._new_remarks.append)
        return self._store

    async def open(self) -> None:
        """Open the store before anything is paid for, since a reply that cannot be stored would be lost."""
        if self._store is None:
            await self._off_loop(lambda: self.store)

    def get_nowait(self, keys: Sequence[str]) -> dict[str, Reply]:
        """As `look_up` for a few keys, at once; what takes waiting is left out.

        The first call opens the store and reads the cassette.
        """
        # The store's thread may be using it. Where it begins to just after this look, this waits.
        if not self._has_file or self._using.locked():
            return {}
        # No acquire() without waiting before a `try`: after a signal between the two the lock would stay held.
        with self._using:
            try:
                found = cast("SqliteStore", self.store).get_nowait(
                    keys, run=self._run, only_run=self._refresh
                )
                if len(found) < len(keys):
                    self._note_remarks()
                    self._add_recorded(keys, found)
            except StoreError:
                # `look_up` raises it, if it matters.
                self._has_file = False
                return {}
            return found

    async def look_up(self, keys: Sequence[str]) -> dict[str, Reply]:
        """Return the stored replies to these keys."""
        return await self._off_loop(lambda: self._find(keys))

    def find_at_other_address(self, request: Request, servers: Collection[str] = ()) -> Entry | None:
        """Return the cassette's entry for this request at another address, such as that of the recording machine.

        Everything else about the request is the same. None where several addresses have different replies. Those of
        the run's own `servers` are no other names of this one.
        """
        if not _is_url(request.base_url):
            return None
        others = (
            self._recorded.get(replace(request, base_url=address).key)
            for address in self._addresses.get(request.model, ())
            if address not in servers
        )
        entries = [entry for entry in others if entry is not None]
        replies = {(entry.reply.text, entry.reply.refusal, entry.reply.tool_calls) for entry in entries}
        return entries[0] if len(replies) == 1 else None

    async def claim(self, key: str) -> Reply | bool:
        """Return the reply if it is stored by now; otherwise whether this process may request it.

        After True the caller must call `keep` or `release`; a caller cancelled in here has no duty.
        """
        claiming = asyncio.ensure_future(self._claims.ask(key))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._release_claimed(key, done))
            raise

    async def keep(self, entry: Entry) -> Reply:
        """Store a reply durably; return it, or that of another process that was faster after a lost lease."""
        return await self._entries.ask(entry)

    def release(self, key: str) -> None:
        """Let another process request a claimed reply: none has come. It is done soon, before the next claim."""

        def release() -> None:
            # If this fails, the claim expires.
            with contextlib.suppress(StoreError):
                self.store.release([key])

        self._submit(release)

    async def holds_claim(self, key: str) -> bool:
        """Whether this process still has the claim that it was given; one that was suspended may have lost it."""
        return await self._owned.ask(key) is True

    async def others_active(self) -> bool:
        """Whether another living process requests anything."""
        return await self._off_loop(lambda: self.store.others_active())  # noqa: PLW0108 - opened in its thread

    async def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """As `ReplyStore.spend`; it is done as well where the caller is cancelled."""
        return await self._off_loop(
            lambda: self.store.spend(account, change, max_calls=max_calls, max_cost=max_cost)
        )

    async def wait_for_other(self, key: str) -> None:
        """Wait while another process requests this reply."""
        claimed = True
        while claimed:
            # One moment for all waiting requests.
            if self._poll is None or self._poll.done():
                self._poll = asyncio.create_task(asyncio.sleep(POLL_S))
            await asyncio.shield(self._poll)
            claimed = await self._owned.ask(key) is not None

    def differs_from_cassette(self, key: str, reply: Reply) -> bool:
        """Whether the cassette has another reply, for example after an edit or a colleague's recording."""
        entry = self._recorded.get(key)
        return entry is not None and entry.reply != reply

    def summaries(self) -> Iterator[RequestSummary]:
        """Yield the summary of every request with a stored reply; also for code outside of the event loop."""
        yield from (entry.summary for entry in self._recorded.values())
        with contextlib.suppress(StoreError):
            yield from self._submit(self._summaries).result()

    async def drain(self) -> None:
        """Wait until all replies are stored, also those whose callers were cancelled."""
        await self._entries.drain()

    def close(self) -> None:
        """End all claims and close the store; the next use opens it again."""
        thread, self._thread = self._thread, _thread()
        try:
            thread.submit(self._close).result()
        finally:
            thread.shutdown()

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Return the result of work in the store's thread, which is done as well where the caller is cancelled."""
        try:
            return await asyncio.shield(asyncio.wrap_future(self._submit(work)))
        finally:
            self._note_remarks()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        """Have the store's thread do some work."""

        def use() -> T:
            with self._using:
                return work()

        return self._thread.submit(use)

    def _note_remarks(self) -> None:
        # Here and not in the store's thread: the loop reads them.
        while self._new_remarks:
            self.remarks[self._new_remarks.pop()] += 1
        if self._store is not None and self._store.damaged:
            self.remarks[DAMAGED] = len(self._store.damaged)

    def _summaries(self) -> list[RequestSummary]:
        return [entry.summary for entry in skip_damaged(self.store.entries())]

    def _close(self) -> None:
        with self._using:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    @property
    def _recorded(self) -> Mapping[str, Entry]:
        """The entries of the cassette that count in this run."""
        if self._cassette is None:
            file, recording = self._cassette_file, self._missing_ok
            unread = file is None or self._refresh or (recording and not file.exists())
            recorded = {} if unread or file is None else read_cassette(file)
            # While a cassette is recorded, an empty reply is requested again.
            kept = (entry for entry in recorded.values() if not (recording and entry.reply.silent))
            self._cassette = {entry.key: entry for entry in kept}
        return self._cassette

    @cached_property
    def _addresses(self) -> Mapping[str, Sequence[str]]:
        """The addresses at which the cassette was recorded, by model."""
        found: dict[str, dict[str, None]] = {}
        for entry in self._recorded.values():
            model, address = entry.summary.get("model"), entry.summary.get("base_url")
            if model is not None and address is not None and _is_url(address):
                found.setdefault(model, {})[address] = None
        return {model: list(addresses) for model, addresses in found.items()}

    def _find(self, keys: Sequence[str]) -> dict[str, Reply]:
        recorded = self._recorded
        try:
            found = self.store.get_many(keys, **self._which)
        except StoreError:
            # An unusable store does no harm where the cassette has everything.
            if any(key not in recorded for key in keys):
                raise
            found = {}
        self._add_recorded(keys, found)
        return found

    def _add_recorded(self, keys: Sequence[str], found: dict[str, Reply]) -> None:
        recorded = self._recorded
        if recorded and len(found) < len(keys):
            found.update((key, recorded[key].reply) for key in keys if key not in found and key in recorded)

    @property
    def _which(self) -> "_Which":
        """Which replies count, as arguments of the store."""
        return {"run": self._run, "only_run": self._refresh}

    def _claim_all(self, keys: Sequence[str]) -> Mapping[str, Reply | bool]:
        return self.store.claim(keys, **self._which)

    def _owned_all(self, keys: Sequence[str]) -> Mapping[str, bool | None]:
        owned = self.store.claims(keys)
        return {key: owned.get(key) for key in keys}

    def _keep_all(self, entries: Sequence[Entry]) -> Mapping[Entry, Reply]:
        kept = self.store.keep(entries, **self._which)
        return {entry: kept[entry.key] for entry in entries}

    def _release_claimed(self, key: str, claiming: asyncio.Task[Reply | bool]) -> None:
        if not claiming.cancelled() and claiming.exception() is None and claiming.result() is True:
            self.release(key)


def _thread() -> DaemonThreads:
    return DaemonThreads(1, "rageval-store")


class _Which(TypedDict):
    run: str
    only_run: bool


class _Batch(Generic[K, V]):
    """Collects items and maps them to results in one call of `do`, off the event loop.

    The next call begins when the last has ended; what comes meanwhile is collected.
    """

    def __init__(
        self,
        do: Callable[[Sequence[K]], Mapping[K, V]],
        off_loop: Callable[[Callable[[], Mapping[K, V]]], Coroutine[Any, Any, Mapping[K, V]]],
    ) -> None:
        self._do = do
        self._off_loop = off_loop
        self._pending: dict[K, asyncio.Future[V]] = {}
        self._working: asyncio.Task[None] | None = None

    async def ask(self, item: K) -> V:
        """Return the result for one item."""
        if item not in self._pending:
            loop = asyncio.get_running_loop()
            self._pending[item] = loop.create_future()
            if self._working is None or self._working.done():
                self._working = loop.create_task(self._work())
        return await asyncio.shield(self._pending[item])

    async def drain(self) -> None:
        """Wait until nothing is pending."""
        if self._working is not None:
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, {}
            items = list(pending)
            try:
                results = await self._off_loop(lambda items=items: self._do(items))  # type: ignore[misc]
            except asyncio.CancelledError:
                for future in pending.values():
                    future.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - raised to the callers
                for future in pending.values():
                    future.set_exception(error)
                    # Mark it as retrieved: asyncio would complain if its caller was cancelled.
                    future.exception()
            else:
                for item, future in pending.items():
                    future.set_result(results[item])


def _is_url(base_url: str) -> bool:
    """Whether it is an address, and not a name such as that of the embedded model."""
    return "://" in base_url
