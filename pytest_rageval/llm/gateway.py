"""`Gateway`: returns cached replies to requests, and obtains each missing one once.

A source handles a missing reply: a live run sends the request, a replay raises an error, a plan returns a
    placeholder.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from pytest_rageval.concurrency.gathering import CallbackFuture
from pytest_rageval.concurrency.inline import require_loop
from pytest_rageval.errors import PLACEHOLDER, MissingReplyError, RagevalError, ReplyPending, Unscored
from pytest_rageval.llm.batches import Batch, Batches, Failure
from pytest_rageval.llm.budget import Budget, Charge, Limits, max_reply_tokens, prompt_tokens
from pytest_rageval.llm.cache import Cache
from pytest_rageval.llm.messages import (
    FIRST_RUN_LOCAL_SAMPLE,
    BilledFailure,
    Reply,
    Request,
    RequestSummary,
    describe_differences,
    find_nearest,
    request_summary,
)
from pytest_rageval.llm.proxied_request import Answer, ProxiedRequest
from pytest_rageval.llm.servers.rate_limits import Limiter, Stall
from pytest_rageval.llm.servers.sender import Sender
from pytest_rageval.llm.servers.server import RemoteServer, RequestPolicy, Server
from pytest_rageval.llm.stores.interface import Entry, OpenStore
from pytest_rageval.llm.usage import Price, Prices, Tier, Usage

__all__ = [
    "BatchSource",
    "Gateway",
    "GatewaySettings",
    "LiveSource",
    "PlanSource",
    "ReplaySource",
    "Submission",
]

Mode = Literal["live", "replay", "plan"]

CASSETTE_OVERRULED: Final = (
    "the cassette and the cache have different replies; the one in the cache is used (`rageval cache import --replace "
    "CASSETTE` takes over the cassette's)"
)


NEW_REQUEST: Final = "no stage asked for it, so that it was in no batch (does it change from run to run?)"

MAX_EXPLANATIONS: Final = 50  # missing replies that are explained; further ones mostly have the same cause

BUCKETS: Final = 1 << 10  # of the set of counted keys: each is searched from its beginning


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The settings of the gateway: cache, cassette, mode, limits."""

    cache_dir: Path  # of the reply cache, where `store` names no other
    cassette: Path | None = None  # a file of recorded replies, read for what the cache lacks
    mode: Mode = "live"  # a missing reply is requested, an error ("replay") or only counted ("plan")
    run: str = ""  # a name that all processes of a run share; empty for a single process
    refresh: bool = False  # find only replies that this run requested
    record: bool = False  # collect every reply in `Gateway.used`, to be written as a cassette
    prompts: bool = False  # keep the messages of requests with their replies, not only hashes of them
    policy: RequestPolicy = field(default_factory=RequestPolicy)
    limits: Limits = field(default_factory=Limits)
    longest_call_s: float = 0.0  # the longest timeout of a server with a policy of its own
    servers: frozenset[str] = frozenset()  # base URLs of different servers, where more than one is in force
    prices: Path | None = None  # a file of prices that override the shipped ones
    tiers: tuple[Tier, ...] = ()  # a plan counts the cost in these, too
    batch: Literal["", "collect", "use"] = ""  # missing replies are to come in batches, or came in them
    batch_errors: Literal["live", "unscored"] = "live"  # what becomes of requests that failed in one
    store: OpenStore | None = None  # opens the store, where it is not the folder's own


