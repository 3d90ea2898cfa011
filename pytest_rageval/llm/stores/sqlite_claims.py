"""Claims in the SQLite store. Another owner counts as dead if its claims have not changed for `CLAIM_TTL_S`.

No time of another process is compared with a clock: each process watches whether the others renew.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.stores.interface import CLAIM_TTL_S, RENEWAL_S, start_renewing
from pytest_rageval.llm.stores.sqlite_file import Database

__all__ = ["Claims", "OwnerMonitor"]


class Claims:
    """The leases of this process. Another owner is dead when its leases have not changed for `CLAIM_TTL_S`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = uuid.uuid4().hex
        self._others = OwnerMonitor()
        self._renewer: Database | None = None
        self._closed = threading.Event()
        self._renewing: threading.Thread | None = None

    def claim(self, keys: Sequence[str]) -> set[str]:
        """Take the leases that no living process holds, in a transaction; return the keys that are now this one's."""
        dead = [(owner,) for owner in self._dead_owners()]
        if dead:
            self._database.execute_many("DELETE FROM leases WHERE CAST(owner AS BLOB) = ?", dead)
        self._database.execute(
            "INSERT OR IGNORE INTO leases (key, owner, expires) SELECT value, ?, ? FROM json_each(?)",
            (self._owner, _new_heartbeat(), json.dumps(list(keys))),
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
        return bool(set(self._others.known) - dead)

    def release(self, keys: Sequence[str]) -> None:
        """Delete leases of this process; call it in a transaction."""
        self._database.execute(
            "DELETE FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, json.dumps(list(keys))),
        )

    def renew(self) -> None:
        """Renew all leases, over a connection of its own: another thread may be waiting in the other one."""
        try:
            self._renewer = self._renewer or Database(self._database.directory)
            with self._renewer.transaction():
                self._renewer.execute(
                    "UPDATE leases SET expires = ? WHERE owner = ?", (_new_heartbeat(), self._owner)
                )
        except StoreError:
            self._close_renewer()
            raise

    def close(self) -> None:
        """Release all leases and stop renewing."""
        self._closed.set()
        if self._renewing is not None:
            self._renewing.join(timeout=CLAIM_TTL_S)
            # On a failing disk the leases expire; the requests themselves have raised the error.
            with contextlib.suppress(StoreError), self._database.transaction():
                self._database.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))
        self._close_renewer()

    def _close_renewer(self) -> None:
        renewer, self._renewer = self._renewer, None
        if renewer is not None:
            with contextlib.suppress(StoreError):
                renewer.close()

    def _start_renewing(self) -> None:
        self._renewing = start_renewing(self.renew, self._closed)

    def _dead_owners(self) -> set[bytes]:
        """Look at the other owners; return those that have not renewed their leases for `CLAIM_TTL_S`."""
        rows = self._database.rows(
            # As bytes: a damaged file may hold any value.
            "SELECT CAST(owner AS BLOB), CAST(max(expires) AS BLOB) FROM leases WHERE owner != ? GROUP BY owner",
            (self._owner,),
        )
        return self._others.dead(rows)


class OwnerMonitor:
    """Other processes with claims, as this one sees them."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _OwnerState] = {}

    def dead(self, marks: Iterable[tuple[Hashable, object]]) -> set[Any]:
        """Look at the mark that each owner has set last; return the owners that are dead."""
        now = time.monotonic()
        before, self._known = self._known, {}
        for owner, mark in marks:
            self._known[owner] = known = before.get(owner) or _OwnerState(mark, now)
            known.look(mark, now)
        return {owner for owner, known in self._known.items() if known.unrenewed_s >= CLAIM_TTL_S}

    @property
    def known(self) -> Collection[Hashable]:
        """All that were there at the last look."""
        return self._known.keys()


@dataclass(slots=True)
class _OwnerState:
    """Another process, as this one sees it: the mark of its leases, and for how long it has been the same."""

    mark: object
    looked_at: float
    unrenewed_s: float = 0.0

    def look(self, mark: object, now: float) -> None:
        if mark != self.mark:
            self.mark, self.unrenewed_s = mark, 0.0
        else:
            # At most one interval: this process may have been suspended itself.
            self.unrenewed_s += min(now - self.looked_at, RENEWAL_S)
        self.looked_at = now


def _new_heartbeat() -> float:
    """Return a number that is new each time; it is never compared with a clock."""
    return time.monotonic()
