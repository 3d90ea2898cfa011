"""The reply cache: a folder of the project's, shared by all runs and workers.

Kept by diskcache, a SQLite file that many processes may use at once. Two of its
defaults are turned off because of what is kept: nothing is evicted (a reply was
paid for), and nothing is pickled (unpickling runs code, and cache folders are
restored from elsewhere in CI).
"""

import sqlite3
from pathlib import Path
from typing import Any, Final

from diskcache import Cache, Disk, Timeout
from diskcache.core import MODE_RAW

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.reply import Reply

__all__ = ["Store"]

NEVER: Final = 1 << 62
"""A size in bytes that no cache reaches."""


class TextDisk(Disk):  # type: ignore[misc]  # diskcache has no types
    """How diskcache writes keys and values: as SQLite text, or not at all."""

    def put(self, key: Any) -> tuple[str, bool]:
        """A key's form in the database."""
        return _text(key), True

    def get(self, key: Any, raw: bool) -> str:  # noqa: FBT001 - diskcache's signature
        """A key from its form in the database."""
        if not raw:
            raise StoreError(_REFUSED)
        return _text(key)

    def store(self, value: Any, read: bool, key: Any = None) -> tuple[int, int, None, str]:  # noqa: ARG002, FBT001
        """A value's form in the database: size, mode, file name, value."""
        return 0, MODE_RAW, None, _text(value)

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> str:  # noqa: ARG002, FBT001
        """A value from its form in the database; one in any other form was not written by us."""
        if mode != MODE_RAW or filename is not None:
            raise StoreError(_REFUSED)
        return _text(value)


_REFUSED = (
    "The reply cache holds an entry that is not plain text, so this package did not write it.\n"
    "It was not read. Delete the cache folder, or name another with --rageval-cache-dir."
)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise StoreError(_REFUSED)
    return value


class Store:
    """Replies by key, on disk.

    Args:
        directory: made if missing, with a `.gitignore` in it, as pytest does with its own.

    Raises:
        StoreError: from any method, when the folder cannot be used; it names the folder.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            ignore = directory / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            self._cache = Cache(
                str(directory),
                disk=TextDisk,
                eviction_policy="none",
                cull_limit=0,
                size_limit=NEVER,
                statistics=0,
                # Where they are kept elsewhere, more than these settings would be overruled.
                disk_min_file_size=NEVER,
            )
        except (OSError, sqlite3.Error, Timeout) as error:
            raise self._unusable(error) from error

    def get(self, key: str) -> Reply | None:
        """The reply kept under a key, or None."""
        try:
            text = self._cache.get(key)
        except (OSError, sqlite3.Error, Timeout) as error:
            raise self._unusable(error) from error
        if text is None:
            return None
        try:
            return Reply.loads(text)
        except ValueError as error:
            raise self._unusable(error) from error

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply, durably for other processes once this returns."""
        try:
            self._cache.set(key, reply.dumps())
        except (OSError, sqlite3.Error, Timeout) as error:
            raise self._unusable(error) from error

    def close(self) -> None:
        """Let go of the files."""
        self._cache.close()

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(
            f"The reply cache in {self.directory} cannot be used: {type(error).__name__}: {error}.\n"
            "Name another folder with --rageval-cache-dir, or delete this one "
            "(its replies are then asked for again)."
        )
