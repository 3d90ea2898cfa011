"""A shared store with a local cache folder, which keeps replies while the shared store is unavailable.

A reply that only the folder has, from a run during an outage, is copied to the store when it is looked up. Limits of
calls and cost apply to all machines, so with a limit nothing is paid while the shared count is unavailable.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, TypeVar

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.stores.interface import (
    Damaged,
    Entry,
    ReplyStore,
    Spending,
    StoreAwayError,
    skip_damaged,
)
from pytest_rageval.llm.stores.sqlite import SqliteStore
from pytest_rageval.llm.stores.sqlite_file import FILE

__all__ = ["FallbackStore"]

RETRY_INTERVAL_S: Final = 2.0  # how often a store that is away is tried again
T = TypeVar("T")


class FallbackStore:
    """A store as in `ReplyStore`: `shared`, called `name` in messages, or the folder while that is away."""

    def __init__(self, name: str, shared: ReplyStore, folder: Path, remark: Callable[[str], None]) -> None:
        self._name = name
        self._shared = shared
        self._folder = folder
        self._remark = remark
        self._remarked = False
        self._opened: SqliteStore | None = None
        self._away: StoreAwayError | None = None
        self._tried = 0.0
        # What the store gets when it is back: keys of claims that ended, replies with their run, spending.
        self._released: list[str] = []
        self._unsent: list[tuple[Entry, str]] = []
        self._unspent: list[tuple[str, Spending]] = []

    @property
    def damaged(self) -> AbstractSet[str]:
        """The keys of the damaged entries that were passed over."""
        return self._shared.damaged | (set() if self._opened is None else self._opened.damaged)

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Return the replies kept under these keys, in the store or in the folder."""
        found = self._do(lambda store: store.get_many(keys, run=run, only_run=only_run))
        missing = [key for key in keys if key not in found]
        if missing and self._away is None:
            found |= self._brought(missing, run, only_run=only_run)
        return found

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        """Return for each key its reply, or whether this process has the claim."""
        return self._do(lambda store: store.claim(keys, run=run, only_run=only_run))

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        """Return the keys with a claim, and whether it is this process's."""
        return self._do(lambda store: store.claims(keys))

    def others_active(self) -> bool:
        """Whether another living process has any claim."""
        return self._do(lambda store: store.others_active())

    def ping(self) -> None:
        """Do nothing: the folder is always there."""

    def renew(self) -> None:
        """Do nothing: both stores renew their own claims."""

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Store replies; return those that count."""
        entries = list(entries)
        try:
            kept = self._do(lambda store: store.keep(entries, run=run, only_run=only_run))
        except StoreError:
            # The store refuses them, as with a full memory. They were paid for: a later run finds them here.
            self._local.keep(entries, run=run, only_run=only_run)
            raise
        if self._away is not None:
            self._unsent += ((entry, run) for entry in entries)
        return kept

    def release(self, keys: Sequence[str]) -> None:
        """End claims of this process, without a reply."""
        self._do(lambda store: store.release(keys))
        if self._away is not None:
            self._released += keys

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """Add a change to an account; StoreError where there is a limit, and what others spend is not known."""
        self._try_again()
        if self._away is None:
            try:
                return self._shared.spend(account, change, max_calls=max_calls, max_cost=max_cost)
            except StoreAwayError as error:
                self._leave(error)
        if max_calls < inf or max_cost < inf:
            raise StoreError(
                f"The limit of calls or cost is for all machines of the run, and their count is at {self._name}, which "
                f"does not answer: nothing more is paid.\nWhat was paid is kept in {self._folder}: run again when it "
                "answers."
            )
        self._unspent.append((account, change))
        return None

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        """Yield the entries, sorted by key."""
        return self._do(lambda store: iter(list(store.entries(keys))))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete entries."""
        self._do(lambda store: store.delete_many(keys))

    def close(self) -> None:
        """Bring to the store what it lacks, if it is back, and close both."""
        self._tried = 0.0
        with suppress(StoreError):
            self._try_again()
        self._shared.close()
        self._close_folder()

    @property
    def _local(self) -> SqliteStore:
        if self._opened is None:
            self._opened = SqliteStore(self._folder, self._remark)
        return self._opened

    def _do(self, work: Callable[[ReplyStore], T]) -> T:
        """Return the result of work on the store; on the folder while the store is away."""
        self._try_again()
        if self._away is None:
            try:
                return work(self._shared)
            except StoreAwayError as error:
                self._leave(error)
        return work(self._local)

    def _leave(self, error: StoreAwayError) -> None:
        self._away, self._tried = error, time.monotonic()
        if not self._remarked:
            self._remarked = True
            self._remark(f"{self._name} did not answer: meanwhile replies were kept in {self._folder}")

    def _try_again(self) -> None:
        """Go back to the store if it answers, and bring it what it lacks."""
        if self._away is None or time.monotonic() - self._tried < RETRY_INTERVAL_S:
            return
        self._tried = time.monotonic()
        try:
            self._shared.ping()
            for run in dict.fromkeys(run for _, run in self._unsent):
                self._shared.keep((entry for entry, of_run in self._unsent if of_run == run), run=run)
            self._unsent.clear()
            self._shared.release(self._released)
            self._released.clear()
            while self._unspent:
                self._shared.spend(*self._unspent[-1])
                self._unspent.pop()
        except StoreAwayError:
            return
        self._away = None
        # Its claims end.
        self._close_folder()

    def _brought(self, keys: Sequence[str], run: str, *, only_run: bool) -> dict[str, Reply]:
        """Return what the folder has of these keys, after bringing it to the store."""
        if self._opened is None and not (self._folder / FILE).is_file():
            return {}
        try:
            found = self._local.get_many(keys, run=run, only_run=only_run)
            entries = list(skip_damaged(self._local.entries(list(found)))) if found else []
        except StoreError:
            # It is only a help here.
            return {}
        # An empty reply is of one run alone.
        entries = [entry for entry in entries if only_run or not entry.reply.silent]
        with suppress(StoreAwayError):
            found |= self._shared.keep(entries, run=run if only_run else "")
        return found

    def _close_folder(self) -> None:
        local, self._opened = self._opened, None
        if local is not None:
            with suppress(StoreError):
                local.close()
