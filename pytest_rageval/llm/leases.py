"""Who is asking for which reply, known to all processes that share a cache.

A lease says "I am asking for this". It lasts for seconds and is renewed while
its owner lives, so that the death of a process holds up the others only that
long. Renewing has a thread of its own: the event loop may be busy with the
user's code for longer than a lease lasts.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.database import Database

__all__ = ["LEASE_S", "Leases"]

LEASE_S: Final = 5.0
"""How long a process that died can keep the others waiting for a reply."""

RENEWAL_S: Final = 1.0


class Leases:
    """The leases of this process, which is one owner, and a view on those of others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = uuid.uuid4().hex
        self._ended = threading.Event()
        self._renewing: threading.Thread | None = None

    def claim(self, keys: Sequence[str]) -> set[str]:
        """Take the leases of these keys that nobody holds; call it in a transaction.

        Returns:
            Those that are now this process's to ask for.
        """
        now, wanted = time.time(), json.dumps(list(keys))
        self._database.execute(
            "INSERT INTO leases (key, owner, expires) SELECT value, ?, ? FROM json_each(?) WHERE true "
            "ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires "
            "WHERE leases.expires < ?",
            (self._owner, now + LEASE_S, wanted, now),
        )
        rows = self._database.rows(
            "SELECT key FROM leases WHERE owner = ? AND key IN (SELECT value FROM json_each(?))",
            (self._owner, wanted),
        )
        if rows and self._renewing is None:
            self._renewing = threading.Thread(
                target=_renew,
                args=(self._database.directory, self._owner, self._ended),
                name="rageval-leases",
                daemon=True,
            )
            self._renewing.start()
        return {key for (key,) in rows}

    def held(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that some living process is asking for."""
        rows = self._database.rows(
            "SELECT key FROM leases WHERE expires >= ? AND key IN (SELECT value FROM json_each(?))",
            (time.time(), json.dumps(list(keys))),
        )
        return {key for (key,) in rows}

    def release(self, keys: Sequence[str]) -> None:
        """Give leases of this process back: the reply is kept, or will not come."""
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
            with contextlib.suppress(StoreError):
                self._database.execute("DELETE FROM leases WHERE owner = ?", (self._owner,))


def _renew(directory: Path, owner: str, ended: threading.Event) -> None:
    """Renew an owner's leases until told to end; a connection is for one thread."""
    try:
        database = Database(directory)
        while not ended.wait(RENEWAL_S):
            database.execute("UPDATE leases SET expires = ? WHERE owner = ?", (time.time() + LEASE_S, owner))
        database.close()
    except StoreError:
        # The folder is gone, or its disk full: keeping the next reply says so, where it can be heard.
        return
