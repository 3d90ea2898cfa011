"""A store in a folder of diskcache, for teams that share a `Cache` or a `FanoutCache`.

diskcache unpickles values that it reads (CVE-2025-69872). `_text_disk` does not: it stores text in SQLite and refuses
everything else. Claims are entries that expire. The expiry time of an owner's heartbeat entry, which the owner renews
every second, is its heartbeat; see `OwnerMonitor`.
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

from pytest_rageval.core.errors import StoreError, require
from pytest_rageval.extensions.stores.entry_codec import decode_or_damaged, encode_entry, usable_replies
from pytest_rageval.lib.files import UntrustedFolderError, make_cache_folder
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import (
    CLAIM_TTL_S,
    Damaged,
    Entry,
    Spending,
    build_claim_results,
    start_renewing,
)
from pytest_rageval.models.stores.sqlite import OwnerMonitor

DATABASE: Final = "cache.db"
SHARD: Final = re.compile(r"[0-9]{3}")
VALUE_FILE: Final = re.compile(r"[0-9a-f]{2}[/\\][0-9a-f]{2}[/\\][0-9a-f]{28}\.val")
WAIT_S: Final = 60.0  # how long a statement waits for other processes' transactions
CLAIM_KEPT_S: Final = 3 * 86400.0  # much longer than machines' clocks differ: until then, heartbeats decide
SPENDING_KEPT_S: Final = 7 * 86400.0  # how long the spending of a run is stored


class _NotTextError(ValueError):
    pass


def _text_disk(base: Any) -> Any:
    """Return a subclass of diskcache's `Disk` for text only, which pickles and unpickles nothing."""

    class TextDisk(base):  # type: ignore[misc]
        def put(self, key: Any) -> tuple[str, bool]:
            return _text(key), True

        def get(self, key: Any, raw: Any) -> Any:
            return key if raw else None

        def store(self, value: Any, read: Any, key: Any = None) -> tuple[int, int, None, str]:  # noqa: ARG002
            return 0, 1, None, _text(value)

        def fetch(self, mode: Any, filename: Any, value: Any, read: Any) -> Any:  # noqa: ARG002
            if mode != 1 or filename is not None:
                raise _NotTextError("it is a pickle or a file, expected text")
            return value

        def remove(self, file_path: Any) -> None:
            # A manipulated name could be a path outside of the folder.
            if isinstance(file_path, str) and VALUE_FILE.fullmatch(file_path):
                super().remove(file_path)

    return TextDisk


def _text(value: Any) -> str:
    if not isinstance(value, str):
        message = f"{type(value).__name__} is not kept, only text"
        raise TypeError(message)
    return value


