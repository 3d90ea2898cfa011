"""Stores of replies: a SQLite file in the cache folder, and stores that extensions and plugins add.

- `open_store` and `store_opener` (here): open the store at a URL. `interface`: `ReplyStore`, the interface of a store.
- `fallback`: uses the cache folder while an added store does not answer.
- `sqlite`: the default store, and its claims. `sqlite_file`: its file, and damage in it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.lib.secret import StoreURL

if TYPE_CHECKING:
    from pytest_rageval.models.stores.interface import OpenStore, ReplyStore

Namespace = str
"""The kind of entries: "replies", or what an extension stores."""

StoreFactory = Callable[[StoreURL, Namespace], "ReplyStore"]
"""Opens the store at a URL. Entries with the same key in different namespaces are different entries."""


def open_store(
    url: StoreURL, stores: Mapping[str, StoreFactory], *, namespace: Namespace = "replies"
) -> "ReplyStore":
    """Open the store at a URL, by the factory of its scheme.

    Raises:
        InputError: there is no store of this scheme, or its package is not installed.
        StoreError: the store cannot be used.
    """
    if url.scheme not in stores:
        hint = did_you_mean(url.scheme, stores)
        urls = f", or a URL that begins with one of: {', '.join(sorted(stores))}" if stores else ""
        raise InputError(f"There is no store {url.scheme!r} for {url.public}.{hint}\nName a folder{urls}.")
    # Imported late: a run without a shared store needs no store interface.
    from pytest_rageval.models.stores.interface import mapped_errors  # noqa: PLC0415

    with mapped_errors(url):
        return stores[url.scheme](url, namespace)


def store_opener(
    place: Path | StoreURL, folder: Path, stores: Mapping[str, StoreFactory]
) -> "OpenStore | None":
    """Return a function that opens the store of a run; None for a cache folder, which `Cache` opens itself.

    Replies are kept in `folder` while a shared store does not answer.
    """
    if isinstance(place, Path):
        return None
    # Imported late: most runs have no shared store.
    from pytest_rageval.models.stores.fallback import FallbackStore  # noqa: PLC0415
    from pytest_rageval.models.stores.interface import StoreAwayError  # noqa: PLC0415

    away: list[StoreAwayError] = []

    def open_shared(remark: Callable[[str], None]) -> "ReplyStore":
        if away:
            # The server did not answer at the first attempt, which waited for it: do not wait again.
            raise away[0]
        try:
            return FallbackStore(place, open_store(place, stores), folder, remark)
        except StoreAwayError as error:
            away.append(error)
            raise

    return open_shared
