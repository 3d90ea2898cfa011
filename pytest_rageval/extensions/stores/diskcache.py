"""A store in a folder of diskcache, for teams that share a `Cache` or a `FanoutCache`.

diskcache unpickles values that it reads (CVE-2025-69872). `_text_disk` does not: it stores text in SQLite and refuses
everything else. Claims and spending are in a separate SQLite file.
"""

import contextlib
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import StoreError, require
from pytest_rageval.extensions.stores.entry_codec import decode_or_damaged, encode_entry, usable_replies
from pytest_rageval.lib.cache_folder import UntrustedFolderError, make_cache_folder
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Damaged, Entry
from pytest_rageval.models.stores.sqlite import LocalStore
from pytest_rageval.models.stores.sqlite_file import Database

DATABASE: Final = "cache.db"
SHARD: Final = re.compile(r"[0-9]{3}")
VALUE_FILE: Final = re.compile(r"[0-9a-f]{2}[/\\][0-9a-f]{2}[/\\][0-9a-f]{28}\.val")
WAIT_S: Final = 60.0  # how long a statement waits for other processes' transactions


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


class DiskcacheStore(LocalStore):
    """A `ReplyStore` in a folder of diskcache; a new folder gets a `Cache` that evicts nothing."""

    def __init__(self, url: StoreURL, namespace: str = "replies") -> None:
        folder = url.folder or Path()
        diskcache = require("diskcache", extra="diskcache", purpose=f"The cache {url.public}")
        self._table = _ReplyTable(diskcache, folder, namespace)
        # `Cache.check` takes a file for its own if its path contains the name of the database.
        super().__init__(Database(folder / f"rageval-{namespace}-{DATABASE}"), self._table)

    def entries(self, keys: Sequence[str] | None = None) -> Iterator[Entry | Damaged]:
        return self._table.entries(keys)

    def close(self) -> None:
        super().close()
        self._table.close()


class _ReplyTable:
    """The replies in the folder; see `models.stores.sqlite.Replies`."""

    def __init__(self, diskcache: Any, folder: Path, namespace: str) -> None:
        self._diskcache = diskcache
        self._folder = folder
        self._prefix = f"rageval:{namespace}:reply:"
        self.damaged: set[str] = set()
        with self._map_errors():
            self._cache = self._open()

    def get_many(self, keys: Sequence[str], *, run: str = "", only_run: bool = False) -> dict[str, Reply]:
        texts = {key: self._read(key) for key in dict.fromkeys(keys)}
        stored = {key: text for key, text in texts.items() if text is not None}
        return usable_replies(stored, self.damaged, run, only_run=only_run)

    def put_many(self, entries: Iterable[Entry], *, run: str = "") -> None:
        with self._transaction():
            for entry in entries:
                text = encode_entry(entry, run).decode()
                self._cache.set(f"{self._prefix}{entry.key}", text, retry=True)

    def delete_many(self, keys: Iterable[str]) -> None:
        with self._transaction():
            for key in keys:
                self._cache.delete(f"{self._prefix}{key}", retry=True)

    def entries(self, keys: Sequence[str] | None) -> Iterator[Entry | Damaged]:
        for key in sorted(set(self._all_keys() if keys is None else keys)):
            text = self._read(key)
            if text is not None:
                yield decode_or_damaged(key, text)

    def close(self) -> None:
        with self._map_errors():
            self._cache.close()

    def _open(self) -> Any:
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
        """Create a cache that evicts nothing; linked into place, as other processes may create one now."""
        make_cache_folder(self._folder)
        if (self._folder / DATABASE).is_file():
            return
        with tempfile.TemporaryDirectory(prefix=".rageval-", dir=self._folder) as folder:
            self._diskcache.Cache(folder, disk=disk, eviction_policy="none").close()
            with contextlib.suppress(FileExistsError):
                (self._folder / DATABASE).hardlink_to(Path(folder) / DATABASE)

    def _read(self, key: str) -> object:
        """Return the stored value of a reply for `decode_entry`, bytes if it is good; None if there is none."""
        with self._map_errors():
            try:
                # Not `get`: `FanoutCache.get` returns the default after an error.
                value = self._cache[f"{self._prefix}{key}"]
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
        with self._map_errors():
            names = [name for name in self._cache if isinstance(name, str)]
        return [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]

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
