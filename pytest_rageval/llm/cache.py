"""The reply cache of a run: look-ups, and claims that decide which process requests a missing reply.

Replies are looked up in the cache folder and then in the cassette. A reply that is in neither is requested
by the one process that holds its lease; the others wait until the reply is stored or the lease has expired.
"""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.leases import Leases
from pytest_rageval.llm.store import Database, Entry, Store

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Reply, Request, RequestSummary

__all__ = ["Cache"]

POLL_S: Final = 0.05
"""How often a waiting process looks for another one's reply."""

DAMAGED: Final = "damaged entry of the cache passed over (`rageval cache verify` lists such entries)"

RESTORED: Final = "removal of the cache folder during the run; it was made again with all that was kept in it"

K = TypeVar("K")
V = TypeVar("V")


class Cache:
    """The cache of one process; used from one event loop.

    Args:
        directory: the cache folder, shared by all processes; made at the first use.
        cassette: a file of recorded replies, or None.
        missing_ok: whether the cassette may be missing, because this run writes it.
        refresh: find only replies that this run requested, and none of the cassette.
        run: a name that the processes of a run share.

    Attributes:
        remarks: what readers of the scores should know, with its count.

    Raises:
        StoreError: from any method, when the folder or the cassette cannot be used.
    """

    def __init__(
        self,
        directory: Path,
        cassette: Path | None,
        *,
        missing_ok: bool = False,
        refresh: bool = False,
        run: str = "",
    ) -> None:
        self._directory = directory
        self._cassette_file = cassette
        self._missing_ok = missing_ok
        self._refresh = refresh
        self._run = run or uuid.uuid4().hex
        self.remarks: Counter[str] = Counter()
        self._files: _Files | None = None
        self._cassette: Mapping[str, Entry] | None = None
        self._poll: asyncio.Future[None] | None = None
        self._claims: _Batch[str, Reply | bool] = _Batch(self._claim_all)
        self._leased: _Batch[str, bool] = _Batch(self._leased_all)
        self._entries: _Batch[Entry, Reply] = _Batch(self._keep_all)

    @property
    def database(self) -> Database:
        """The open database; opened at the first access."""
        return self._opened.database

    def find(self, keys: Sequence[str]) -> "dict[str, Reply]":
        """Return the replies kept under these keys."""
        recorded = self._recorded
        try:
            found = self._find_in_folder(keys)
        except StoreError:
            # An unusable folder does no harm where the cassette has everything.
            if any(key not in recorded for key in keys):
                raise
            found = {}
        if recorded and len(found) < len(keys):
            found.update((key, recorded[key].reply) for key in keys if key not in found and key in recorded)
        return found

    def find_at_other_address(self, request: "Request") -> "Entry | None":
        """Return the cassette's entry for this request at another server, such as that of the recording machine.

        Everything else about the request is the same. None where several addresses have different replies.
        """
        if not _is_url(request.base_url):
            return None
        others = (
            self._recorded.get(replace(request, base_url=address).key)
            for address in self._addresses.get(request.model, ())
        )
        entries = [entry for entry in others if entry is not None]
        replies = {(entry.reply.text, entry.reply.refusal, entry.reply.tool_calls) for entry in entries}
        return entries[0] if len(replies) == 1 else None

    async def claim(self, key: str) -> "Reply | bool":
        """Return the reply if it is kept by now; else whether this process may request it.

        After True the caller must call `keep` or `release`; a caller cancelled in here has no duty.
        """
        claiming = asyncio.ensure_future(self._claims.ask(key))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._release_claimed(key, done))
            raise

    async def keep(self, entry: "Entry") -> "Reply":
        """Store a reply for all processes, durably once this returns.

        Returns:
            The stored reply: another process's, where this one lost its lease and the other was faster.
        """
        return await self._entries.ask(entry)

    def release(self, key: str) -> None:
        """Let another process request a claimed reply: none has come."""
        # If this fails, the lease expires.
        with contextlib.suppress(StoreError):
            files = self._opened
            with files.database.transaction():
                files.leases.release([key])

    def holds_lease(self, key: str) -> bool:
        """Whether this process still holds the lease that it claimed."""
        return bool(self._opened.leases.own([key]))

    def others_active(self) -> bool:
        """Whether another living process requests anything."""
        return self._opened.leases.others_active()

    async def wait_for_other(self, key: str) -> None:
        """Wait while another process requests this reply."""
        while True:
            await self._next_poll()
            if not await self._leased.ask(key):
                return

    def overrules(self, key: str, reply: "Reply") -> bool:
        """Whether the cassette has another reply, for example after an edit or a colleague's recording."""
        entry = self._recorded.get(key)
        return entry is not None and entry.reply != reply

    def summaries(self) -> "Iterator[RequestSummary]":
        """Yield the summary of every request whose reply is kept."""
        yield from (entry.summary for entry in self._recorded.values())
        try:
            yield from (entry.summary for entry in self._opened.store.entries())
        except StoreError:
            return

    def close(self) -> None:
        """Release all leases and close the files."""
        if self._files is not None:
            self._files.leases.close()
            self._files.database.close()
            self._files = None

    @property
    def _opened(self) -> "_Files":
        if self._files is None:
            database = Database(self._directory, restored=lambda: self.remarks.update([RESTORED]))
            self._files = _Files(database, Store(database), Leases(database))
        return self._files

    @property
    def _recorded(self) -> "Mapping[str, Entry]":
        """The entries of the cassette that count in this run."""
        if self._cassette is None:
            file = self._cassette_file
            unread = file is None or self._refresh or (self._missing_ok and not file.exists())
            recorded = {} if unread or file is None else read_cassette(file)
            if self._missing_ok:
                # The cassette is being recorded: an empty reply is requested anew.
                recorded = {key: entry for key, entry in recorded.items() if not entry.reply.silent}
            self._cassette = recorded
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

    def _find_in_folder(self, keys: Sequence[str]) -> "dict[str, Reply]":
        store = self._opened.store
        found = store.get_many(keys, run=self._run, only_run=self._refresh)
        if store.damaged:
            self.remarks[DAMAGED] = len(store.damaged)
        return found

    def _claim_all(self, keys: Sequence[str]) -> "dict[str, Reply | bool]":
        files = self._opened
        # In one transaction: no process can store a reply between look-up and claim.
        with files.database.transaction():
            found = self._find_in_folder(keys)
            claimed = files.leases.claim([key for key in keys if key not in found])
        return {key: found.get(key) or key in claimed for key in keys}

    def _release_claimed(self, key: str, claiming: "asyncio.Task[Reply | bool]") -> None:
        if not claiming.cancelled() and claiming.exception() is None and claiming.result() is True:
            self.release(key)

    def _leased_all(self, keys: Sequence[str]) -> dict[str, bool]:
        leased = self._opened.leases.held(keys)
        return {key: key in leased for key in keys}

    def _keep_all(self, entries: "Sequence[Entry]") -> "dict[Entry, Reply]":
        files = self._opened
        keys = [entry.key for entry in entries]
        with files.database.transaction():
            found = self._find_in_folder(keys)
            files.store.put_many((entry for entry in entries if entry.key not in found), run=self._run)
            files.leases.release(keys)
        return {entry: found.get(entry.key, entry.reply) for entry in entries}

    async def _next_poll(self) -> None:
        """Wait for the next poll, which is the same moment for all waiting requests."""
        if self._poll is None:
            loop = asyncio.get_running_loop()
            self._poll = loop.create_future()
            loop.call_later(POLL_S, self._end_poll)
        await asyncio.shield(self._poll)

    def _end_poll(self) -> None:
        poll, self._poll = self._poll, None
        if poll is not None:
            poll.set_result(None)


