"""Access to language models: every reply is stored and paid for once.

The path of a request:

1. `gateway`: `Gateway.ask` asks `cache.Cache`, which looks in the store, then in the `cassette`.
2. For a missing reply, a source: `gateway.LiveSource` in a live run, others for replay, plan and batches.
3. `sender`: retries, within `rate_limits` and `budget`.
4. `client`: one HTTP call to one of the `servers`; or `user_client`: one call of the user's client function.

Other modules:

- `messages`: requests, replies and request keys. `usage`: token counts and prices.
- HTTP: `connection`; `completions` and `responses`, the two APIs; `reasoning`, which separates a model's reasoning from
  its answer; `key_command`, for keys that expire.
- Stores: `reply_store` is the interface, `open_store` opens one by folder or URL. `sqlite_store` is the default
  (`store`: its file, `leases`: its claims); `redis_store`, `diskcache_store`; `fallback_store` bridges an outage of a
  shared store. `entry_text` is the text form of an entry. `maintenance` is for `rageval cache`.
- `exchange`: a request of the user's application, whose complete response is kept.
- `batches`: requests that a server answers within a day.
- `embedded_client`, `embedded_server`: the local model.
- `api`: the fixture `rageval_llm`. `cached_functions`: its `cached()`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.late import Late
from pytest_rageval.secret import StoreURL

if TYPE_CHECKING:
    from pytest_rageval.llm.reply_store import ReplyStore

__all__ = ["STORES", "Namespace", "StoreFactory"]

Namespace = Literal["replies", "embeddings"]

StoreFactory = Callable[[StoreURL, Namespace], "ReplyStore"]
"""Opens the store at a URL. Entries of different namespaces with one key are different entries."""

STORES: Final[Mapping[str, StoreFactory]] = {
    "diskcache": Late("llm.diskcache_store", "DiskcacheStore"),
    "redis": Late("llm.redis_store", "RedisStore"),
    "rediss": Late("llm.redis_store", "RedisStore"),
}