class Gateway:
    """Sends requests to models; used from one event loop.

    Requests with the same key are sent once. Requests made in one turn of the event loop share one look-up.

    Attributes:
        used: by key, the entries of all used replies; only with `GatewaySettings.record`.
        served: by model and base URL, the names that the server reported for the model.
        serves_application: whether the application under test has sent a request.
    """

    def __init__(self, access: GatewaySettings, runs: Callable[[], int] = lambda: 0) -> None:
        self.settings = access
        self._runs = runs
        self._counted_run = 0
        self._counted_keys = _KeySet()
        self.used: dict[str, Entry] = {}
        self.serves_application = False
        how = {"missing_ok": access.record, "refresh": access.refresh}
        self.cache = Cache(access.store or access.cache_dir, access.cassette, run=access.run, **how)
        self.usage = Usage(remarks=self.cache.remarks)
        self.served: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._source = self._make_source(Prices.load(access.prices))
        # One future for each caller: cancelling one must not cancel the others.
        self._callers: defaultdict[str, list[CallbackFuture[Reply]]] = defaultdict(list)
        self._queue: list[tuple[Server, Request]] = []
        # asyncio itself holds only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    def _make_source(self, prices: Prices) -> "LiveSource | ReplaySource | PlanSource":
        access = self.settings
        if access.mode == "plan":
            return PlanSource(prices, self.usage, access.tiers)
        if access.mode == "replay":
            return ReplaySource(self.cache)
        patience_s = 2 * max(access.policy.timeout_s, access.longest_call_s)
        budget = partial(Budget, prices=prices, patience_s=patience_s)
        source = BatchSource if access.batch else LiveSource
        return source(self.cache, budget, self.usage, access)

    @property
    def batches(self) -> "BatchSource":
        """The batches of a run that has them."""
        if not isinstance(self._source, BatchSource):
            raise TypeError("this run has no batches")
        return self._source

    async def get_reply(self, server: Server, request: Request) -> Reply:
        """Return the reply to a request: from the cache, the cassette or the source.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: no request can be answered: no server, a wrong key, an unusable cache, no budget.
        """
        await require_loop()
        future: CallbackFuture[Reply] = CallbackFuture()
        if request.key not in self._callers:
            if not self._queue:
                self._begin(self._process_queue())
            self._queue.append((server, request))
        self._callers[request.key].append(future)
        return await future

    async def get_reply_for_score(self, server: Server, request: Request) -> Reply:
        """`get_reply` for the generator and the judge: a reply at hand takes no waiting, and counts once as there."""
        replies = self.get_replies_nowait(request, (request.sample,))
        return await self.get_reply(server, request) if replies is None else replies[0]

    def get_replies_nowait(self, request: Request, samples: Sequence[int]) -> list[Reply] | None:
        """Return the replies to a request in these samples, if that takes no waiting; None where it does.

        It is for generator and judge. Within one run of the tests' thread each reply counts once, however often it is
        asked for: those who ask at the same time share one.
        """
        keys = request.keys_for_samples(samples)
        asked = dict(zip(keys, samples, strict=True))
        if self._callers and not self._callers.keys().isdisjoint(asked):
            return None
        found = self.cache.get_nowait(list(asked))
        if len(found) < len(asked):
            return None
        if (run := self._runs()) != self._counted_run:
            self._counted_run, self._counted_keys = run, _KeySet()
        new = self._counted_keys.add(asked)
        self.usage.requests += len(new)
        self.usage.cached += len(new)
        for key in new:
            self._remark(request, key, found[key])
            if self.settings.record:
                self.record(replace(request, sample=asked[key]), found[key])
        return [found[key] for key in keys]

    async def forward(
        self,
        server: Server,
        proxied: ProxiedRequest,
        method: str,
        content: bytes,
        headers: Mapping[str, str],
    ) -> Answer:
        """Send a request whose reply is not cached, and return the server's response with any status.

        Raises:
            MissingReplyError: this run sends nothing.
            RagevalError, Unscored: as from `get_reply`.
        """
        if not isinstance(self._source, LiveSource):
            raise MissingReplyError(
                f"{method} {proxied.path} is passed on to the server and not cached, and this run "
                f"({'--rageval-plan' if self.settings.mode == 'plan' else '--rageval-replay'}) sends no requests."
            )
        return await self._source.forward(server, proxied, method, content, headers)

    async def list_models(self, server: Server, proxied: ProxiedRequest) -> Answer:
        """Return the server's list of models, which costs nothing; raises as `forward`."""
        if not isinstance(self._source, LiveSource):
            raise MissingReplyError("This run sends no requests.")
        return await self._source.list_models(server, proxied)

    def stalls(self) -> list[Stall]:
        """Return the servers that answer nothing while requests wait for them."""
        return self._source.stalls() if isinstance(self._source, LiveSource) else []

    async def close(self) -> None:
        """Cancel requests in flight, and close connections and files."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._source.close()
        await self.cache.drain()
        self.cache.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _process_queue(self) -> None:
        """Resolve all waiting requests whose replies are cached, and start a task for each other one."""
        arrived, self._queue = self._queue, []
        self.usage.requests += len(arrived)
        try:
            found = await self.cache.look_up([request.key for _, request in arrived])
        except asyncio.CancelledError:
            for _, request in arrived:
                self._cancel(request)
            raise
        except Exception as error:  # noqa: BLE001 - raised to the callers
            self.usage.failed += len(arrived)
            for _, request in arrived:
                self._resolve(request, error)
            return
        for server, request in arrived:
            reply, recorded = found.get(request.key), None
            if reply is None:
                recorded = self.cache.find_at_other_address(request, self.settings.servers)
                reply = None if recorded is None else recorded.reply
            if reply is not None:
                self.usage.cached += 1
                self._resolve(request, reply, recorded)
            else:
                self._begin(self._obtain(server, request))

    def _cancel(self, request: Request) -> None:
        for future in self._callers.pop(request.key):
            future.cancel()

    async def _obtain(self, server: Server, request: Request) -> None:
        try:
            reply = await self._source.obtain(server, request)
        except asyncio.CancelledError:
            self._cancel(request)
            raise
        except (Exception, ReplyPending) as error:  # noqa: BLE001 - raised to the callers
            self.usage.failed += isinstance(error, RagevalError | Unscored)
            self._resolve(request, error)
        else:
            self._resolve(request, reply)

    def _resolve(
        self, request: Request, outcome: Reply | BaseException, recorded: Entry | None = None
    ) -> None:
        """Pass the outcome to all callers; `recorded` is the entry if it was recorded at another address."""
        for future in self._callers.pop(request.key):
            if future.done():
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        # Last: the callers have the reply even if remarks or the recording fail.
        if not isinstance(outcome, BaseException):
            self._remark(request, request.key, outcome, recorded)
            self.record(request, outcome, recorded)

    def record(self, request: Request, reply: Reply, recorded: Entry | None = None) -> None:
        """With `GatewaySettings.record`, put a reply into `used`: its entry at another address, or else a new one."""
        if not self.settings.record or request.sample >= FIRST_RUN_LOCAL_SAMPLE:
            return
        if recorded is None:
            recorded = Entry(request.key, reply, request_summary(request, prompts=self.settings.prompts))
        self.used[recorded.key] = recorded

    def _remark(self, request: Request, key: str, reply: Reply, recorded: Entry | None = None) -> None:
        """Count remarks about a reply for the report, such as one that was cut."""
        if reply.cut:
            self.usage.cut += 1
        if request.is_internal and reply.has_reasoning:
            self.usage.remarks[f"{request.model} reasons before it answers: its reasoning is not read"] += 1
        if reply.model and not request.base_url.startswith("embedded"):
            self.served[request.model, request.base_url].add(reply.model)
        if self.cache.differs_from_cassette(key, reply):
            self.usage.remarks[CASSETTE_OVERRULED] += 1
        if recorded is not None:
            places = f"recorded at {recorded.summary['base_url']}, used for {request.base_url}"
            same = (
                f"the model's name, {request.model}, is the same (--rageval-refresh sends the requests again)"
            )
            self.usage.remarks[f"{places}: {same}"] += 1
        if reply.without:
            self.usage.remarks[f"{request.model} refuses {reply.without}: asked without"] += 1


class MakeBudget(Protocol):
    """Makes a budget with the prices of the run."""

    def __call__(self, limits: Limits, *, run: str) -> Budget:
        """Return the budget of this name."""


@dataclass(frozen=True, slots=True)
class _Route:
    """The objects for one server: its sender, the semaphore of its claims, its name and budget."""

    sender: Sender
    claim_slots: asyncio.Semaphore
    label: str
    budget: Budget


class LiveSource:
    """Requests missing replies from servers, stores them and counts their cost."""

    def __init__(self, cache: Cache, make_budget: MakeBudget, usage: Usage, access: GatewaySettings) -> None:
        self.cache = cache
        self.usage = usage
        self._access = access
        self._make_budget = make_budget
        self._budget = make_budget(access.limits, run=access.run)
        self._store_error: RagevalError | None = None
        self._routes: dict[Server, _Route] = {}

    async def obtain(self, server: Server, request: Request) -> Reply:
        """Return the reply from the server, or from another process that has requested it."""
        route = self._route(server)
        while True:
            # Claim only the requests in flight and as many more; the rest is for other processes.
            async with route.claim_slots:
                # Before a claim, each of which is written to the store: a wrong key fails all requests of a run.
                route.sender.raise_if_broken(request.model)
                claimed = await self.cache.claim(request.key)
                if claimed is True:
                    with contextlib.suppress(_ClaimLost):
                        return await self._send(route, request)
                    continue
            if isinstance(claimed, Reply):
                self.usage.cached += 1
                return claimed
            await self.cache.wait_for_other(request.key)

    async def forward(
        self,
        server: Server,
        proxied: ProxiedRequest,
        method: str,
        content: bytes,
        headers: Mapping[str, str],
    ) -> Answer:
        """Return the server's answer to a request that is sent once, and counted as one call."""
        route = self._route(server)
        async with route.sender.limiter.slot(), self._bought(route, proxied) as bought:
            bought.billed = True
            try:
                answer = await route.sender.client.forward(proxied, method, content, headers)
            except (RagevalError, Unscored) as error:
                bought.billed = isinstance(error, BilledFailure)
                raise
        self.usage.requests += 1
        for usage in self.usage.with_server(route.label):
            usage.count_live(0, 0, None)
        place = proxied.path.partition("?")[0]
        self.usage.remarks[f"{method} {place} is passed on to the server, and not cached"] += 1
        return answer

    async def list_models(self, server: Server, proxied: ProxiedRequest) -> Answer:
        """Return the server's list of models."""
        return await self._route(server).sender.client.forward(proxied, "GET", b"", {})

    def stalls(self) -> list[Stall]:
        """Return the servers that answer nothing while requests wait for them."""
        return [wait for route in list(self._routes.values()) if (wait := route.sender.wait) is not None]

    async def close(self) -> None:
        """Close the connections."""
        for route in self._routes.values():
            await route.sender.client.close()
        self._routes.clear()

    async def _send(self, route: _Route, request: Request) -> Reply:
        # Before anything is paid: an error in the summary must not lose a reply.
        summary = request_summary(request, prompts=self._access.prompts)
        try:
            return await route.sender.send(
                request,
                reserve=lambda: self._reserve_claimed(route, request),
                keep=lambda reply: self._keep(route, request, reply, summary),
            )
        except BaseException:
            self.cache.release(request.key)
            raise

    @contextlib.asynccontextmanager
    async def _reserve_claimed(self, route: _Route, request: Request) -> AsyncIterator[Charge]:
        async with self._bought(route, request) as purchase:
            # A process that was suspended for a while has lost its leases to others.
            if not await self.cache.holds_claim(request.key):
                raise _ClaimLost
            yield purchase

    @contextlib.asynccontextmanager
    async def _bought(self, route: _Route, request: Request) -> AsyncIterator[Charge]:
        """Make a purchase from the budget of the run and that of the server."""
        await self.cache.open()
        async with (
            self._budget.reserve(self.cache, request) as purchase,
            route.budget.reserve(self.cache, request) as of_server,
        ):
            if self._store_error is not None:
                raise self._store_error
            try:
                yield purchase
            finally:
                of_server.reply, of_server.billed = purchase.reply, purchase.billed

    async def _keep(self, route: _Route, request: Request, reply: Reply, summary: RequestSummary) -> Reply:
        try:
            return await self.cache.keep(Entry(request.key, reply, summary))
        except RagevalError as error:
            # Nothing more is paid once replies cannot be kept.
            self._store_error = error
            raise
        finally:
            cost = self._budget.cost(request, reply)
            for usage in self.usage.with_server(route.label):
                usage.count_live(reply.tokens_in, reply.tokens_out, cost)
            if not (reply.reports_tokens_in and (reply.reports_tokens_out or not request.generates)):
                remark = f"{request.model} reports no tokens: counted as costing the most it can"
                self.usage.remarks[remark] += 1
            if route.sender.flex and request.is_internal and reply.tier != "flex":
                self.usage.remarks[f"{request.model} answered outside the flex tier, at the usual price"] += 1

    def _route(self, server: Server) -> _Route:
        """Return the route to a server; servers with the same settings share it."""
        if server not in self._routes:
            policy = server.policy or self._access.policy
            most = min(policy.concurrency, server.in_flight or policy.concurrency)
            limiter = Limiter(most, rpm=policy.rpm, tpm=policy.tpm)
            client = server.client(timeout_s=policy.timeout_s)
            sender = Sender(client, limiter, policy.timeout_s, policy.retries, policy.patience_s, server.flex)
            budget = self._make_budget(server.limits, run=f"{self._access.run} {server.label}")
            self._routes[server] = _Route(sender, asyncio.Semaphore(2 * most), server.label, budget)
        return self._routes[server]


