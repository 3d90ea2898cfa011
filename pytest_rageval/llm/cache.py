"""The reply cache of a run: look-ups, and leases that decide which process requests a missing reply.

Replies are looked up in the cache folder and then in the cassette. A reply that is in neither is requested
by the one process that holds its lease; the others wait until the reply is stored or the lease has expired.
Leases last for seconds and are renewed by a thread of their own, so a process that dies holds up the others
only that long.
"""

import asyncio
import contextlib
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.cassette import read_cassette
from pytest_rageval.llm.store import Database

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Reply, Request
    from pytest_rageval.llm.store import Entry, Store

__all__ = ["LEASE_S", "Batch", "Cache", "Leases"]

K = TypeVar("K")
V = TypeVar("V")


class Batch(Generic[K, V]):
    """Collects what is asked while the event loop goes round once, and asks it together.

    Args:
        do: from all of them to an answer each; an exception is that of all.
    """

    def __init__(self, do: Callable[[Sequence[K]], Mapping[K, V]]) -> None:
        self._do = do
        self._asked: dict[K, asyncio.Future[V]] = {}

    async def ask(self, item: K) -> V:
        """The answer to one of them."""
        if item not in self._asked:
            loop = asyncio.get_running_loop()
            if not self._asked:
                loop.call_soon(self._answer)
            self._asked[item] = loop.create_future()
        return await asyncio.shield(self._asked[item])

    def _answer(self) -> None:
        asked, self._asked = self._asked, {}
        try:
            answers = self._do(list(asked))
        except Exception as error:  # noqa: BLE001 - handed to those who asked
            for future in asked.values():
                future.set_exception(error)
                # Read once: one who was cancelled meanwhile will not, and asyncio would complain.
                future.exception()
            return
        for item, future in asked.items():
            future.set_result(answers[item])


LEASE_S: Final = 5.0
"""How long a process that died can keep the others waiting for a reply."""

RENEWAL_S: Final = 1.0


@dataclass(slots=True)
class _Owner:
    """Another process, as this one sees it.

    Attributes:
        mark: of its leases, when they were looked at last.
        looked: when that was.
        silent_s: for how long the mark has been the same, as far as this process was there to see it.
    """

    mark: bytes
    looked: float
    silent_s: float = 0.0

    def look(self, mark: bytes, now: float) -> None:
        if mark != self.mark:
            self.mark, self.silent_s = mark, 0.0
        else:
            # A process that was stopped itself has not seen what the others did meanwhile.
            self.silent_s += min(now - self.looked, RENEWAL_S)
        self.looked = now


