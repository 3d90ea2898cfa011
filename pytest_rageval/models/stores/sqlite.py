"""The default store, a SQLite file in the cache folder. `sqlite_file` has the file, `sqlite_claims` its claims."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Final

from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Damaged, Entry, Spending, build_claim_results
from pytest_rageval.models.stores.sqlite_claims import Claims
from pytest_rageval.models.stores.sqlite_file import Database, ReplyTable, inspect_entries

__all__ = ["RESTORED", "SqliteStore", "spend"]

RESTORED: Final = "the cache folder was removed during the run; it was created again with all entries"
SPENDING_KEPT_S: Final = 7 * 86400.0  # how long the spending of a run is stored


class SqliteStore:
    """A `ReplyStore` in a folder, which is created if it is missing.

    Args:
        directory: the folder.
        remark: called with remarks for the report.
    """

    def __init__(self, directory: Path, remark: Callable[[str], None] = lambda _: None) -> None:
        self.database: Database = Database(directory, restored=lambda: remark(RESTORED))
        self._replies = ReplyTable(self.database)
        self._claims = Claims(self.database)
        self.get_nowait: Callable[..., dict[str, Reply]] = self._replies.get_nowait

    @property
    def damaged(self) -> set[str]:
        """The keys of damaged entries that this object has skipped."""
        return self._replies.damaged

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Return the stored replies by key."""
        return self._replies.get_many(keys, run=run, only_run=only_run)

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        """Return for each key its reply, or whether this process has the claim."""
        # In one transaction: no process can store a reply between look-up and claim.
        with self.database.transaction():
            replies = self.get_many(keys, run=run, only_run=only_run)
            own = self._claims.claim([key for key in keys if key not in replies])
        return build_claim_results(keys, replies, own)

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        """For each key with a claim, return whether it is a claim of this process."""
        claimed, own = self._claims.held(keys), self._claims.own(keys)
        return {key: key in own for key in claimed}

    def others_active(self) -> bool:
        """Whether another living process has any claim."""
        return self._claims.others_active()

    def ping(self) -> None:
        """Do nothing: the store has no server."""

    def renew(self) -> None:
        """Renew all claims of this process."""
        self._claims.renew()

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Store replies in one transaction; return the stored replies by key."""
        new = {entry.key: entry for entry in reversed(list(entries))}
        with self.database.transaction():
            stored = self.get_many(list(new), run=run, only_run=only_run)
            self._replies.put_many((entry for key, entry in new.items() if key not in stored), run=run)
            self._claims.release(list(new))
        return {key: stored.get(key, entry.reply) for key, entry in new.items()}

    def release(self, keys: Sequence[str]) -> None:
        """End claims of this process without a reply."""
        with self.database.transaction():
            self._claims.release(keys)

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """Add a change to an account; if that would exceed a limit, return the unchanged account."""
        return spend(self.database, account, change, max_calls=max_calls, max_cost=max_cost)

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        """Yield the entries, sorted by key."""
        return inspect_entries(self.database, keys)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete entries."""
        with self.database.transaction():
            self._replies.delete_many(keys)

    def close(self) -> None:
        """End all claims of this process, and close the file."""
        self._claims.close()
        self.database.close()


def spend(
    database: Database, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
) -> Spending | None:
    """Add a change to an account in a SQLite file; see `ReplyStore.spend`."""
    with database.transaction():
        oldest = time.time() - SPENDING_KEPT_S
        database.execute("DELETE FROM spending WHERE began < ? AND run != ?", (oldest, account))
        database.execute(
            "INSERT OR IGNORE INTO spending (run, calls, cost, began, open_calls, open_cost) "
            "VALUES (?, 0, 0, ?, 0, 0)",
            (account, time.time()),
        )
        sql = "SELECT calls, cost, open_calls, open_cost FROM spending WHERE run = ?"
        before = Spending(*database.rows(sql, (account,))[0])
        if not before.fits(change, max_calls, max_cost):
            return before
        database.execute(
            "UPDATE spending SET calls = ?, cost = ?, open_calls = ?, open_cost = ? WHERE run = ?",
            (*before.changed(change), account),
        )
    return None