class Submission(NamedTuple):
    """The result of a submission: new batches, open batches with missing replies, and the number missing."""

    made: list[Batch]
    waited_for: list[Batch]
    missing: int


class BatchSource(LiveSource):
    """Collects missing requests for batches.

    While requests are collected, each one raises ReplyPending. Sent live are requests of the application and of this
    run only, to servers without a URL, and those that failed in a batch, unless these are to be unscored.
    """

    def __init__(self, cache: Cache, make_budget: MakeBudget, usage: Usage, access: GatewaySettings) -> None:
        super().__init__(cache, make_budget, usage, access)
        self._batches = Batches(access.cache_dir / "batches", cache, access.run, self._budgets)
        self._missing: dict[str, tuple[RemoteServer, Request]] = {}

    async def obtain(self, server: Server, request: Request) -> Reply:
        """Return the reply to a request that is sent live.

        Raises:
            ReplyPending: it will come in a batch.
        """
        if (
            not isinstance(server, RemoteServer)
            or not request.is_internal
            or request.sample >= FIRST_RUN_LOCAL_SAMPLE
        ):
            return await super().obtain(server, request)
        state = self._batches.state(request)
        if self._access.batch == "collect" and not isinstance(state, Failure):
            self._missing[request.key] = server, request
            raise ReplyPending
        why = f"it failed in a batch: {state.reason}" if isinstance(state, Failure) else NEW_REQUEST
        if self._access.batch_errors == "unscored":
            raise Unscored(why)
        reply = await super().obtain(server, request)
        if not isinstance(state, Failure):
            self.usage.remarks[f"{request.model} asked live: {NEW_REQUEST}"] += 1
        return reply

    async def submit(self) -> Submission:
        """Submit the missing requests that are in no open batch; raises as `Batches.submit`."""
        made = await self._batches.submit(list(self._missing.values()))
        states = (self._batches.state(request) for _, request in self._missing.values())
        names = {state.name for state in states if isinstance(state, Batch)}
        waited_for = [batch for batch in self._batches.all if batch.name in names]
        return Submission(made, waited_for, len(self._missing))

    async def refresh(self, servers: Iterable[Server], *, collect: bool = True) -> list[Batch]:
        """Look at the batches of these servers, and return all. Raises as `Batches.refresh`."""
        remote = (server for server in servers if isinstance(server, RemoteServer))
        await self._batches.refresh(remote, collect=collect)
        return self._batches.all

    async def close(self) -> None:
        """Close the connections."""
        await self._batches.close()
        await super().close()

    def _budgets(self, server: RemoteServer) -> tuple[Budget, Budget]:
        return self._budget, self._route(server).budget


