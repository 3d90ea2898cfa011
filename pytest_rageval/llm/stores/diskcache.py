"""A store in a folder of diskcache, for teams that share a `Cache` or a `FanoutCache`.

diskcache unpickles what it finds (CVE-2025-69872). `_text_disk` does not: it stores text in SQLite and refuses
everything else. Claims are entries that end by themselves; an owner is alive if it changes its time stamp every
second; the stamp is not compared with a clock.
"""

import contextlib
import json
import re
import sqlite3
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import StoreError, require
from pytest_rageval.files import make_cache_folder
from pytest_rageval.llm.messages import Reply
from pytest_rageval.llm.stores.entry_codec import decode_or_damaged, encode_entry, usable_replies
from pytest_rageval.llm.stores.interface import (
    CLAIM_TTL_S,
    Damaged,
    Entry,
    Spending,
    build_claim_results,
    start_renewing,
)
from pytest_rageval.llm.stores.sqlite_claims import OwnerMonitor
from pytest_rageval.secret import StoreURL

__all__ = ["DiskcacheStore"]

DATABASE: Final = "cache.db"
SHARD: Final = re.compile(r"[0-9]{3}")
VALUE_FILE: Final = re.compile(r"[0-9a-f]{2}[/\\][0-9a-f]{2}[/\\][0-9a-f]{28}\.val")
WAIT_S: Final = 60.0  # how long a statement waits for other processes' transactions
CLAIM_KEPT_S: Final = 3 * 86400.0  # longer than clocks are apart; until then the owner's renewals decide
SPENDING_KEPT_S: Final = 7 * 86400.0


class _RefusedError(ValueError):
    """A value is not a text."""


def _text_disk(base: Any) -> Any:
    """Return a `Disk` of diskcache for text alone; nothing is pickled or unpickled, and no other file is touched."""

    class TextDisk(base):  # type: ignore[misc]
        def put(self, key: Any) -> tuple[str, bool]:
            return _text(key), True

        def get(self, key: Any, raw: Any) -> Any:
            return key if raw else None

        def store(self, value: Any, read: Any, key: Any = None) -> tuple[int, int, None, str]:  # noqa: ARG002
            return 0, 1, None, _text(value)

        def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> Any:  # noqa: ARG002
            if mode != 1 or filename is not None:
                raise _RefusedError("it is a pickle or a file, expected text")
            return value

        def remove(self, file_path: Any) -> None:
            # A planted name might lead out of the folder.
            if isinstance(file_path, str) and VALUE_FILE.fullmatch(file_path):
                super().remove(file_path)

    return TextDisk


def _text(value: Any) -> str:
    if not isinstance(value, str):
        message = f"{type(value).__name__} is not kept, only text"
        raise TypeError(message)
    return value


