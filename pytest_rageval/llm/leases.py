"""Who is asking for which reply, known to all processes that share a cache.

A lease says "I am asking for this". Its owner marks all its leases anew every
second while it lives. Who waits for one looks whether that goes on: an owner
whose leases have not changed for five seconds counts as dead, and its leases
are anybody's. No two clocks are compared: the marks are numbers that change,
and the seconds are those of the process that waits. So no clock that is wrong,
set anew, or of a machine that was started again, holds up a process or lets two
of them ask for the same.

Renewing has a thread of its own: the event loop may be busy with the user's
code for longer than a lease lasts.
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
from pytest_rageval.llm.database import Database

__all__ = ["LEASE_S", "Leases"]

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

    def __init__(self, database: Database) -> None:
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
