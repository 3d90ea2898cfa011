"""Opens stores by folder or URL; the modules of the others are imported when one is opened."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

from pytest_rageval.config.store_url import StoreURL
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.late import Late
from pytest_rageval.llm.port import ReplyStore
from pytest_rageval.llm.sqlite_store import SqliteStore

__all__ = ["STORES", "Namespace", "StoreFactory", "open_store"]

Namespace = Literal["replies", "embeddings"]

StoreFactory = Callable[[StoreURL, Namespace], ReplyStore]
"""Opens the store at a URL. Entries of different namespaces with one key are different entries."""

STORES: Final[Mapping[str, StoreFactory]] = {
    "diskcache": Late("llm.diskcache_store", "DiskcacheStore"),
    "redis": Late("llm.redis_store", "RedisStore"),
    "rediss": Late("llm.redis_store", "RedisStore"),
}
"""The built-in stores by scheme, beside the folder."""


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