class DiskcacheStore:
    """A store as in `ReplyStore`, in a folder; a new one gets a `Cache` that evicts nothing."""

    def __init__(self, url: StoreURL, namespace: str = "replies") -> None:
        self._diskcache = require("diskcache", extra="diskcache", purpose=f"The cache {url.public}")
        self._folder = url.folder or Path()
        self._prefix = f"rageval:{namespace}:"
        self._owner = uuid.uuid4().hex
        self._own: set[str] = set()
        self._lock = threading.Lock()
        self._others = OwnerMonitor()
        self._closed = threading.Event()
        self._renewing: threading.Thread | None = None
        self.damaged: set[str] = set()
        with self._mapped():
            self._cache = self._opened()

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Return the replies kept under these keys."""
        texts = {key: self._text_of(key) for key in dict.fromkeys(keys)}
        there = {key: text for key, text in texts.items() if text is not None}
        return usable_replies(there, self.damaged, run, only_run=only_run)

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        """Return for each key its reply, or whether this process has the claim."""
        # In one transaction: no process can store a reply between look-up and claim.
        with self._transaction():
            found = self.get_many(keys, run=run, only_run=only_run)
            dead = self._dead_owners()
            living = self._living_owners(dead)
            own = [key for key in dict.fromkeys(keys) if key not in found and self._take(key, living)]
            for owner in dead:
                self._end_owner(owner)
            if own:
                with self._lock:
                    self._own.update(own)
                self._begin_owner()
        if own and self._renewing is None:
            self._renewing = start_renewing(self.renew, self._closed)
        return build_claim_results(keys, found, own)

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        """Return the keys with a claim, and whether it is this process's."""
        held = {key: self._get(self._claim(key)) for key in keys}
        dead = self._dead_owners()
        return {
            key: owner == self._owner
            for key, owner in held.items()
            if owner is not None and owner not in dead
        }

    def others_active(self) -> bool:
        """Whether another living process has any claim."""
        dead = self._dead_owners()
        return bool(set(self._others.known) - dead)

    def ping(self) -> None:
        """Do nothing: there is no server."""

    def renew(self) -> None:
        """Renew all claims of this process."""
        with self._lock:
            idle = not self._own
        if not idle:
            with self._mapped():
                self._cache.touch(self._sign(self._owner), expire=CLAIM_KEPT_S, retry=True)
                # It is this thread's own connection.
                self._cache.close()

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        """Store replies, in one transaction; return those that count."""
        new = {entry.key: entry for entry in reversed(list(entries))}
        with self._transaction():
            found = self.get_many(list(new), run=run, only_run=only_run)
            for key, entry in new.items():
                if key not in found:
                    self._cache.set(self._reply(key), encode_entry(entry, run).decode(), retry=True)
            self._release(list(new))
        return {key: found.get(key, entry.reply) for key, entry in new.items()}

    def release(self, keys: Sequence[str]) -> None:
        """End claims of this process, without a reply."""
        with self._transaction():
            self._release(keys)

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        """Add a change to an account, or return what prevents it."""
        name = f"{self._prefix}spending:{account}"
        with self._transaction():
            try:
                calls, cost, open_calls, open_cost = map(float, json.loads(self._get(name) or "[0, 0, 0, 0]"))
            except (ValueError, TypeError) as error:
                raise self._unusable(f"the spending of run {account} is damaged: {error}") from None
            before = Spending(int(calls), cost, int(open_calls), open_cost)
            if not before.fits(change, max_calls, max_cost):
                return before
            self._cache.set(name, json.dumps(before.changed(change)), expire=SPENDING_KEPT_S, retry=True)
        return None

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        """Yield the entries, sorted by key."""
        for key in sorted(set(self._all_keys() if keys is None else keys)):
            text = self._text_of(key)
            if text is not None:
                yield decode_or_damaged(key, text)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete entries."""
        with self._transaction():
            for key in keys:
                self._cache.delete(self._reply(key), retry=True)

    def close(self) -> None:
        """End all claims of this process, and close the files."""
        self._closed.set()
        if self._renewing is not None:
            self._renewing.join(timeout=CLAIM_TTL_S)
        # If this fails, the claims expire.
        with contextlib.suppress(StoreError):
            if self._own:
                self.release(list(self._own))
        with self._mapped():
            self._cache.close()

    def _opened(self) -> Any:
        disk = _text_disk(self._diskcache.Disk)
        shards = [
            each.parent for each in self._folder.glob(f"*/{DATABASE}") if SHARD.fullmatch(each.parent.name)
        ]
        if shards and not (self._folder / DATABASE).is_file():
            # Its constructor sets the limit of size again.
            limit = {"size_limit": _setting(shards[0] / DATABASE, "size_limit") * len(shards)}
            cache = self._diskcache.FanoutCache(
                str(self._folder), shards=len(shards), timeout=WAIT_S, disk=disk, **limit
            )
        else:
            self._make(disk)
            cache = self._diskcache.Cache(str(self._folder), timeout=WAIT_S, disk=disk)
        if cache.eviction_policy != "none":
            policy = cache.eviction_policy
            cache.close()
            raise self._unusable(
                f"its eviction_policy is {policy!r}, which deletes replies that were paid for",
                'make it with eviction_policy="none"',
            )
        return cache

    def _make(self, disk: Any) -> None:
        """Make a cache that evicts nothing, if there is none: elsewhere, as others may be making one, too."""
        make_cache_folder(self._folder)
        if (self._folder / DATABASE).is_file():
            return
        with tempfile.TemporaryDirectory(prefix=".rageval-", dir=self._folder) as made:
            self._diskcache.Cache(made, disk=disk, eviction_policy="none").close()
            with contextlib.suppress(FileExistsError):
                (self._folder / DATABASE).hardlink_to(Path(made) / DATABASE)

    def _reply(self, key: str) -> str:
        return f"{self._prefix}reply:{key}"

    def _claim(self, key: str) -> str:
        return f"{self._prefix}claim:{key}"

    def _sign(self, owner: str) -> str:
        """The name of an owner's sign of life."""
        return f"{self._prefix}owner:{owner}"

    @property
    def _owners(self) -> str:
        """The name of the list of owners with claims."""
        return f"{self._prefix}owners"

    def _get(self, name: str) -> str | None:
        """Return a text; None where there is none, or something else."""
        with self._mapped():
            try:
                found = self._cache[name]
            except (_RefusedError, KeyError):
                return None
        return found if isinstance(found, str) else None

    def _text_of(self, key: str) -> object:
        """Return what is kept under a key: bytes where it is text, as `decode_entry` takes it; None for nothing."""
        with self._mapped():
            try:
                # `FanoutCache.get` returns nothing after an error.
                found = self._cache[self._reply(key)]
            except KeyError:
                return None
            except _RefusedError as error:
                return str(error)
            except sqlite3.OperationalError as error:
                # Python's own error, not SQLite's, is about text that is not UTF-8.
                if hasattr(error, "sqlite_errorcode"):
                    raise
                return "text that is not UTF-8"
        return found.encode("utf-8", "surrogatepass") if isinstance(found, str) else found

    def _all_keys(self) -> list[str]:
        prefix = self._reply("")
        with self._mapped():
            names = [name for name in self._cache if isinstance(name, str)]
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def _living_owners(self, dead: set[str]) -> set[str]:
        """Return the listed owners without the dead ones: a claim of any other has ended."""
        return set((self._get(self._owners) or "").split()) - dead

    def _take(self, key: str, living: set[str]) -> bool:
        """Whether this process has the claim of a key now."""
        name = self._claim(key)
        if self._cache.add(name, self._owner, expire=CLAIM_KEPT_S, retry=True):
            return True
        owner = self._get(name)
        if owner not in living:
            self._cache.set(name, self._owner, expire=CLAIM_KEPT_S, retry=True)
            return True
        return owner == self._owner

    def _release(self, keys: Sequence[str]) -> None:
        for key in keys:
            if self._get(self._claim(key)) == self._owner:
                self._cache.delete(self._claim(key), retry=True)
        with self._lock:
            before = bool(self._own)
            self._own.difference_update(keys)
            idle = before and not self._own
        if idle:
            self._end_owner(self._owner)

    def _begin_owner(self) -> None:
        owners = (self._get(self._owners) or "").split()
        if self._owner not in owners:
            self._cache.set(self._owners, " ".join([*owners, self._owner]), retry=True)
        self._cache.set(self._sign(self._owner), "", expire=CLAIM_KEPT_S, retry=True)

    def _end_owner(self, owner: str) -> None:
        owners = (self._get(self._owners) or "").split()
        self._cache.set(self._owners, " ".join(each for each in owners if each != owner), retry=True)
        self._cache.delete(self._sign(owner), retry=True)

    def _dead_owners(self) -> set[str]:
        """Look at the other owners; return those that have not renewed their claims for `CLAIM_TTL_S`."""
        owners = (self._get(self._owners) or "").split()
        marks = []
        with self._mapped():
            for owner in owners:
                if owner != self._owner:
                    found = self._cache.get(self._sign(owner), expire_time=True, retry=True)
                    marks.append((owner, found and found[1]))
        return self._others.dead(marks)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        # A `FanoutCache` waits without an end.
        fanout = isinstance(self._cache, self._diskcache.FanoutCache)
        with self._mapped(), self._cache.transact(retry=fanout):
            yield

    @contextlib.contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn the errors of diskcache, of SQLite and of the file system into `StoreError`."""
        try:
            yield
        except (OSError, sqlite3.Error, self._diskcache.Timeout) as error:
            raise self._unusable(f"{type(error).__name__}: {error}") from error

    def _unusable(self, why: str, remedy: str = "name another place with --rageval-cache") -> StoreError:
        return StoreError(
            f"The cache diskcache:{self._folder} cannot be used: {why}.\n{remedy.capitalize()}."
        )


def _setting(database: Path, name: str) -> int:
    """Return a number in the settings of a cache, without opening it as one."""
    uri = f"{database.resolve().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        found = connection.execute("SELECT value FROM Settings WHERE key = ?", (name,)).fetchone()
    return int(found[0]) if found else 2**30