class _Batch(Generic[K, V]):
    """Collects the items of one turn of the event loop and processes them in one call.

    Args:
        do: maps all items to their results; an exception goes to every caller.
    """

    def __init__(self, do: Callable[[Sequence[K]], Mapping[K, V]]) -> None:
        self._do = do
        self._pending: dict[K, asyncio.Future[V]] = {}

    async def ask(self, item: K) -> V:
        """Return the result for one item."""
        if item not in self._pending:
            loop = asyncio.get_running_loop()
            if not self._pending:
                loop.call_soon(self._process)
            self._pending[item] = loop.create_future()
        return await asyncio.shield(self._pending[item])

    def _process(self) -> None:
        pending, self._pending = self._pending, {}
        try:
            results = self._do(list(pending))
        except Exception as error:  # noqa: BLE001 - raised to the callers
            for future in pending.values():
                future.set_exception(error)
                # Mark it as retrieved: asyncio would complain if its caller was cancelled.
                future.exception()
            return
        for item, future in pending.items():
            future.set_result(results[item])


@dataclass(frozen=True, slots=True)
class _Files:
    """The open files of a cache folder."""

    database: Database
    store: "Store"
    leases: Leases


def _is_url(base_url: str) -> bool:
    """Whether it is an address, and not a name such as that of the embedded model."""
    return "://" in base_url
