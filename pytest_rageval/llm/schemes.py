"""The built-in stores by the scheme of their URLs; each is imported when it is opened."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.late import Late
from pytest_rageval.secret import StoreURL

if TYPE_CHECKING:
    from pytest_rageval.llm.port import ReplyStore

__all__ = ["STORES", "Namespace", "StoreFactory"]

Namespace = Literal["replies", "embeddings"]

StoreFactory = Callable[[StoreURL, Namespace], "ReplyStore"]
"""Opens the store at a URL. Entries of different namespaces with one key are different entries."""

STORES: Final[Mapping[str, StoreFactory]] = {
    "diskcache": Late("llm.diskcache_store", "DiskcacheStore"),
    "redis": Late("llm.redis_store", "RedisStore"),
    "rediss": Late("llm.redis_store", "RedisStore"),
}
