"""Replies that need not be asked for, and who asks for the others: one of all processes.

Found are those in the cache folder and, after it, in the cassette. What is in
neither is asked for by the one process that takes the lease on it; the others
wait until the reply is in the folder, or the lease has run out.

A silent reply, without text and without a reason, counts in its own run alone:
the next one asks again.
"""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.batch import Batch
from pytest_rageval.llm.cassette import read_cassette

if TYPE_CHECKING:
    from pytest_rageval.llm.database import Database
    from pytest_rageval.llm.leases import Leases
    from pytest_rageval.llm.reply import Reply
    from pytest_rageval.llm.request import Request
    from pytest_rageval.llm.store import Entry, Store

__all__ = ["Cache"]

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
            from pytest_rageval.llm.database import Database  # noqa: PLC0415 - with SQLite, when needed
            from pytest_rageval.llm.leases import Leases  # noqa: PLC0415
            from pytest_rageval.llm.store import Store  # noqa: PLC0415

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