class _ClaimLost(Exception):  # noqa: N818 - control flow, not an error
    """Another process has taken over a claim of this one."""


@dataclass
class ReplaySource:
    """Raises for every missing reply; nothing is sent."""

    cache: Cache
    _summaries: list[RequestSummary] | None = None
    _missing: int = 0

    async def obtain(self, server: Server, request: Request) -> Reply:  # noqa: ARG002 - nothing is sent
        """Raise MissingReplyError, which names the nearest recorded request and how it differs."""
        self._missing += 1
        if self._missing > MAX_EXPLANATIONS:
            raise MissingReplyError("More replies are missing than are explained.")
        if self._summaries is None:
            self._summaries = [summary for summary in self.cache.summaries() if summary]
        summary, near = request_summary(request), "No request like it is recorded."
        recorded = find_nearest(summary, self._summaries)
        if recorded is not None:
            changes = (
                ", ".join(describe_differences(summary, recorded))
                or "nothing that the record shows, but its wording"
            )
            near = f"The nearest recorded request differs in: {changes}."
        raise MissingReplyError(
            f"A reply of {request.model} is in neither the cache nor a cassette, and --rageval-replay sends no "
            "requests.\n"
            f"{near}\n"
            "Run once without --rageval-replay to ask for it (with --rageval-cassette FILE and "
            "--rageval-record to record it), or undo what changed."
        )

    async def close(self) -> None:
        """Nothing was opened."""


