"""The reply cache of a run: look-ups, and claims that decide which process requests a missing reply.

Replies are looked up in the store and then in the cassette. If neither has a reply, the process that has the claim
requests it; the other processes wait until the reply is stored or the claim has expired. A claim expires after seconds
and is renewed by a thread, so a process that dies blocks the others only that long.

The store runs in its own thread: it may have to wait for another process's transaction or for a server, and meanwhile
the requests in flight continue. A reply that can be read without waiting is read at once (`Cache.get_nowait`):
thousands of waiting coroutines would take memory and iterations of the event loop.
"""

import asyncio
import contextlib
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final, Generic, TypedDict, TypeVar

from pytest_rageval.calls.threads import DaemonThreadPool
from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.cassette import Cassette
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry, OpenStore, ReplyStore, Spending, skip_damaged
from pytest_rageval.models.stores.sqlite import SqliteStore
from pytest_rageval.models.summaries import RequestSummary

POLL_S: Final = 0.05  # how often a waiting process checks for the reply that another process requests
DAMAGED: Final = "damaged entry of the cache ignored (`rageval cache verify` lists such entries)"
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class _ReplyFilter(TypedDict):
    run: str
    only_run: bool


class Cache:
    """The cache of one process; used from one event loop. Every method raises StoreError if it cannot be used.

    `place` is the cache folder, or a function that opens another store. With `missing_ok`, this run writes the
    cassette. With `refresh`, only replies that this run requested are found. With `replay`, empty replies of other runs
    count too.
    """

    def __init__(  # noqa: PLR0913 - the settings of a run
        self,
        place: Path | OpenStore,
        cassette: Path | None,
        *,
        missing_ok: bool = False,
        refresh: bool = False,
        run: str = "",
        replay: bool = False,
    ) -> None:
        self._open_store: OpenStore = partial(SqliteStore, place) if isinstance(place, Path) else place
        self.cassette: Cassette = Cassette(None if refresh else cassette, recording=missing_ok)
        own_run = "" if replay else run or uuid.uuid4().hex
        self._reply_filter: _ReplyFilter = {"run": own_run, "only_run": refresh}
        self.remarks: Counter[str] = Counter()
        self._new_remarks: list[str] = []
        self._store: ReplyStore | None = None
        self._can_read_nowait = isinstance(place, Path)
        # Keys that will be needed, and the replies to them that were read; None if there is none.
        self._announced: list[str] = []
        self._read_ahead: dict[str, Reply | None] = {}
        # Held by the thread that uses the store.
        self._store_lock = threading.Lock()
        self._store_thread = DaemonThreadPool(1, "rageval-store")
        self._poll: asyncio.Task[None] | None = None
        self._claiming: _Batcher[str, Reply | bool] = _Batcher(self._claim_all, self._off_loop)
        self._claim_states: _Batcher[str, bool | None] = _Batcher(self._claim_states_of_all, self._off_loop)
        self._keeping: _Batcher[Entry, Reply] = _Batcher(self._keep_all, self._off_loop)

    @property
    def store(self) -> ReplyStore:
        if self._store is None:
            self._store = self._open_store(self._new_remarks.append)
        return self._store

    async def open(self) -> None:
        """Open the store before anything is paid for, since a reply that cannot be stored would be lost."""
        if self._store is None:
            await self._off_loop(lambda: self.store)

    def read_soon(self, keys: Sequence[str]) -> None:
        """Announce a `get_nowait` of these keys: the next one reads them too, in the same look-up."""
        if self._can_read_nowait:
            self._announced += keys

    def get_nowait(self, keys: Sequence[str]) -> dict[str, Reply]:
        """Return the same as `look_up` for a few keys, except replies that cannot be read without waiting.

        The first call opens the store and reads the cassette.
        """
        # If the store's thread acquires the lock right after this check, the `with` below waits for it.
        if not self._can_read_nowait or self._store_lock.locked():
            return {}
        # No acquire(blocking=False) and `try`: a signal between the two would leave the lock held.
        with self._store_lock:
            try:
                if not self._read_ahead.keys() >= set(keys):
                    self._read_announced(keys)
            except StoreError:
                # If the error concerns any reply, `look_up` raises it.
                self._can_read_nowait = False
                return {}
            # A signal between a call in a `return` and the end of the block would leave the lock held.
            replies = {key: reply for key in keys if (reply := self._read_ahead.pop(key)) is not None}
            return replies  # noqa: RET504

    def _read_announced(self, keys: Sequence[str]) -> None:
        announced, self._announced = self._announced, []
        wanted = list(dict.fromkeys((*keys, *announced)))
        store: Any = self.store  # a `SqliteStore`
        replies: dict[str, Reply] = store.get_nowait(wanted, **self._reply_filter)
        if len(replies) < len(wanted):
            self._note_remarks()
            self._add_recorded(wanted, replies)
        self._read_ahead |= {key: replies.get(key) for key in wanted}

    async def look_up(self, keys: Sequence[str]) -> dict[str, Reply]:
        return await self._off_loop(lambda: self._find(keys))

    async def claim(self, key: str) -> Reply | bool:
        """Return the reply if it is stored by now; otherwise whether this process has the claim to request it.

        After True, the caller must call `keep` or `release`. If this coroutine is cancelled, it releases the claim
        itself.
        """
        claiming = asyncio.ensure_future(self._claiming.result(key))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._release_if_claimed(key, done))
            raise

    async def keep(self, entry: Entry) -> Reply:
        """Store a reply durably; return the stored one: another process's, if this process has lost the claim."""
        return await self._keeping.result(entry)

    def release(self, key: str) -> None:
        """End the claim of a request that got no reply, so that another process may send it.

        The store's thread does this soon, and before any later claim.
        """

        def release() -> None:
            # If this fails, the claim expires.
            with contextlib.suppress(StoreError):
                self.store.release([key])

        self._submit(release)

    async def holds_claim(self, key: str) -> bool:
        """Whether this process still has a claim; if the process was suspended, the claim may have expired."""
        return await self._claim_states.result(key) is True

    async def others_active(self) -> bool:
        return await self._off_loop(lambda: self.store.others_active())  # noqa: PLW0108 - opened in its thread

    async def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """`ReplyStore.spend` in the store's thread; a cancelled caller does not cancel it."""
        return await self._off_loop(
            lambda: self.store.spend(account, change, max_calls=max_calls, max_cost=max_cost)
        )

    async def wait_for_other(self, key: str) -> None:
        """Wait while another process has the claim of this request."""
        claimed = True
        while claimed:
            # All waiting requests share one sleep, and so one query.
            if self._poll is None or self._poll.done():
                self._poll = asyncio.create_task(asyncio.sleep(POLL_S))
            await asyncio.shield(self._poll)
            claimed = await self._claim_states.result(key) is not None

    def summaries(self) -> Iterator[RequestSummary]:
        """Yield the summary of every request with a stored or recorded reply; callable in any thread."""
        yield from (entry.summary for entry in self.cassette.entries.values())
        with contextlib.suppress(StoreError):
            yield from self._submit(self._summaries).result()

    async def drain(self) -> None:
        """Wait until all replies are stored, including the replies of cancelled callers."""
        await self._keeping.drain()

    def close(self) -> None:
        """End all claims and close the store; the next use opens it again."""
        thread, self._store_thread = self._store_thread, DaemonThreadPool(1, "rageval-store")
        try:
            thread.submit(self._close).result()
        finally:
            thread.shutdown()
            self._note_remarks()

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """Run a function in the store's thread and return its result; a cancelled caller does not cancel it."""
        try:
            return await asyncio.shield(asyncio.wrap_future(self._submit(work)))
        finally:
            self._note_remarks()

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        def locked() -> T:
            with self._store_lock:
                return work()

        return self._store_thread.submit(locked)

    def _note_remarks(self) -> None:
        # In the event loop's thread, which also reads `remarks`.
        while self._new_remarks:
            self.remarks[self._new_remarks.pop()] += 1
        if self._store is not None and self._store.damaged:
            self.remarks[DAMAGED] = len(self._store.damaged)

    def _summaries(self) -> list[RequestSummary]:
        return [entry.summary for entry in skip_damaged(self.store.entries())]

    def _close(self) -> None:
        with self._store_lock:
            store, self._store = self._store, None
            if store is not None:
                store.close()

    def _find(self, keys: Sequence[str]) -> dict[str, Reply]:
        recorded = self.cassette.entries
        try:
            replies = self.store.get_many(keys, **self._reply_filter)
        except StoreError:
            # If the cassette has all replies, the run does not need the store.
            if any(key not in recorded for key in keys):
                raise
            replies = {}
        self._add_recorded(keys, replies)
        return replies

    def _add_recorded(self, keys: Sequence[str], replies: dict[str, Reply]) -> None:
        recorded = self.cassette.entries
        if recorded and len(replies) < len(keys):
            replies.update(
                (key, recorded[key].reply) for key in keys if key not in replies and key in recorded
            )

    def _claim_all(self, keys: Sequence[str]) -> Mapping[str, Reply | bool]:
        return self.store.claim(keys, **self._reply_filter)

    def _claim_states_of_all(self, keys: Sequence[str]) -> Mapping[str, bool | None]:
        claims = self.store.claims(keys)
        return {key: claims.get(key) for key in keys}

    def _keep_all(self, entries: Sequence[Entry]) -> Mapping[Entry, Reply]:
        replies = self.store.keep(entries, **self._reply_filter)
        return {entry: replies[entry.key] for entry in entries}

    def _release_if_claimed(self, key: str, claiming: asyncio.Task[Reply | bool]) -> None:
        if not claiming.cancelled() and claiming.exception() is None and claiming.result() is True:
            self.release(key)


