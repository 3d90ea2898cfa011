"""`ReplyStore`, the interface of a store of replies, and of the claims and the spending of a run's processes.

`SqliteStore` (the default) implements the interface; extensions and plugins add stores with `registry.add_store`. Every
store must pass the tests in `tests/conformance`.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple, Protocol

from pytest_rageval.core.errors import RagevalError, StoreError
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.summaries import RequestSummary
from pytest_rageval.options.parsers import CACHE_URL

CLAIM_TTL_S: Final = 5.0  # how long after its last renewal a claim expires, and blocks others no longer
RENEWAL_S: Final = 1.0  # the interval between renewals of a process's claims


class StoreAwayError(StoreError):
    """The store's server does not answer now, but may answer later."""


@contextmanager
def mapped_errors(url: StoreURL) -> Iterator[None]:
    """Raise StoreError in place of any other error of a store: its text and traceback may show the URL's password."""
    try:
        yield
    except RagevalError:
        raise
    except Exception as error:  # noqa: BLE001 - the store may be a plugin's
        raise StoreError(
            f"The cache {url.public} cannot be used: {type(error).__name__}: {url.redact(str(error)).rstrip('.')}.\n"
            f"Check the URL in --rageval-cache or {CACHE_URL}; without a URL, replies are kept in a local folder."
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    key: str  # the key of the request
    reply: Reply
    summary: RequestSummary = field(default_factory=RequestSummary)  # the summary of the request
    written: float = 0.0  # when the reply was stored, in seconds since 1970; 0 before it is stored


@dataclass(frozen=True, slots=True)
class Damaged:
    key: str | bytes  # bytes if the key in the store is not text
    why: tuple[str, ...]  # the faults
    rest: Entry | None = None  # the entry without damaged metadata; None if the reply itself is damaged


class Spending(NamedTuple):
    """The calls of an account and their cost, or a change of these numbers."""

    calls: int = 0  # calls that have ended
    cost: float = 0.0  # the cost of these calls in USD
    open_calls: int = 0  # calls in flight
    open_cost: float = 0.0  # the cost in USD that is reserved for calls in flight

    def fits(self, change: "Spending", max_calls: float, max_cost: float) -> bool:
        """Whether the numbers with this change, including open calls, are within the limits."""
        calls = self.calls + self.open_calls + change.calls + change.open_calls
        return calls <= max_calls and (
            self.cost + self.open_cost + (change.cost + change.open_cost) <= max_cost
        )

    def changed(self, change: "Spending") -> "Spending":
        """Return the sum of both. Without open calls, `open_cost` is exactly 0, despite rounding errors."""
        calls, cost, open_calls, open_cost = (a + b for a, b in zip(self, change, strict=True))
        return Spending(int(calls), cost, int(open_calls), open_cost if open_calls else 0.0)


class ReplyStore(Protocol):
    """A store, opened by one process. One thread at a time uses it, except for `renew`.

    Every method is atomic: it has its whole effect or none, even if the process is killed. Every method raises
    StoreError if the store cannot be used; the message names the store, without secrets.

    With a `run`, empty replies (`Reply.silent`) that other runs requested count as missing; with `only_run`, all
    replies that other runs requested. A damaged entry counts as missing.
    """

    @property
    def damaged(self) -> AbstractSet[str]:
        """The keys of damaged entries that this object has skipped."""

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Return the stored replies by key, without the missing ones."""

    def claim(
        self, keys: Sequence[str], *, run: str = "", only_run: bool = False
    ) -> "dict[str, Reply | bool]":
        """Return for each key its reply if it is stored; otherwise whether this process has the claim to request it.

        Only one process can have the claim of a key. A claim ends with `keep`, `release` or `close`, or `CLAIM_TTL_S`
        after its last renewal.
        """

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        """For each key with a claim of a living process, return whether it is a claim of this process."""

    def others_active(self) -> bool:
        """Whether another living process has any claim."""

    def ping(self) -> None:
        """Raise StoreAwayError if the store is at a server that does not answer now."""

    def renew(self) -> None:
        """Renew all claims of this process; a separate thread calls this method every `RENEWAL_S`."""

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Store replies durably and end their claims; return the stored replies by key.

        If a reply with the same key is stored already, and counts in this run, it stays and is returned. Either all
        entries are stored, or none. An entry with `written` 0 gets the current time.
        """

    def release(self, keys: Sequence[str]) -> None:
        """End claims of this process without a reply."""

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """Add a change to an account and return None; if that would exceed a limit, return the unchanged account.

        The limits apply to calls and cost including open calls. An account is stored for a week.
        """

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        """Yield all entries, or the entries with these keys, sorted by key."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete entries, good or damaged."""

    def close(self) -> None:
        """End all claims of this process, and close the store."""


Namespace = str  # the kind of entries: "replies", or what an extension stores
StoreFactory = Callable[[StoreURL, Namespace], ReplyStore]
"""Opens the store at a URL. Entries with the same key in different namespaces are different entries."""

OpenStore = Callable[[Callable[[str], None]], ReplyStore]
"""Opens a store. The argument is called with remarks for the report, such as that the cache folder was restored."""


def skip_damaged(entries: Iterable[Entry | Damaged]) -> Iterator[Entry]:
    return (entry for entry in entries if isinstance(entry, Entry))


def start_renewing(renew: Callable[[], None], closed: threading.Event) -> threading.Thread:
    """Start a thread that calls `renew` every `RENEWAL_S` until `closed` is set."""

    def renew_until_closed() -> None:
        while not closed.wait(RENEWAL_S):
            # If the renewal fails (no file handle is left, the disk is full, the server is away), the next one may
            # succeed. Before a request is sent, it is checked that its claim still exists.
            with suppress(StoreError):
                renew()

    thread = threading.Thread(target=renew_until_closed, name="rageval-claims", daemon=True)
    thread.start()
    return thread


def build_claim_results(
    keys: Sequence[str], replies: Mapping[str, Reply], own: Iterable[str]
) -> "dict[str, Reply | bool]":
    claimed = set(own)
    return {key: replies.get(key, key in claimed) for key in keys}
