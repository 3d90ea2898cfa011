"""Leases in the cache folder: which process requests a missing reply.

A lease lasts for seconds and is renewed by a thread, so a process that dies holds up the others only that long.
Clocks are not compared: an owner is dead when its leases have not changed for `LEASE_S`.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.store import Database

__all__ = ["LEASE_S", "Leases"]

LEASE_S: Final = 5.0
"""How long a process that died can hold up the others."""

RENEWAL_S: Final = 1.0


class Leases:
    """The leases of this process, as one owner, and a view of the other owners."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = uuid.uuid4().hex
        self._others: dict[bytes, _Owner] = {}
        self._closed = threading.Event()
        self._renewing: threading.Thread | None = None

    def claim(self, keys: Sequence[str]) -> set[str]:
        """Take the leases of these keys that no living process holds; call it in a transaction.

        Returns:
            The keys whose leases this process now holds.
        """
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
            known = before.get(owner)
            if known is None:
                known = _Owner(mark, now)
            else:
                known.look(mark, now)
            self._others[owner] = known
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
            _close_quietly(database)
            database = None
    _close_quietly(database)


def _close_quietly(database: Database | None) -> None:
    if database is not None:
        with contextlib.suppress(StoreError):
            database.close()
