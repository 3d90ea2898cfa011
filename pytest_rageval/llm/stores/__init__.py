"""Stores of replies: a SQLite file in the cache folder, Redis or Valkey, or a folder of diskcache.

- `interface`: `ReplyStore`, the interface of a store. `factory`: opens the store at a URL.
- `sqlite`: the default store. `sqlite_file`: its file. `sqlite_claims`: its claims.
- `redis`, `diskcache`: stores that machines or teams share. `fallback`: uses the cache folder while a shared store does
  not answer.
- `entry_codec`: the text form of an entry, for key-value stores.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.lazy import Lazy
from pytest_rageval.secret import StoreURL

if TYPE_CHECKING:
    from pytest_rageval.llm.stores.interface import ReplyStore

__all__ = ["STORES", "Namespace", "StoreFactory"]

Namespace = Literal["replies", "embeddings"]

StoreFactory = Callable[[StoreURL, Namespace], "ReplyStore"]
"""Opens the store at a URL. Entries with the same key in different namespaces are different entries."""

STORES: Final[Mapping[str, StoreFactory]] = {
    "diskcache": Lazy("llm.stores.diskcache", "DiskcacheStore"),
    "redis": Lazy("llm.stores.redis", "RedisStore"),
    "rediss": Lazy("llm.stores.redis", "RedisStore"),
}
