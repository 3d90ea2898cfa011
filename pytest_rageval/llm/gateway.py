"""The one way to a model: cached replies are found, and each missing reply is requested once."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from pytest_rageval.errors import RagevalError, Unscored
from pytest_rageval.llm.budget import Budget, Limits
from pytest_rageval.llm.cache import Cache
from pytest_rageval.llm.messages import request_summary
from pytest_rageval.llm.patience import Wait
from pytest_rageval.llm.plan import PlanSource
from pytest_rageval.llm.sources import LiveSource, Pace, ReplaySource
from pytest_rageval.llm.usage import Prices, Usage

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Reply, Request
    from pytest_rageval.llm.servers import Server
    from pytest_rageval.llm.store import Entry

__all__ = ["Access", "Gateway"]

OVERRULED: Final = (
    "the cassette has another reply than the cache, whose reply counts (`rageval cache import --replace "
    "CASSETTE` takes over the cassette's)"
)

Mode = Literal["live", "replay", "plan"]


@dataclass(frozen=True, slots=True)
class Access:
    """How models are reached.

    Attributes:
        cache_dir: of the reply cache.
        cassette: a file of recorded replies, read where the cache has none; or None.
        mode: what becomes of a request whose reply is not kept: it is sent ("live"), an error
            ("replay"), or counted ("plan").
        run: a name that all processes of a run share; empty for a process that is alone.
        refresh: find only what this run asked for.
        record: keep every reply used in `Gateway.used`, to be written as a cassette.
        prompts: keep the messages of requests beside their replies, and not only their hashes.
        pace: of asking.
        limits: of spending.
        prices: a file of prices that overrules those that are known; or None.
    """

    cache_dir: Path
    cassette: Path | None = None
    mode: Mode = "live"
    run: str = ""
    refresh: bool = False
    record: bool = False
    prompts: bool = False
    pace: Pace = field(default_factory=Pace)
    limits: Limits = field(default_factory=Limits)
    prices: Path | None = None


class Source(Protocol):
    """Where a reply comes from that is not kept."""

    async def obtain(self, server: "Server", request: "Request") -> "Reply":
        """The reply, counted."""

    async def close(self) -> None:
        """Let go of everything."""


class Gateway:
    """Asks models; used from one event loop.

    Two requests of the same key are one: the second waits for the first. All
    that come up while the event loop goes round once are looked up together.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.used: dict[str, Entry] = {}
        prices = Prices.load(access.prices)
        self.cache = Cache(
            access.cache_dir,
            access.cassette,
            missing_ok=access.record,
            refresh=access.refresh,
            run=access.run,
        )
        self.usage = Usage(remarks=self.cache.remarks)
        self._source: Source
        if access.mode == "plan":
            self._source = PlanSource(prices, self.usage)
        elif access.mode == "replay":
            self._source = ReplaySource(self.cache)
        else:
            patience_s = 2 * access.pace.timeout_s
            budget = Budget(
                access.limits, prices, access.run, patience_s=patience_s, others_ask=self.cache.others_ask
            )
            self._source = LiveSource(self.cache, budget, self.usage, access.pace, access.prompts)
        # Each who waits has a future of their own: one may be cancelled, the reply is for the others too.
        self._waiting: dict[str, list[asyncio.Future[Reply]]] = {}
        self._arrived: list[tuple[Server, Request]] = []
        # Tasks that nobody refers to may be collected while they run.
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, server: "Server", request: "Request") -> "Reply":
        """The reply to a request, from wherever it can be had first.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: none can be answered: no server, a wrong key, an unusable cache.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        waiting = self._waiting.get(request.key)
        if waiting is None:
            self._waiting[request.key] = [future]
            if not self._arrived:
                loop.call_soon(self._look_up)
            self._arrived.append((server, request))
        else:
            waiting.append(future)
        return await future

    def waits(self) -> list[Wait]:
        """The servers that answer nothing while requests wait for them."""
        return self._source.waits() if isinstance(self._source, LiveSource) else []

    async def close(self) -> None:
        """Give up what is in flight, and close connections and files."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._source.close()
        self.cache.close()

    def _look_up(self) -> None:
        """Land all that arrived whose replies are kept; the others take off."""
        arrived, self._arrived = self._arrived, []
        self.usage.requests += len(arrived)
        try:
            found = self.cache.find([request.key for _, request in arrived])
        except Exception as error:  # noqa: BLE001 - those who wait raise it
            self.usage.failed += len(arrived)
            for _, request in arrived:
                self._land(request, error)
            return
        for server, request in arrived:
            reply = found.get(request.key)
            if reply is not None:
                self.usage.cached += 1
                self._land(request, reply)
            elif (recorded := self.cache.recorded_elsewhere(request)) is not None:
                self.usage.cached += 1
                self._land(request, recorded.reply, recorded)
            else:
                task = asyncio.get_running_loop().create_task(self._obtain(server, request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _obtain(self, server: "Server", request: "Request") -> None:
        try:
            reply = await self._source.obtain(server, request)
        except (RagevalError, Unscored) as error:
            self.usage.failed += 1
            self._land(request, error)
        except asyncio.CancelledError:
            for future in self._waiting.pop(request.key):
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - those who wait raise it
            self._land(request, error)
        else:
            self._land(request, reply)

    def _land(
        self, request: "Request", outcome: "Reply | BaseException", recorded: "Entry | None" = None
    ) -> None:
        for future in self._waiting.pop(request.key):
            if future.done():
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        # Last: who waits has the reply, whatever becomes of what is said about it.
        if not isinstance(outcome, BaseException):
            self._remark(request, outcome, recorded)
            self.remember(request, outcome, recorded)

    def remember(self, request: "Request", reply: "Reply", recorded: "Entry | None" = None) -> None:
        """Put a reply among those to be recorded, if any are; one that was recorded elsewhere stays what it is."""
        if self.access.record and recorded is not None:
            self.used[recorded.key] = recorded
        elif self.access.record:
            from pytest_rageval.llm.store import Entry  # noqa: PLC0415 - with SQLite, when needed

            outline = request_summary(request, prompts=self.access.prompts)
            self.used[request.key] = Entry(request.key, reply, outline)

    def _remark(self, request: "Request", reply: "Reply", recorded: "Entry | None") -> None:
        """Count what a reader of the scores should know of a reply, whenever it was asked for."""
        if reply.cut:
            self.usage.cut += 1
        if self.cache.overrules(request.key, reply):
            self.usage.remarks[OVERRULED] += 1
        if recorded is not None:
            address = recorded.outline["base_url"]
            self.usage.remarks[
                f"recorded at {address}, used for {request.base_url}: the model's name, {request.model}, is the same "
                "(--rageval-refresh asks anew)"
            ] += 1
        if reply.without:
            self.usage.remarks[f"{request.model} refuses {reply.without}: asked without"] += 1
