"""Opens stores by folder or URL."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.llm.stores import STORES, Namespace, StoreFactory
from pytest_rageval.llm.stores.fallback import FallbackStore
from pytest_rageval.llm.stores.interface import OpenStore, ReplyStore, StoreAwayError
from pytest_rageval.llm.stores.sqlite import SqliteStore
from pytest_rageval.secret import StoreURL

__all__ = ["open_store", "store_opener"]


def open_store(
    place: Path | StoreURL,
    remark: Callable[[str], None] = lambda _: None,
    *,
    namespace: Namespace = "replies",
    stores: Mapping[str, StoreFactory] = STORES,
) -> ReplyStore:
    """Open the store at a place.

    Raises:
        InputError: there is no store of this scheme, or its package is not installed.
        StoreError: the store cannot be used.
    """
    if isinstance(place, Path):
        return SqliteStore(place, remark)
    if place.scheme not in stores:
        hint = did_you_mean(place.scheme, stores)
        raise InputError(
            f"There is no store {place.scheme!r} for {place.public}.{hint}\n"
            f"Name a folder, or a URL that begins with one of: {', '.join(sorted(stores))}."
        )
    return stores[place.scheme](place, namespace)


def store_opener(
    place: Path | StoreURL, folder: Path, stores: Mapping[str, StoreFactory] = STORES
) -> OpenStore | None:
    """Return what opens the store of a run; None for a folder, which `Cache` opens itself.

    `folder` is where replies are kept while a shared store is away.
    """
    if isinstance(place, Path):
        return None
    away: list[StoreAwayError] = []

    def opened(remark: Callable[[str], None]) -> ReplyStore:
        if away:
            # A server that did not answer at the beginning was waited for once.
            raise away[0]
        try:
            return FallbackStore(place.public, open_store(place, stores=stores), folder, remark)
        except StoreAwayError as error:
            away.append(error)
            raise

    return opened
