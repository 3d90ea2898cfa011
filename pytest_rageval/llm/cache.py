"""The reply cache of a run: look-ups, and claims that decide which process requests a missing reply.

Replies are looked up in the cache folder and then in the cassette. A reply that is in neither is requested
by the one process that holds its lease; the others wait until the reply is stored or the lease has expired.
A lease lasts for seconds and is renewed by a thread, so a process that dies holds up the others only that long.
"""

import asyncio
import contextlib
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.messages import Reply, Request, RequestSummary
from pytest_rageval.llm.store import Database, Entry, Store

__all__ = ["LEASE_S", "Cache", "Leases"]

LEASE_S: Final = 5.0  # how long a process that died can hold up the others
RENEWAL_S: Final = 1.0
POLL_S: Final = 0.05  # how often a waiting process looks for another one's reply
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
        self._poll: asyncio.Task[None] | None = None
        self._claims: _Batch[str, Reply | bool] = _Batch(self._claim_all)
        self._leased: _Batch[str, bool] = _Batch(self._leased_all)
        self._entries: _Batch[Entry, Reply] = _Batch(self._keep_all)

    @property
    def database(self) -> Database:
        """The open database; opened at the first access."""
        return self._opened.database

    def find(self, keys: Sequence[str]) -> dict[str, Reply]:
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
        """Return the reply if it is kept by now; else whether this process may request it.

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
        leased = True
        while leased:
            # One moment for all waiting requests.
            if self._poll is None or self._poll.done():
                self._poll = asyncio.create_task(asyncio.sleep(POLL_S))
            await asyncio.shield(self._poll)
            leased = await self._leased.ask(key)

    def overrules(self, key: str, reply: Reply) -> bool:
        """Whether the cassette has another reply, for example after an edit or a colleague's recording."""
        entry = self._recorded.get(key)
        return entry is not None and entry.reply != reply

    def summaries(self) -> Iterator[RequestSummary]:
        """Yield the summary of every request whose reply is kept."""
        yield from (entry.summary for entry in self._recorded.values())
        with contextlib.suppress(StoreError):
            yield from (entry.summary for entry in self._opened.store.entries())

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
    def _recorded(self) -> Mapping[str, Entry]:
        """The entries of the cassette that count in this run."""
        if self._cassette is None:
            file, recording = self._cassette_file, self._missing_ok
            unread = file is None or self._refresh or (recording and not file.exists())
            recorded = {} if unread or file is None else read_cassette(file)
            # While a cassette is recorded, an empty reply is requested anew.
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

    def _find_in_folder(self, keys: Sequence[str]) -> dict[str, Reply]:
        store = self._opened.store
        found = store.get_many(keys, run=self._run, only_run=self._refresh)
        if store.damaged:
            self.remarks[DAMAGED] = len(store.damaged)
        return found

    def _claim_all(self, keys: Sequence[str]) -> dict[str, Reply | bool]:
        files = self._opened
        # In one transaction: no process can store a reply between look-up and claim.
        with files.database.transaction():
            found = self._find_in_folder(keys)
            claimed = files.leases.claim([key for key in keys if key not in found])
        return {key: found.get(key) or key in claimed for key in keys}

    def _release_claimed(self, key: str, claiming: asyncio.Task[Reply | bool]) -> None:
        if not claiming.cancelled() and claiming.exception() is None and claiming.result() is True:
            self.release(key)

    def _leased_all(self, keys: Sequence[str]) -> dict[str, bool]:
        leased = self._opened.leases.held(keys)
        return {key: key in leased for key in keys}

    def _keep_all(self, entries: Sequence[Entry]) -> dict[Entry, Reply]:
        files = self._opened
        keys = [entry.key for entry in entries]
        with files.database.transaction():
            found = self._find_in_folder(keys)
            files.store.put_many((entry for entry in entries if entry.key not in found), run=self._run)
            files.leases.release(keys)
        return {entry: found.get(entry.key, entry.reply) for entry in entries}


class _Batch(Generic[K, V]):
    """Collects the items of one turn of the event loop, and has `do` map them all to their results in one call."""

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


class _Files(NamedTuple):
    """The open files of a cache folder."""

    database: Database
    store: Store
    leases: "Leases"


def _is_url(base_url: str) -> bool:
    """Whether it is an address, and not a name such as that of the embedded model."""
    return "://" in base_url