@dataclass
class PlanSource:
    """Counts every missing request in a `Usage`, with estimated tokens and cost; sends none.

    With the placeholder of a reply the evaluation continues, so that requests that depend on replies are counted too.
    """

    prices: Prices
    usage: Usage
    tiers: Sequence[Tier] = ()
    _planned: dict[str, int] = field(default_factory=dict)

    async def obtain(self, server: Server, request: Request) -> Reply:
        """Return a placeholder, after counting the request."""
        mark = request.key[:16]
        reply = Reply(f"⟪reply {mark}⟫", request.model)
        if mark in self._planned:
            self.usage.cached += 1
            return reply
        price = self.prices.get(request.base_url, request.model)
        marks = PLACEHOLDER.findall(" ".join(str(message.get("content")) for message in request.messages))
        tokens_in = prompt_tokens(request.messages, request.parameters)
        tokens_in += sum(self._planned.get(mark, 0) for mark in marks)
        most = max_reply_tokens(request, price)
        self._planned[mark] = tokens_out = most or 0

        def cost(price: Price | None) -> float | None:
            unknown = price is None or (most is None and price.output)
            return None if price is None or unknown else price.cost(tokens_in, tokens_out)

        lower = {tier: cost(price and price.for_tier(tier)) for tier in self.tiers}
        for usage in self.usage.with_server(server.label):
            usage.count_live(tokens_in, tokens_out, cost(price))
            usage.cost_at.update({tier: usd for tier, usd in lower.items() if usd is not None})
            usage.unpriced_at.update([tier for tier, usd in lower.items() if usd is None])
            usage.dependent += bool(marks)
            usage.unbounded += most is None
        return reply

    async def close(self) -> None:
        """Nothing was opened."""


class _KeySet:
    """The keys of a run that were counted, by their hashes, which is enough to count.

    A hash takes its 8 bytes, in the part for its lowest bits; as a number in a set it would take 80, and a run of
    100,000 examples has 500,000.
    """

    def __init__(self) -> None:
        self._parts: defaultdict[int, bytearray] = defaultdict(bytearray)

    def add(self, keys: Iterable[str]) -> list[str]:
        """Add keys, each once; return those that are new."""
        new = []
        for key in keys:
            number = hash(key)
            part, mark = self._parts[number % BUCKETS], number.to_bytes(8, "little", signed=True)
            if mark not in part:
                part += mark
                new.append(key)
        return new
