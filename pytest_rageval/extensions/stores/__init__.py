"""Stores of replies that machines or teams share.

- `redis`, `diskcache`: Redis or Valkey, and a folder of diskcache.
- `entry_codec`: the text form of an entry, for key-value stores.
"""

from typing import TYPE_CHECKING

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.run.registry import Registry


@hookimpl(tryfirst=True)
def pytest_rageval_register(registry: "Registry") -> None:
    """Add the stores, before other plugins can take their schemes."""
    from pytest_rageval.lib.lazy import Lazy  # noqa: PLC0415 - a run without marked tests needs none

    registry.add_store("diskcache", Lazy("extensions.stores.diskcache", "DiskcacheStore"))
    for scheme in ("redis", "rediss"):
        registry.add_store(scheme, Lazy("extensions.stores.redis", "RedisStore"))