class _Batcher(Generic[K, V]):
    """Computes the results of many items with one call of `compute`, off the event loop.

    While a call is running, new items are collected for the next call.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[K]], Mapping[K, V]],
        off_loop: Callable[[Callable[[], Mapping[K, V]]], Coroutine[Any, Any, Mapping[K, V]]],
    ) -> None:
        self._compute = compute
        self._off_loop = off_loop
        self._pending: dict[K, asyncio.Future[V]] = {}
        self._working: asyncio.Task[None] | None = None

    async def result(self, item: K) -> V:
        loop = asyncio.get_running_loop()
        if item not in self._pending:
            self._pending[item] = loop.create_future()
        # A task that was cancelled before its first step has left its items pending.
        if self._working is None or self._working.done():
            self._working = loop.create_task(self._work())
        return await asyncio.shield(self._pending[item])

    async def drain(self) -> None:
        if self._working is not None:
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        while self._pending:
            pending, self._pending = self._pending, {}
            items = list(pending)
            try:
                results = await self._off_loop(lambda items=items: self._compute(items))  # type: ignore[misc]
            except asyncio.CancelledError:
                for future in pending.values():
                    future.cancel()
                raise
            except BaseException as error:  # noqa: BLE001 - raised to the callers
                for future in pending.values():
                    future.set_exception(error)
                    # Mark the exception as retrieved: if its caller was cancelled, asyncio would log it.
                    future.exception()
            else:
                for item, future in pending.items():
                    future.set_result(results[item])