class Leases:
    """The leases of this process. Another owner is dead when its leases have not changed for `LEASE_S`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = uuid.uuid4().hex
        self._others: dict[bytes, _Owner] = {}
        self._closed = threading.Event()
        self._renewing: threading.Thread | None = None

    def claim(self, keys: Sequence[str]) -> set[str]:
        """Take the leases that no living process holds, in a transaction; return the keys that are now this one's."""
        dead = [(owner,) for owner in self._dead_owners()]
        if dead:
            self._database.execute_many("DELETE FROM leases WHERE CAST(owner AS BLOB) = ?", dead)
        self._database.execute(
            "INSERT OR IGNORE INTO leases (key, owner, expires) SELECT value, ?, ? FROM json_each(?)",
            (self._owner, _new_mark(), json.dumps(list(keys))),
        )
        own = self.own(keys)
        if own and self._renewing is None:
            self._start_renewing()
        return own

    def own(self, keys: Sequence[str]) -> set[str]:
        """Return the keys whose lease this process holds; a suspended process may have lost some."""
        rows = self._database.rows(
            "SELECT key FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, json.dumps(list(keys))),
        )
        return {key for (key,) in rows}

    def held(self, keys: Sequence[str]) -> set[str]:
        """Return the keys whose lease a living process holds."""
        rows = self._database.rows(
            "SELECT key, CAST(owner AS BLOB) FROM leases WHERE key IN (SELECT value FROM json_each(?))",
            (json.dumps(list(keys)),),
        )
        dead = self._dead_owners() if rows else set()
        return {key for key, owner in rows if owner not in dead}

    def others_active(self) -> bool:
        """Whether another living process holds any lease."""
        dead = self._dead_owners()
        return bool(self._others.keys() - dead)

    def release(self, keys: Sequence[str]) -> None:
        """Delete leases of this process; call it in a transaction."""
        self._database.execute(
            "DELETE FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, json.dumps(list(keys))),
        )

    def close(self) -> None:
        """Release all leases and stop renewing."""
        self._closed.set()
        if self._renewing is not None:
            self._renewing.join(timeout=LEASE_S)
            # On a failing disk the leases expire; the requests themselves have raised the error.
            with contextlib.suppress(StoreError), self._database.transaction():
                self._database.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))

    def _start_renewing(self) -> None:
        self._renewing = threading.Thread(
            target=_renew,
            args=(self._database.directory, self._owner, self._closed),
            name="rageval-leases",
            daemon=True,
        )
        self._renewing.start()

    def _dead_owners(self) -> set[bytes]:
        """Look at the other owners; return those that have not renewed their leases for `LEASE_S`."""
        rows = self._database.rows(
            # As bytes: a damaged file may hold any value.
            "SELECT CAST(owner AS BLOB), CAST(max(expires) AS BLOB) FROM leases WHERE owner != ? GROUP BY owner",
            (self._owner,),
        )
        now = time.monotonic()
        before, self._others = self._others, {}
        for owner, mark in rows:
            self._others[owner] = known = before.get(owner) or _Owner(mark, now)
            known.look(mark, now)
        return {owner for owner, known in self._others.items() if known.unrenewed_s >= LEASE_S}


@dataclass(slots=True)
class _Owner:
    """Another process, as this one sees it: the mark of its leases, and for how long it has been the same."""

    mark: bytes
    looked_at: float
    unrenewed_s: float = 0.0

    def look(self, mark: bytes, now: float) -> None:
        if mark != self.mark:
            self.mark, self.unrenewed_s = mark, 0.0
        else:
            # At most one interval: this process may have been suspended itself.
            self.unrenewed_s += min(now - self.looked_at, RENEWAL_S)
        self.looked_at = now


def _new_mark() -> float:
    """Return a number that is new each time; it is never compared with a clock."""
    return time.monotonic()


def _renew(directory: Path, owner: str, closed: threading.Event) -> None:
    """Renew an owner's leases until closed; over a connection of its own, as SQLite's are for one thread."""
    database: Database | None = None
    while not closed.wait(RENEWAL_S):
        try:
            database = database or Database(directory)
            with database.transaction():
                database.execute("UPDATE leases SET expires = ? WHERE owner = ?", (_new_mark(), owner))
        except StoreError:
            # No file handle is left, the disk is full: try again in a second. Meanwhile each request checks
            # that it still holds its lease before it is sent.
            _close(database)
            database = None
    _close(database)


def _close(database: Database | None) -> None:
    if database is not None:
        with contextlib.suppress(StoreError):
            database.close()
