"""The default store, a SQLite file in the cache folder (`sqlite_file`); and the search for damaged entries in it.

`LocalStore` is the part that a store of another kind on this machine can use: claims and spending in such a file.
Claims are in the table `leases`. A process renews its claims by writing a new heartbeat into the column `expires`. An
owner whose heartbeat has not changed for `CLAIM_TTL_S` counts as dead. A process never compares another process's
heartbeat with a clock, so the clocks of machines may differ.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_rageval.core.errors import StoreError
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import (
    CLAIM_TTL_S,
    RENEWAL_S,
    Damaged,
    Entry,
    Spending,
    build_claim_results,
    start_renewing,
)
from pytest_rageval.models.stores.sqlite_file import COLUMNS, Database, ReplyTable, stored_summary
from pytest_rageval.models.summaries import read_summary

RESTORED: Final = "the cache folder was removed during the run; it was created again with all entries"
SPENDING_KEPT_S: Final = 7 * 86400.0  # how long the spending of a run is stored


class Replies(Protocol):
    """The replies of a `LocalStore`; see `ReplyStore`. Replies are stored and deleted in a transaction of its file."""

    damaged: set[str]

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]: ...

    def put_many(self, entries: Iterable[Entry], *, run: str = "") -> None: ...

    def delete_many(self, keys: Iterable[str]) -> None: ...


class LocalStore:
    """A `ReplyStore` for the processes of this machine, without `entries`. Claims and spending are in a SQLite file."""

    def __init__(self, database: Database, replies: Replies) -> None:
        self.database: Database = database
        self._replies = replies
        self._owner = uuid.uuid4().hex
        self._others: dict[bytes, _OwnerState] = {}
        self._renewal_database: Database | None = None
        self._closed = threading.Event()
        self._renewal_thread: threading.Thread | None = None

    @property
    def damaged(self) -> set[str]:
        return self._replies.damaged

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        return self._replies.get_many(keys, run=run, only_run=only_run)

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        # In one transaction: no process can store a reply between look-up and claim.
        with self.database.transaction():
            replies = self.get_many(keys, run=run, only_run=only_run)
            own = self._claim([key for key in keys if key not in replies])
        return build_claim_results(keys, replies, own)

    def _claim(self, keys: Sequence[str]) -> list[str]:
        """Claim, in a transaction, the keys that no living process has claimed; return those of this process."""
        dead = [(owner,) for owner in self._dead_owners()]
        if dead:
            self.database.execute_many("DELETE FROM leases WHERE CAST(owner AS BLOB) = ?", dead)
        self.database.execute(
            "INSERT OR IGNORE INTO leases (key, owner, expires) SELECT value, ?, ? FROM json_each(?)",
            (self._owner, time.monotonic(), json.dumps(keys)),
        )
        own = self.database.rows(
            "SELECT key FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, json.dumps(keys)),
        )
        if own and self._renewal_thread is None:
            self._start_renewing()
        return [key for (key,) in own]

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        rows = self.database.rows(
            "SELECT key, CAST(owner AS BLOB) FROM leases WHERE key IN (SELECT value FROM json_each(?))",
            (json.dumps(list(keys)),),
        )
        dead, own = self._dead_owners() if rows else set(), self._owner.encode()
        return {key: owner == own for key, owner in rows if owner not in dead}

    def others_active(self) -> bool:
        dead = self._dead_owners()
        return bool(self._others.keys() - dead)

    def ping(self) -> None:
        """Do nothing: the store has no server."""

    def renew(self) -> None:
        """Renew all claims, over a separate connection: another thread may be waiting in the main connection."""
        try:
            self._renewal_database = self._renewal_database or Database(self.database.directory)
            with self._renewal_database.transaction():
                self._renewal_database.execute(
                    "UPDATE leases SET expires = ? WHERE owner = ?", (time.monotonic(), self._owner)
                )
        except StoreError:
            self._close_renewal_database()
            raise

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        new = {entry.key: entry for entry in reversed(list(entries))}
        with self.database.transaction():
            stored = self.get_many(list(new), run=run, only_run=only_run)
            self._replies.put_many((entry for key, entry in new.items() if key not in stored), run=run)
            self.release(list(new))
        return {key: stored.get(key, entry.reply) for key, entry in new.items()}

    def release(self, keys: Sequence[str]) -> None:
        with self.database.transaction():
            self.database.execute(
                "DELETE FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
                (self._owner, json.dumps(list(keys))),
            )

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        with self.database.transaction():
            oldest = time.time() - SPENDING_KEPT_S
            self.database.execute("DELETE FROM spending WHERE began < ? AND run != ?", (oldest, account))
            self.database.execute(
                "INSERT OR IGNORE INTO spending (run, calls, cost, began, open_calls, open_cost) "
                "VALUES (?, 0, 0, ?, 0, 0)",
                (account, time.time()),
            )
            sql = "SELECT calls, cost, open_calls, open_cost FROM spending WHERE run = ?"
            before = Spending(*self.database.rows(sql, (account,))[0])
            if not before.fits(change, max_calls, max_cost):
                return before
            self.database.execute(
                "UPDATE spending SET calls = ?, cost = ?, open_calls = ?, open_cost = ? WHERE run = ?",
                (*before.changed(change), account),
            )
        return None

    def delete_many(self, keys: Sequence[str]) -> None:
        with self.database.transaction():
            self._replies.delete_many(keys)

    def close(self) -> None:
        self._closed.set()
        if self._renewal_thread is not None:
            self._renewal_thread.join(timeout=CLAIM_TTL_S)
            # If the disk fails, the claims expire. The requests themselves have raised the error.
            with contextlib.suppress(StoreError), self.database.transaction():
                self.database.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))
        self._close_renewal_database()
        self.database.close()

    def _close_renewal_database(self) -> None:
        database, self._renewal_database = self._renewal_database, None
        if database is not None:
            with contextlib.suppress(StoreError):
                database.close()

    def _start_renewing(self) -> None:
        self._renewal_thread = start_renewing(self.renew, self._closed)

    def _dead_owners(self) -> set[bytes]:
        """Read the last heartbeat of each other owner; return those that have not renewed for `CLAIM_TTL_S`."""
        rows = self.database.rows(
            # As bytes: a damaged file may have any value.
            "SELECT CAST(owner AS BLOB), CAST(max(expires) AS BLOB) FROM leases WHERE owner != ? GROUP BY owner",
            (self._owner,),
        )
        now = time.monotonic()
        before, self._others = self._others, {}
        for owner, heartbeat in rows:
            self._others[owner] = state = before.get(owner) or _OwnerState(heartbeat, now)
            state.observe(heartbeat, now)
        return {owner for owner, state in self._others.items() if state.unchanged_s >= CLAIM_TTL_S}


@dataclass(slots=True)
class _OwnerState:
    """The last observed heartbeat of another process, and for how long it has not changed."""

    heartbeat: object
    observed_at: float
    unchanged_s: float = 0.0

    def observe(self, heartbeat: object, now: float) -> None:
        if heartbeat != self.heartbeat:
            self.heartbeat, self.unchanged_s = heartbeat, 0.0
        else:
            # At most one interval is added, since this process itself may have been suspended.
            self.unchanged_s += min(now - self.observed_at, RENEWAL_S)
        self.observed_at = now


class SqliteStore(LocalStore):
    """A `ReplyStore` in a folder, which is created if it is missing. `remark` is called with remarks for the report."""

    def __init__(
        self, directory: Path, remark: Callable[[str], None] = lambda _: None, *, replies_only: bool = False
    ) -> None:
        database = Database(directory, restored=lambda: remark(RESTORED), replies_only=replies_only)
        table = ReplyTable(database)
        super().__init__(database, table)
        self.get_nowait: Callable[..., dict[str, Reply]] = table.get_nowait

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        return inspect_entries(self.database, keys)

    def repair(self, damaged: Iterable[Damaged]) -> None:
        """Delete damaged entries, but keep their good replies; call this method in a transaction."""
        for entry in damaged:
            if entry.rest is not None:
                self._replies.put_many([entry.rest])
            else:
                # A key that is no text is a blob in the file, or text that is not UTF-8 and was read as bytes.
                self.database.execute(
                    "DELETE FROM replies WHERE key = ? OR key = CAST(? AS TEXT)", (entry.key, entry.key)
                )


SQLITE_TYPES: Final[Mapping[type, str]] = {str: "text", int: "integer", float: "real"}

METADATA: Final = {"outline", "written"}
"""Columns that only describe a reply; if no other column is damaged, the reply is still good."""

YEAR_10000: Final = 253_402_300_800  # in seconds since 1970; Python cannot format later dates
CHUNK: Final = 256  # how many entries are read at once


def inspect_entries(database: Database, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
    # Text is read as bytes: Python would raise an error for a row with one text that is not UTF-8.
    columns = ", ".join(
        f"typeof({name}), CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
        for name in COLUMNS
    )
    condition, parameters = (
        ("", ())
        if keys is None
        else (" WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),))
    )
    sql = f"SELECT {columns} FROM replies{condition} ORDER BY key"  # noqa: S608 - our own names
    cursor = database.execute(sql, parameters)
    table = ReplyTable(database)
    while True:
        with database.map_errors():
            rows = cursor.fetchmany(CHUNK)
        if not rows:
            return
        checked = [_check_columns(row) for row in rows]
        replies = table.get_many(
            [values["key"] for values, faults in checked if not faults.keys() - METADATA]
        )
        yield from (_entry(values, faults, replies) for values, faults in checked)


def _check_columns(row: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values in a row of `inspect_entries` and their faults, both by column."""
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for (name, expected), kind, value in zip(COLUMNS.items(), row[::2], row[1::2], strict=True):
        values[name] = value
        if kind != SQLITE_TYPES[expected]:
            faults[name] = f"{name} is {kind}, expected {SQLITE_TYPES[expected]}"
        elif kind == "text":
            try:
                values[name] = value.decode("utf-8")
            except UnicodeDecodeError:
                faults[name] = f"{name} is not UTF-8"
    if "written" not in faults and not 0 <= values["written"] < YEAR_10000:
        faults["written"] = f"written is {values['written']}, expected seconds since 1970"
    if "outline" not in faults:
        values["outline"] = stored_summary(values["outline"])
        if values["outline"] is None:
            faults["outline"] = "outline is not a JSON object"
    return values, faults


def _entry(values: JsonObject, faults: Mapping[str, str], replies: Mapping[str, Reply]) -> Entry | Damaged:
    key, why = values["key"], tuple(faults.values())
    if faults.keys() - METADATA:
        return Damaged(key, why)
    if key not in replies:
        return Damaged(key, (*why, "the checksum is not that of the contents"))
    summary = {} if "outline" in faults else read_summary(values["outline"])
    entry = Entry(key, replies[key], summary, 0.0 if "written" in faults else values["written"])
    return Damaged(key, why, entry) if why else entry
