"""The gateway to models: finds the replies that are kept and requests each missing one once."""

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
from pytest_rageval.llm.store import Entry
from pytest_rageval.llm.usage import Prices, Usage

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Reply, Request
    from pytest_rageval.llm.servers import Server

__all__ = ["Access", "Gateway"]

Mode = Literal["live", "replay", "plan"]

OVERRULED: Final = (
    "the cassette has another reply than the cache, whose reply counts (`rageval cache import --replace "
    "CASSETTE` takes over the cassette's)"
)


@dataclass(frozen=True, slots=True)
class Access:
    """How models are reached.

    Attributes:
        cache_dir: the folder of the reply cache.
        cassette: a file of recorded replies, read for what the cache lacks; or None.
        mode: a missing reply is requested ("live"), an error ("replay") or only counted ("plan").
        run: a name that all processes of a run share; empty for a single process.
        refresh: find only replies that this run requested.
        record: collect every reply in `Gateway.used`, to be written as a cassette.
        prompts: keep the messages of requests with their replies, not only hashes of them.
        pace: how fast servers are asked.
        limits: what may be spent.
        prices: a file of prices that override the shipped ones; or None.
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
    """Provides the replies that are not kept."""

    async def obtain(self, server: "Server", request: "Request") -> "Reply":
        """Return the reply, after counting it."""

    async def close(self) -> None:
        """Release connections and processes."""


class Gateway:
    """Sends requests to models; used from one event loop.

    Requests with the same key are one request. Requests of one turn of the event loop share one look-up.

    Attributes:
        access: how models are reached.
        cache: the reply cache.
        usage: what was requested so far.
        used: with `Access.record`, the entries of all replies that were used, by key.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.used: dict[str, Entry] = {}
        self.cache = Cache(
            access.cache_dir,
            access.cassette,
            missing_ok=access.record,
            refresh=access.refresh,
            run=access.run,
        )
        self.usage = Usage(remarks=self.cache.remarks)
        self._source = self._make_source(Prices.load(access.prices))
        # One future for each caller: cancelling one must not cancel the others.
        self._callers: dict[str, list[asyncio.Future[Reply]]] = {}
        self._arrived: list[tuple[Server, Request]] = []
        # asyncio itself holds only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def _make_source(self, prices: Prices) -> Source:
        access = self.access
        if access.mode == "plan":
            return PlanSource(prices, self.usage)
        if access.mode == "replay":
            return ReplaySource(self.cache)
        budget = Budget(
            access.limits,
            prices,
            access.run,
            patience_s=2 * access.pace.timeout_s,
            others_active=self.cache.others_active,
        )
        return LiveSource(self.cache, budget, self.usage, access.pace, access.prompts)

    async def ask(self, server: "Server", request: "Request") -> "Reply":
        """Return the reply to a request: from the cache, the cassette or the source.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: no request can be answered: no server, a wrong key, an unusable cache.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        callers = self._callers.get(request.key)
        if callers is None:
            self._callers[request.key] = [future]
            if not self._arrived:
                loop.call_soon(self._look_up)
            self._arrived.append((server, request))
        else:
            callers.append(future)
        return await future

    def waits(self) -> list[Wait]:
        """Return the servers that answer nothing while requests wait for them."""
        return self._source.waits() if isinstance(self._source, LiveSource) else []

    async def close(self) -> None:
        """Cancel requests in flight, and close connections and files."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._source.close()
        self.cache.close()

    def _look_up(self) -> None:
        """Resolve all arrived requests whose replies are kept, and start a task for each other one."""
        arrived, self._arrived = self._arrived, []
        self.usage.requests += len(arrived)
        try:
            found = self.cache.find([request.key for _, request in arrived])
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self.usage.failed += len(arrived)
            for _, request in arrived:
                self._resolve(request, error)
            return
        for server, request in arrived:
            reply = found.get(request.key)
            if reply is not None:
                self.usage.cached += 1
                self._resolve(request, reply)
            elif (recorded := self.cache.find_at_other_address(request)) is not None:
                self.usage.cached += 1
                self._resolve(request, recorded.reply, recorded)
            else:
                task = asyncio.get_running_loop().create_task(self._obtain(server, request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _obtain(self, server: "Server", request: "Request") -> None:
        try:
            reply = await self._source.obtain(server, request)
        except (RagevalError, Unscored) as error:
            self.usage.failed += 1
            self._resolve(request, error)
        except asyncio.CancelledError:
            for future in self._callers.pop(request.key):
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self._resolve(request, error)
        else:
            self._resolve(request, reply)

    def _resolve(
        self, request: "Request", outcome: "Reply | Exception", recorded: "Entry | None" = None
    ) -> None:
        for future in self._callers.pop(request.key):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        # Last: the callers have the reply even if remarks or the recording fail.
        if not isinstance(outcome, Exception):
            self._remark(request, outcome, recorded)
            self.record(request, outcome, recorded)

    def record(self, request: "Request", reply: "Reply", recorded: "Entry | None" = None) -> None:
        """With `Access.record`, put a reply into `used`: its entry at another address, or else a new one."""
        if not self.access.record:
            return
        if recorded is None:
            recorded = Entry(request.key, reply, request_summary(request, prompts=self.access.prompts))
        self.used[recorded.key] = recorded

    def _remark(self, request: "Request", reply: "Reply", recorded: "Entry | None") -> None:
        """Count what readers of the scores should know about a reply."""
        if reply.cut:
            self.usage.cut += 1
        if self.cache.overrules(request.key, reply):
            self.usage.remarks[OVERRULED] += 1
        if recorded is not None:
            address = recorded.summary["base_url"]
            self.usage.remarks[
                f"recorded at {address}, used for {request.base_url}: the model's name, {request.model}, is the same "
                "(--rageval-refresh asks anew)"
            ] += 1
        if reply.without:
            self.usage.remarks[f"{request.model} refuses {reply.without}: asked without"] += 1
