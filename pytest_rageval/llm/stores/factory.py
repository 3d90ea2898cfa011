"""Opens stores by URL."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.llm.stores import STORES, Namespace, StoreFactory
from pytest_rageval.llm.stores.fallback import FallbackStore
from pytest_rageval.llm.stores.interface import OpenStore, ReplyStore, StoreAwayError
from pytest_rageval.secret import StoreURL

__all__ = ["open_store", "store_opener"]


def open_store(
    url: StoreURL, *, namespace: Namespace = "replies", stores: Mapping[str, StoreFactory] = STORES
) -> ReplyStore:
    """Open the store at a URL.

    Raises:
        InputError: there is no store of this scheme, or its package is not installed.
        StoreError: the store cannot be used.
    """
    if url.scheme not in stores:
        hint = did_you_mean(url.scheme, stores)
        raise InputError(
            f"There is no store {url.scheme!r} for {url.public}.{hint}\n"
            f"Name a folder, or a URL that begins with one of: {', '.join(sorted(stores))}."
        )
    return stores[url.scheme](url, namespace)


def store_opener(
    place: Path | StoreURL, folder: Path, stores: Mapping[str, StoreFactory] = STORES
) -> OpenStore | None:
    """Return a function that opens the store of a run; None for a cache folder, which `Cache` opens itself.

    Args:
        place: the cache folder, or the URL of a shared store.
        folder: where replies are stored while the shared store does not answer.
        stores: a function for each scheme that opens a store.
    """
    if isinstance(place, Path):
        return None
    away: list[StoreAwayError] = []

    def open_shared(remark: Callable[[str], None]) -> ReplyStore:
        if away:
            # The server did not answer at the first attempt, which waited for it: do not wait again.
            raise away[0]
        try:
            return FallbackStore(place.public, open_store(place, stores=stores), folder, remark)
        except StoreAwayError as error:
            away.append(error)
            raise

    return open_shared
