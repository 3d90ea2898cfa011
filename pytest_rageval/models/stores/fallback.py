"""A shared store with a local cache folder, which stores replies while the shared store does not answer.

Replies of a run that ended during an outage are only in the folder; they are copied to the shared store when they are
looked up. Limits of calls and cost apply to all machines together, so with a limit nothing is paid while the shared
count is unavailable.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final, TypeVar

from pytest_rageval.core.errors import InputError, StoreError, did_you_mean
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import (
    Damaged,
    Entry,
    Namespace,
    OpenStore,
    ReplyStore,
    Spending,
    StoreAwayError,
    StoreFactory,
    mapped_errors,
    skip_damaged,
)
from pytest_rageval.models.stores.sqlite import SqliteStore
from pytest_rageval.models.stores.sqlite_file import FILE

RETRY_INTERVAL_S: Final = 2.0  # between attempts to reach the shared store during an outage
T = TypeVar("T")


class FallbackStore:
    """A `ReplyStore`: the shared store, or the cache folder while the shared store does not answer."""

    def __init__(
        self, url: StoreURL, shared: ReplyStore, folder: Path, remark: Callable[[str], None]
    ) -> None:
        self._url = url
        self._shared = shared
        self._folder = folder
        self._remark = remark
        self._remarked = False
        self._folder_store: SqliteStore | None = None
        self._away: StoreAwayError | None = None
        self._tried_at = 0.0
        # What the shared store gets when it answers again: keys of ended claims, replies with their run, spending.
        self._released: list[str] = []
        self._unsent: list[tuple[Entry, str]] = []
        self._unspent: list[tuple[str, Spending]] = []

    @property
    def damaged(self) -> AbstractSet[str]:
        return self._shared.damaged | (set() if self._folder_store is None else self._folder_store.damaged)

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        replies = self._run(lambda store: store.get_many(keys, run=run, only_run=only_run))
        missing = [key for key in keys if key not in replies]
        if missing and self._away is None:
            replies |= self._copy_from_folder(missing, run, only_run=only_run)
        return replies

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        return self._run(lambda store: store.claim(keys, run=run, only_run=only_run))

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        return self._run(lambda store: store.claims(keys))

    def others_active(self) -> bool:
        return self._run(lambda store: store.others_active())

    def ping(self) -> None:
        """Do nothing: the folder is always available."""

    def renew(self) -> None:
        """Do nothing: both stores renew their own claims."""

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        entries = list(entries)
        try:
            stored = self._run(lambda store: store.keep(entries, run=run, only_run=only_run))
        except StoreError:
            # The shared store refuses the replies, as with a full memory. They were paid for, so they are stored in the
            # folder for a later run.
            self._open_folder().keep(entries, run=run, only_run=only_run)
            raise
        if self._away is not None:
            self._unsent += ((entry, run) for entry in entries)
        return stored

    def release(self, keys: Sequence[str]) -> None:
        self._run(lambda store: store.release(keys))
        if self._away is not None:
            self._released += keys

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """Add a change to an account; during an outage, raise StoreError if there is a limit."""
        self._try_return()
        if self._away is None:
            try:
                with mapped_errors(self._url):
                    return self._shared.spend(account, change, max_calls=max_calls, max_cost=max_cost)
            except StoreAwayError as error:
                self._switch_to_folder(error)
        if max_calls < inf or max_cost < inf:
            raise StoreError(
                f"The limit of calls or cost is for all machines of the run, and their count is at {self._url}, which "
                f"does not answer: nothing more is paid.\nWhat was paid is kept in {self._folder}: run again when it "
                "answers."
            )
        self._unspent.append((account, change))
        return None

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        return self._run(lambda store: iter(list(store.entries(keys))))

    def delete_many(self, keys: Sequence[str]) -> None:
        self._run(lambda store: store.delete_many(keys))

    def close(self) -> None:
        """Send what is missing to the shared store, if it answers again, and close both stores."""
        self._tried_at = 0.0
        with suppress(StoreError):
            self._try_return()
        with mapped_errors(self._url):
            self._shared.close()
        self._close_folder()

    def _open_folder(self) -> SqliteStore:
        if self._folder_store is None:
            self._folder_store = SqliteStore(self._folder, self._remark)
        return self._folder_store

    def _run(self, work: Callable[[ReplyStore], T]) -> T:
        """Return the result of work on the shared store; during an outage, on the folder's store."""
        self._try_return()
        if self._away is None:
            try:
                with mapped_errors(self._url):
                    return work(self._shared)
            except StoreAwayError as error:
                self._switch_to_folder(error)
        return work(self._open_folder())

    def _switch_to_folder(self, error: StoreAwayError) -> None:
        self._away, self._tried_at = error, time.monotonic()
        if not self._remarked:
            self._remarked = True
            self._remark(f"{self._url} did not answer: meanwhile replies were kept in {self._folder}")

    def _try_return(self) -> None:
        if self._away is None or time.monotonic() - self._tried_at < RETRY_INTERVAL_S:
            return
        self._tried_at = time.monotonic()
        try:
            with mapped_errors(self._url):
                self._send_missing()
        except StoreAwayError:
            return
        self._away = None
        # This also ends the claims in the folder's store.
        self._close_folder()

    def _send_missing(self) -> None:
        self._shared.ping()
        for run in dict.fromkeys(run for _, run in self._unsent):
            self._shared.keep((entry for entry, entry_run in self._unsent if entry_run == run), run=run)
        self._unsent.clear()
        self._shared.release(self._released)
        self._released.clear()
        while self._unspent:
            self._shared.spend(*self._unspent[-1])
            self._unspent.pop()

    def _copy_from_folder(self, keys: Sequence[str], run: str, *, only_run: bool) -> dict[str, Reply]:
        if self._folder_store is None and not (self._folder / FILE).is_file():
            return {}
        try:
            replies = self._open_folder().get_many(keys, run=run, only_run=only_run)
            entries = list(skip_damaged(self._open_folder().entries(list(replies)))) if replies else []
        except StoreError:
            # The folder is optional here: its replies can be requested again.
            return {}
        # Not empty replies: they count in one run only.
        entries = [entry for entry in entries if only_run or not entry.reply.silent]
        with suppress(StoreAwayError), mapped_errors(self._url):
            replies |= self._shared.keep(entries, run=run if only_run else "")
        return replies

    def _close_folder(self) -> None:
        store, self._folder_store = self._folder_store, None
        if store is not None:
            with suppress(StoreError):
                store.close()


