"""`ReplyStore`, the interface of a store: it keeps the replies, claims and spending of all processes of a run.

`sqlite_store` (the default), `redis_store` and `diskcache_store` implement it; other plugins add theirs with
`registry.add_store`. Each of them must pass the tests in `tests/conformance`.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple, Protocol

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.messages import Reply, RequestSummary

__all__ = [
    "CLAIM_TTL_S",
    "RENEWAL_S",
    "Damaged",
    "Entry",
    "OpenStore",
    "ReplyStore",
    "Spending",
    "StoreAwayError",
    "build_claim_results",
    "skip_damaged",
    "start_renewing",
]

CLAIM_TTL_S: Final = 5.0  # how long the claims of a process that died block the others
RENEWAL_S: Final = 1.0


class StoreAwayError(StoreError):
    """The store's server does not answer, and may answer later."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A stored reply, the key and the summary of its request, and when it was stored, in seconds since 1970."""

    key: str
    reply: Reply
    summary: RequestSummary = field(default_factory=RequestSummary)
    written: float = 0.0


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged entry: its key, in bytes where that is not text, and its faults.

    `rest` is the entry without damaged metadata, where the reply itself is good; None where it is not.
    """

    key: str | bytes
    why: tuple[str, ...]
    rest: Entry | None = None


class Spending(NamedTuple):
    """Calls and their cost in USD, and the amounts reserved for calls in flight."""

    calls: int = 0
    cost: float = 0.0
    open_calls: int = 0
    open_cost: float = 0.0

    def fits(self, change: "Spending", max_calls: float, max_cost: float) -> bool:
        """Whether a change keeps the limits."""
        calls = self.calls + self.open_calls + change.calls + change.open_calls
        return calls <= max_calls and (
            self.cost + self.open_cost + (change.cost + change.open_cost) <= max_cost
        )

    def changed(self, change: "Spending") -> "Spending":
        """Return the sum of both; without open calls their cost is exactly 0, despite rounding."""
        calls, cost, open_calls, open_cost = (a + b for a, b in zip(self, change, strict=True))
        return Spending(int(calls), cost, int(open_calls), open_cost if open_calls else 0.0)


class ReplyStore(Protocol):
    """A store, as one process has it open; used by one thread at a time, but for `renew`.

    Every method is atomic: it is done as a whole or not at all, also when the process is killed. Every method raises
    StoreError where the store cannot be used; the message names it, without secrets.

    With a `run`, empty replies that other runs requested count as missing; with `only_run`, all of theirs. A damaged
    entry counts as missing.
    """

    @property
    def damaged(self) -> AbstractSet[str]:
        """The keys of the damaged entries that were passed over."""
        ...

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Return the replies kept under these keys; missing ones are left out."""
        ...

    def claim(
        self, keys: Sequence[str], *, run: str = "", only_run: bool = False
    ) -> "dict[str, Reply | bool]":
        """Return for each key its reply if it is stored; otherwise whether this process gets the claim to request it.

        One process at a time has a claim. It ends with `keep`, `release` or `close`, or `CLAIM_TTL_S` after the last
        renewal.
        """
        ...

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        """Return for each key with a claim of a living process whether it is this one's."""
        ...

    def others_active(self) -> bool:
        """Whether another living process has any claim."""
        ...

    def ping(self) -> None:
        """Raise StoreAwayError where the store is at a server that does not answer now."""
        ...

    def renew(self) -> None:
        """Renew all claims of this process; called from a thread of its own, every `RENEWAL_S`."""
        ...

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Store replies durably and end their claims; return the replies that count.

        A reply that is kept already stays. All entries are stored, or none. An entry without a time is of now.
        """
        ...

    def release(self, keys: Sequence[str]) -> None:
        """End claims of this process, without a reply."""
        ...

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """Add a change to an account and return None; if that would exceed a limit, return the account unchanged.

        The limits are of calls and cost, open ones included. An account is kept for a week.
        """
        ...

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        """Yield every entry, or those under these keys, sorted by key."""
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete entries, good or damaged."""
        ...

    def close(self) -> None:
        """End all claims of this process, and close the store."""
        ...


OpenStore = Callable[[Callable[[str], None]], ReplyStore]
"""Opens a store; what is passed is called with a remark for the report, such as that a folder was restored."""


def skip_damaged(entries: Iterable[Entry | Damaged]) -> Iterator[Entry]:
    """Yield the entries that are not damaged."""
    return (entry for entry in entries if isinstance(entry, Entry))


def start_renewing(renew: Callable[[], None], closed: threading.Event) -> threading.Thread:
    """Start the thread that renews the claims of a process until `closed`."""

    def work() -> None:
        while not closed.wait(RENEWAL_S):
            # No file handle is left, the disk is full, the server is away: try again in a second. Meanwhile each
            # request checks that its claim still holds before it is sent.
            with suppress(StoreError):
                renew()

    thread = threading.Thread(target=work, name="rageval-claims", daemon=True)
    thread.start()
    return thread


def build_claim_results(
    keys: Sequence[str], found: Mapping[str, Reply], own: Iterable[str]
) -> "dict[str, Reply | bool]":
    """Return what `claim` returns, from the replies and the claims."""
    mine = set(own)
    return {key: found.get(key, key in mine) for key in keys}