class Leases:
    """The leases of this process, which is one owner, and a view on those of others."""

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._owner = uuid.uuid4().hex
        self._others: dict[bytes, _Owner] = {}
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None

    def claim(self, keys: Sequence[str]) -> set[str]:
        """Take the leases of these keys that nobody living holds; call it in a transaction.

        Returns:
            Those that are now this process's to ask for.
        """
        dead = [(owner,) for owner in self._silent()]
        if dead:
            self._database.execute_many("DELETE FROM leases WHERE CAST(owner AS BLOB) = ?", dead)
        self._database.execute(
            "INSERT OR IGNORE INTO leases (key, owner, expires) SELECT value, ?, ? FROM json_each(?)",
            (self._owner, _mark(), json.dumps(list(keys))),
        )
        ours = self.ours(keys)
        if ours and self._renewing is None:
            self._start_renewing()
        return ours

    def ours(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys whose lease this process holds: one that was stopped may have lost some."""
        rows = self._database.rows(
            "SELECT key FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, json.dumps(list(keys))),
        )
        return {key for (key,) in rows}

    def held(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that some living process is asking for."""
        rows = self._database.rows(
            "SELECT key, CAST(owner AS BLOB) FROM leases WHERE key IN (SELECT value FROM json_each(?))",
            (json.dumps(list(keys)),),
        )
        dead = self._silent() if rows else set()
        return {key for key, owner in rows if owner not in dead}

    def others(self) -> bool:
        """Whether another living process is asking for anything."""
        dead = self._silent()
        return bool(self._others.keys() - dead)

    def release(self, keys: Sequence[str]) -> None:
        """Give leases of this process back: the reply is kept, or will not come; call it in a transaction."""
        self._database.execute(
            "DELETE FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, json.dumps(list(keys))),
        )

    def close(self) -> None:
        """Give all of them back, and stop renewing."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(timeout=LEASE_S)
            # On a disk that fails by now they run out by themselves; what was asked has been told of it.
            with contextlib.suppress(StoreError), self._database.transaction():
                self._database.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))

    def _start_renewing(self) -> None:
        self._renewing = threading.Thread(
            target=_renew,
            args=(self._database.directory, self._owner, self._ended),
            name="rageval-leases",
            daemon=True,
        )
        self._renewing.start()

    def _silent(self) -> set[bytes]:
        """Look at the other owners: those that have not marked their leases for as long as one lasts."""
        rows = self._database.rows(
            # As bytes: whatever somebody has written there is an owner, and a mark.
            "SELECT CAST(owner AS BLOB), CAST(max(expires) AS BLOB) FROM leases WHERE owner != ? GROUP BY owner",
            (self._owner,),
        )
        now = time.monotonic()
        before, self._others = self._others, {}
        for owner, mark in rows:
            known = before.get(owner)
            if known is None:
                known = _Owner(mark, now)
            else:
                known.look(mark, now)
            self._others[owner] = known
        return {owner for owner, known in self._others.items() if known.silent_s >= LEASE_S}


def _mark() -> float:
    """A number that is another one each time; nobody compares it with a clock."""
    return time.monotonic()


def _renew(directory: Path, owner: str, ended: threading.Event) -> None:
    """Mark an owner's leases anew until told to end; a connection is for one thread."""
    database: Database | None = None
    while not ended.wait(RENEWAL_S):
        try:
            database = database or Database(directory)
            with database.transaction():
                database.execute("UPDATE leases SET expires = ? WHERE owner = ?", (_mark(), owner))
        except StoreError:
            # No file handle is left, the disk is full: a second later there may be one. Until then whoever
            # sends looks first whether the lease is still its own.
            if database is not None:
                with contextlib.suppress(StoreError):
                    database.close()
                database = None
    if database is not None:
        with contextlib.suppress(StoreError):
            database.close()


POLL_S: Final = 0.05
"""How often is looked whether another process has the reply."""

DAMAGED: Final = "damaged entry of the cache passed over (`rageval cache verify` lists such entries)"

RESTORED: Final = "removal of the cache folder during the run; it was made again with all that was kept in it"


@dataclass(frozen=True, slots=True)
class _Files:
    """What is open of a cache folder."""

    database: "Database"
    store: "Store"
    leases: "Leases"


class Cache:
    """The cache of one process; used from one event loop.

    Args:
        directory: of replies, shared by all processes; made when it is needed.
        cassette: a file of recorded replies, or None.
        missing_ok: whether the cassette may be missing: it is to be written first.
        refresh: whether only what this run asked for is found, and nothing of the cassette.
        run: a name that the processes of a run share.

    Attributes:
        remarks: what a reader of the scores should know, with how often it happened.

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
        self._claims: Batch[str, Reply | bool] = Batch(self._claim_all)
        self._held: Batch[str, bool] = Batch(self._held_all)
        self._entries: Batch[Entry, Reply] = Batch(self._keep_all)

    @property
    def database(self) -> "Database":
        """The file behind it; opened here, so that nothing is paid that could not be kept."""
        return self._opened.database

    def find(self, keys: Sequence[str]) -> "dict[str, Reply]":
        """The replies that are kept under these keys."""
        recorded = self._recorded
        try:
            found = self._kept(keys)
        except StoreError:
            # A folder that cannot be used does no harm where everything is recorded.
            if any(key not in recorded for key in keys):
                raise
            found = {}
        if recorded and len(found) < len(keys):
            found.update((key, recorded[key].reply) for key in keys if key not in found and key in recorded)
        return found

    def recorded_elsewhere(self, request: "Request") -> "Entry | None":
        """The cassette's entry for this request at another address, such as that of the machine it was recorded on.

        Its key is that of the request with the other address, so nothing else about it may differ. Where it
        was recorded at several addresses with different replies there is none: no one of them is meant.
        """
        if not _is_address(request.base_url):
            return None
        others = (
            self._recorded.get(replace(request, base_url=address).key)
            for address in self._addresses.get(request.model, ())
        )
        entries = [entry for entry in others if entry is not None]
        said = {(entry.reply.text, entry.reply.refusal, entry.reply.tool_calls) for entry in entries}
        return entries[0] if len(said) == 1 else None

    async def claim(self, key: str) -> "Reply | bool":
        """The reply, if there is one by now; else whether it is this process that may ask for it.

        Who may must call `keep` or `release`; who is cancelled before knowing has nothing to do.
        """
        claiming = asyncio.ensure_future(self._claims.ask(key))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(lambda done: self._give_back(key, done))
            raise

    async def keep(self, entry: "Entry") -> "Reply":
        """Keep a reply, for all processes and for good once this returns.

        Returns:
            The reply that is kept: another one where this process was held up for longer than its
            lease lasts, and another has asked meanwhile, whose reply may be in use already.
        """
        return await self._entries.ask(entry)

    def still_ours(self, key: str) -> bool:
        """Whether nobody has taken over what this process has claimed, as if it were dead."""
        return bool(self._opened.leases.ours([key]))

    def others_ask(self) -> bool:
        """Whether another living process is asking for anything."""
        return self._opened.leases.others()

    def release(self, key: str) -> None:
        """Let another process ask: no reply has come."""
        # Where it cannot be said, the lease runs out.
        with contextlib.suppress(StoreError):
            files = self._opened
            with files.database.transaction():
                files.leases.release([key])

    async def settled(self, key: str) -> None:
        """Wait while another process asks for a reply."""
        while True:
            await self._next_poll()
            if not await self._held.ask(key):
                return

    def overrules(self, key: str, reply: "Reply") -> bool:
        """Whether the cassette has another reply, as after a colleague's recording or an edit."""
        entry = self._recorded.get(key)
        return entry is not None and entry.reply != reply

    def outlines(self) -> Iterator[Mapping[str, Any]]:
        """Of every request whose reply is kept, what is known of it."""
        yield from (entry.outline for entry in self._recorded.values())
        try:
            yield from (entry.outline for entry in self._opened.store.entries())
        except StoreError:
            return

    def close(self) -> None:
        """Give back all leases, and let go of the files."""
        if self._files is not None:
            self._files.leases.close()
            self._files.database.close()
            self._files = None

    @property
    def _opened(self) -> _Files:
        if self._files is None:
            from pytest_rageval.llm.store import Database, Store  # noqa: PLC0415 - it brings SQLite

            database = Database(self._directory, restored=lambda: self.remarks.update([RESTORED]))
            self._files = _Files(database, Store(database), Leases(database))
        return self._files

    @property
    def _recorded(self) -> "Mapping[str, Entry]":
        if self._cassette is None:
            file = self._cassette_file
            unread = file is None or self._refresh or (self._missing_ok and not file.exists())
            recorded = {} if unread or file is None else read_cassette(file)
            if self._missing_ok:
                # It is being recorded: what was silent may say something now.
                recorded = {key: entry for key, entry in recorded.items() if not entry.reply.silent}
            self._cassette = recorded
        return self._cassette

    def _kept(self, keys: Sequence[str]) -> "dict[str, Reply]":
        """What the folder has of them, for this run."""
        store = self._opened.store
        kept = store.get_many(keys, run=self._run, asked_in_run=self._refresh)
        if store.damaged:
            self.remarks[DAMAGED] = len(store.damaged)
        return kept

    @cached_property
    def _addresses(self) -> Mapping[str, Sequence[str]]:
        """Where the replies of the cassette were recorded, by model."""
        found: dict[str, dict[str, None]] = {}
        for entry in self._recorded.values():
            model, address = entry.outline.get("model"), entry.outline.get("base_url")
            if isinstance(model, str) and isinstance(address, str) and _is_address(address):
                found.setdefault(model, {})[address] = None
        return {model: list(addresses) for model, addresses in found.items()}

    def _claim_all(self, keys: Sequence[str]) -> "dict[str, Reply | bool]":
        files = self._opened
        with files.database.transaction():
            # Between looking and claiming no process can keep anything: so nobody asks for what is there.
            kept = self._kept(keys)
            ours = files.leases.claim([key for key in keys if key not in kept])
        return {key: kept.get(key) or key in ours for key in keys}

    def _give_back(self, key: str, claimed: "asyncio.Task[Reply | bool]") -> None:
        """Let go of what was claimed for one who no longer waits."""
        if not claimed.cancelled() and claimed.exception() is None and claimed.result() is True:
            self.release(key)

    def _held_all(self, keys: Sequence[str]) -> dict[str, bool]:
        held = self._opened.leases.held(keys)
        return {key: key in held for key in keys}

    def _keep_all(self, entries: "Sequence[Entry]") -> "dict[Entry, Reply]":
        files = self._opened
        keys = [entry.key for entry in entries]
        with files.database.transaction():
            kept = self._kept(keys)
            files.store.put_many((entry for entry in entries if entry.key not in kept), run=self._run)
            files.leases.release(keys)
        return {entry: kept.get(entry.key, entry.reply) for entry in entries}

    async def _next_poll(self) -> None:
        """All who wait look at the same moment, in one question."""
        if self._poll is None:
            loop = asyncio.get_running_loop()
            self._poll = loop.create_future()
            loop.call_later(POLL_S, self._end_poll)
        await asyncio.shield(self._poll)

    def _end_poll(self) -> None:
        poll, self._poll = self._poll, None
        if poll is not None:
            poll.set_result(None)


def _is_address(base_url: str) -> bool:
    """Whether it is where a server is found, and not a name of what answers, such as the embedded model."""
    return "://" in base_url