def open_store(
    url: StoreURL, stores: Mapping[str, StoreFactory], *, namespace: Namespace = "replies"
) -> ReplyStore:
    """Open the store at a URL, by the factory of its scheme; InputError if there is none."""
    if url.scheme not in stores:
        hint = did_you_mean(url.scheme, stores)
        urls = f", or a URL that begins with one of: {', '.join(sorted(stores))}" if stores else ""
        raise InputError(f"There is no store {url.scheme!r} for {url.public}.{hint}\nName a folder{urls}.")
    with mapped_errors(url):
        return stores[url.scheme](url, namespace)


def store_opener(
    place: Path | StoreURL, folder: Path, stores: Mapping[str, StoreFactory]
) -> OpenStore | None:
    """Return a function that opens the store of a run; None for a cache folder, which `Cache` opens itself.

    Replies are kept in `folder` while a shared store does not answer.
    """
    if isinstance(place, Path):
        return None
    away: list[StoreAwayError] = []

    def open_shared(remark: Callable[[str], None]) -> ReplyStore:
        if away:
            # The server did not answer at the first attempt, which waited for it: do not wait again.
            raise away[0]
        try:
            return FallbackStore(place, open_store(place, stores), folder, remark)
        except StoreAwayError as error:
            away.append(error)
            raise

    return open_shared
