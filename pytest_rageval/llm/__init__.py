"""Access to language models, with every reply kept and paid for once.

How a request becomes a reply: `gateway.Gateway.ask` → `cache.Cache` (the cache folder, then the cassette) →
for a missing reply a source, as `gateway.LiveSource` → `sender.Sender` (retries, within `rate_limits` and `budget`)
→ `client.Client` (one HTTP call to one of the `servers`), or `own_client` (one call of the user's client). An
`exchange` is a request of another program, whose reply is the server's whole answer. `batches` has replies come in
files, within a day.

Data: `messages` (request, reply, request summary), `cassette` (text file), `usage` (counts and prices). Replies are
kept in a store: `port` is the protocol, `sqlite_store` the default, `STORES` the others by the scheme of their URLs.
For the user's code: `api.LLM`, `cached_functions`. `maintenance` is for `rageval cache`.
"""

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