class DiskcacheStore:
    """A `ReplyStore` in a folder of diskcache; a new folder gets a `Cache` that evicts nothing."""

    def __init__(self, url: StoreURL, namespace: str = "replies") -> None:
        self._diskcache = require("diskcache", extra="diskcache", purpose=f"The cache {url.public}")
        self._folder = url.folder or Path()
        self._prefix = f"rageval:{namespace}:"
        self._owner = uuid.uuid4().hex
        self._own_keys: set[str] = set()
        self._lock = threading.Lock()
        self._others = OwnerMonitor()
        self._closed = threading.Event()
        self._renewal_thread: threading.Thread | None = None
        self.damaged: set[str] = set()
        with self._map_errors():
            self._cache = self._open()

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        texts = {key: self._read_reply(key) for key in dict.fromkeys(keys)}
        stored = {key: text for key, text in texts.items() if text is not None}
        return usable_replies(stored, self.damaged, run, only_run=only_run)

    def claim(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply | bool]:
        # In one transaction: no process can store a reply between look-up and claim.
        with self._transaction():
            replies = self.get_many(keys, run=run, only_run=only_run)
            dead = self._dead_owners()
            # The claims of owners that are not listed have ended.
            living = set((self._get(self._owners_name) or "").split()) - dead
            own = [key for key in dict.fromkeys(keys) if key not in replies and self._try_claim(key, living)]
            for owner in dead:
                self._remove_owner(owner)
            if own:
                with self._lock:
                    self._own_keys.update(own)
                self._add_this_owner()
        if own and self._renewal_thread is None:
            self._renewal_thread = start_renewing(self.renew, self._closed)
        return build_claim_results(keys, replies, own)

    def claims(self, keys: Sequence[str]) -> dict[str, bool]:
        owners = {key: self._get(self._claim_name(key)) for key in keys}
        dead = self._dead_owners()
        return {
            key: owner == self._owner
            for key, owner in owners.items()
            if owner is not None and owner not in dead
        }

    def others_active(self) -> bool:
        dead = self._dead_owners()
        return bool(set(self._others.owners) - dead)

    def ping(self) -> None:
        """Do nothing: the store has no server."""

    def renew(self) -> None:
        with self._lock:
            has_claims = bool(self._own_keys)
        if has_claims:
            with self._map_errors():
                self._cache.touch(self._heartbeat_name(self._owner), expire=CLAIM_KEPT_S, retry=True)
                # diskcache has a connection for each thread: this closes the connection of the renewing thread.
                self._cache.close()

    def keep(self, entries: Iterable[Entry], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        new = {entry.key: entry for entry in reversed(list(entries))}
        with self._transaction():
            stored = self.get_many(list(new), run=run, only_run=only_run)
            for key, entry in new.items():
                if key not in stored:
                    self._cache.set(self._reply_name(key), encode_entry(entry, run).decode(), retry=True)
            self._release(list(new))
        return {key: stored.get(key, entry.reply) for key, entry in new.items()}

    def release(self, keys: Sequence[str]) -> None:
        with self._transaction():
            self._release(keys)

    def spend(
        self, account: str, change: Spending, *, max_calls: float = inf, max_cost: float = inf
    ) -> Spending | None:
        name = f"{self._prefix}spending:{account}"
        with self._transaction():
            try:
                calls, cost, open_calls, open_cost = map(float, json.loads(self._get(name) or "[0, 0, 0, 0]"))
            except (ValueError, TypeError) as error:
                raise self._unusable_error(f"the spending of run {account} is damaged: {error}") from None
            before = Spending(int(calls), cost, int(open_calls), open_cost)
            if not before.fits(change, max_calls, max_cost):
                return before
            self._cache.set(name, json.dumps(before.changed(change)), expire=SPENDING_KEPT_S, retry=True)
        return None

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        for key in sorted(set(self._all_keys() if keys is None else keys)):
            text = self._read_reply(key)
            if text is not None:
                yield decode_or_damaged(key, text)

    def delete_many(self, keys: Sequence[str]) -> None:
        with self._transaction():
            for key in keys:
                self._cache.delete(self._reply_name(key), retry=True)

    def close(self) -> None:
        self._closed.set()
        if self._renewal_thread is not None:
            self._renewal_thread.join(timeout=CLAIM_TTL_S)
        # If this fails, the claims expire.
        with contextlib.suppress(StoreError):
            if self._own_keys:
                self.release(list(self._own_keys))
        with self._map_errors():
            self._cache.close()

    def _open(self) -> Any:
        """Return the `Cache` or `FanoutCache` in the folder; create a `Cache` if there is none."""
        disk = _text_disk(self._diskcache.Disk)
        shards = [
            file.parent for file in self._folder.glob(f"*/{DATABASE}") if SHARD.fullmatch(file.parent.name)
        ]
        if shards and not (self._folder / DATABASE).is_file():
            # The constructor overwrites the size limit, so the stored limit is passed to it.
            limit = {"size_limit": _setting(shards[0] / DATABASE, "size_limit") * len(shards)}
            cache = self._diskcache.FanoutCache(
                str(self._folder), shards=len(shards), timeout=WAIT_S, disk=disk, **limit
            )
        else:
            self._create(disk)
            cache = self._diskcache.Cache(str(self._folder), timeout=WAIT_S, disk=disk)
        if cache.eviction_policy != "none":
            policy = cache.eviction_policy
            cache.close()
            raise self._unusable_error(
                f"its eviction_policy is {policy!r}, which deletes replies that were paid for",
                'make it with eviction_policy="none"',
            )
        return cache

    def _create(self, disk: Any) -> None:
        """Create a cache that evicts nothing, if there is none.

        It is created in a temporary folder and linked into place: other processes may create one at the same time.
        """
        make_cache_folder(self._folder)
        if (self._folder / DATABASE).is_file():
            return
        with tempfile.TemporaryDirectory(prefix=".rageval-", dir=self._folder) as folder:
            self._diskcache.Cache(folder, disk=disk, eviction_policy="none").close()
            with contextlib.suppress(FileExistsError):
                (self._folder / DATABASE).hardlink_to(Path(folder) / DATABASE)

    def _reply_name(self, key: str) -> str:
        return f"{self._prefix}reply:{key}"

    def _claim_name(self, key: str) -> str:
        return f"{self._prefix}claim:{key}"

    def _heartbeat_name(self, owner: str) -> str:
        return f"{self._prefix}owner:{owner}"

    @property
    def _owners_name(self) -> str:
        return f"{self._prefix}owners"

    def _get(self, name: str) -> str | None:
        with self._map_errors():
            try:
                value = self._cache[name]
            except (_NotTextError, KeyError):
                return None
        return value if isinstance(value, str) else None

    def _read_reply(self, key: str) -> object:
        """Return the stored value of a reply for `decode_entry`, bytes if it is good; None if there is none."""
        with self._map_errors():
            try:
                # Not `get`: `FanoutCache.get` returns the default after an error.
                value = self._cache[self._reply_name(key)]
            except KeyError:
                return None
            except _NotTextError as error:
                return str(error)
            except sqlite3.OperationalError as error:
                # An error of Python, not of SQLite: a text is not UTF-8.
                if hasattr(error, "sqlite_errorcode"):
                    raise
                return "text that is not UTF-8"
        return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value

    def _all_keys(self) -> list[str]:
        prefix = self._reply_name("")
        with self._map_errors():
            names = [name for name in self._cache if isinstance(name, str)]
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def _try_claim(self, key: str, living: set[str]) -> bool:
        """Claim a key unless a living owner has claimed it; return whether this process has the claim."""
        name = self._claim_name(key)
        if self._cache.add(name, self._owner, expire=CLAIM_KEPT_S, retry=True):
            return True
        owner = self._get(name)
        if owner not in living:
            self._cache.set(name, self._owner, expire=CLAIM_KEPT_S, retry=True)
            return True
        return owner == self._owner

    def _release(self, keys: Sequence[str]) -> None:
        for key in keys:
            if self._get(self._claim_name(key)) == self._owner:
                self._cache.delete(self._claim_name(key), retry=True)
        with self._lock:
            had_claims = bool(self._own_keys)
            self._own_keys.difference_update(keys)
            has_no_more = had_claims and not self._own_keys
        if has_no_more:
            self._remove_owner(self._owner)

    def _add_this_owner(self) -> None:
        owners = (self._get(self._owners_name) or "").split()
        if self._owner not in owners:
            self._cache.set(self._owners_name, " ".join([*owners, self._owner]), retry=True)
        self._cache.set(self._heartbeat_name(self._owner), "", expire=CLAIM_KEPT_S, retry=True)

    def _remove_owner(self, owner: str) -> None:
        owners = (self._get(self._owners_name) or "").split()
        self._cache.set(self._owners_name, " ".join(other for other in owners if other != owner), retry=True)
        self._cache.delete(self._heartbeat_name(owner), retry=True)

    def _dead_owners(self) -> set[str]:
        """Read the heartbeats of the other owners; return the owners that are dead."""
        owners = (self._get(self._owners_name) or "").split()
        heartbeats = []
        with self._map_errors():
            for owner in owners:
                if owner != self._owner:
                    found = self._cache.get(self._heartbeat_name(owner), expire_time=True, retry=True)
                    heartbeats.append((owner, found and found[1]))
        return self._others.dead_owners(heartbeats)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        # A `FanoutCache` supports only `retry=True`, which waits without limit.
        fanout = isinstance(self._cache, self._diskcache.FanoutCache)
        with self._map_errors(), self._cache.transact(retry=fanout):
            yield

    @contextlib.contextmanager
    def _map_errors(self) -> Iterator[None]:
        try:
            yield
        except UntrustedFolderError as error:
            raise self._unusable_error(str(error), error.remedy) from None
        except (OSError, sqlite3.Error, self._diskcache.Timeout) as error:
            raise self._unusable_error(f"{type(error).__name__}: {error}") from error

    def _unusable_error(
        self, why: str, remedy: str = "name another place with --rageval-cache"
    ) -> StoreError:
        return StoreError(
            f"The cache diskcache:{self._folder} cannot be used: {why}.\n{remedy[0].upper()}{remedy[1:]}."
        )


def _setting(database: Path, name: str) -> int:
    uri = f"{database.resolve().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        row = connection.execute("SELECT value FROM Settings WHERE key = ?", (name,)).fetchone()
    return int(row[0]) if row else 2**30
