"""The settings of a `Gateway`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_rageval.llm.budget import Limits
from pytest_rageval.llm.servers.server import RequestPolicy
from pytest_rageval.llm.stores.interface import OpenStore
from pytest_rageval.llm.usage import Tier

__all__ = ["GatewaySettings"]


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings of a gateway: cache, cassette, mode, limits."""

    cache_dir: Path  # the folder of the reply cache, unless `open_store` opens another store
    cassette: Path | None = None  # a file of recorded replies, used if the cache does not have a reply
    # What a missing reply leads to: a request ("live"), an error ("replay") or a placeholder ("plan").
    mode: Literal["live", "replay", "plan"] = "live"
    run: str = ""  # a name that all processes of a run share; empty for a single process
    refresh: bool = False  # use only replies that this run requested
    record: bool = False  # collect every used reply in `Gateway.used`, to be written as a cassette
    record_prompts: bool = False  # store the messages of requests with their replies, not only hashes
    policy: RequestPolicy = field(default_factory=RequestPolicy)  # for servers without their own policy
    limits: Limits = field(default_factory=Limits)  # of the run
    max_timeout_s: float = 0.0  # the longest timeout of a server with its own policy
    base_urls: frozenset[str] = frozenset()  # the servers' base URLs, if the run has more than one server
    prices: Path | None = None  # a file of prices that override the shipped ones
    tiers: tuple[Tier, ...] = ()  # a plan also estimates the cost in these tiers
    # "collect": missing replies are requested in batches; "use": batches were collected, the rest is sent live.
    batch: Literal["", "collect", "use"] = ""
    batch_errors: Literal["live", "unscored"] = "live"  # what happens to requests that failed in a batch
    open_store: OpenStore | None = None  # opens the store; None for the SQLite store of the cache folder
