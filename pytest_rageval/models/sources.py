"""Sources of the replies that are neither cached nor recorded; and the settings by which a gateway chooses one.

`LiveSource` sends requests, `ReplaySource` raises an error, and `PlanSource` returns placeholders. The hook
`pytest_rageval_reply_source` replaces `LiveSource`.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol, Self

from pytest_rageval.core.errors import MissingReplyError, RagevalError, Unscored
from pytest_rageval.models.budget import Budget, Charge, Limits, max_reply_tokens, prompt_tokens
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.client import RequestPolicy, Server
from pytest_rageval.models.messages import REPLY_PLACEHOLDER, BilledFailure, Reply, Request
from pytest_rageval.models.prices import Price, Prices
from pytest_rageval.models.proxied_request import Answer, ProxiedRequest
from pytest_rageval.models.rate_limits import Limiter, Stall
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.stores.interface import Entry, OpenStore
from pytest_rageval.models.summaries import (
    RequestSummary,
    describe_differences,
    find_nearest,
    find_nearest_by_words,
    request_summary,
    words_of,
)
from pytest_rageval.models.usage import ESTIMATED, UNKNOWN_ANSWER_TOKENS, Usage
from pytest_rageval.options.settings import Settings, Tier

LIST_MODELS: Final = ("GET", "/models")  # a request that costs nothing, and counts as none
MAX_EXPLANATIONS: Final = 50  # of missing replies; further replies are mostly missing for the same cause


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    cache_dir: Path  # the folder of the reply cache, unless `open_store` opens another store
    cassette: Path | None = None  # a file of recorded replies, used if the cache does not have a reply
    # What a missing reply leads to: a request ("live"), an error ("replay") or a placeholder ("plan").
    mode: Literal["live", "replay", "plan"] = "live"
    run: str = ""  # a name that all processes of a run share; empty for a single process
    sends_again: bool = False  # use only replies that this run requested
    keeps_replies: bool = False  # collect every used reply in `Gateway.used`, to be written as a cassette
    record_prompts: bool = False  # store the messages of requests with their replies, not only hashes
    policy: RequestPolicy = field(default_factory=RequestPolicy)  # for servers without their own policy
    limits: Limits = field(default_factory=Limits)  # of the run
    max_timeout_s: float = 0.0  # the longest timeout of a server with its own policy
    base_urls: frozenset[str] = frozenset()  # the servers' base URLs, if the run has more than one server
    prices: Path | None = None  # a file of prices that override the shipped ones
    tiers: tuple[Tier, ...] = ()  # a plan also estimates the cost in these tiers
    make_source: "MakeSource | None" = None  # makes the source in a live run; None for `LiveSource`
    open_store: OpenStore | None = None  # opens the store; None for the SQLite store of the cache folder

    @classmethod
    def of(cls, settings: Settings, *, run: str, **others: Any) -> Self:
        """Return the settings of a run with these options; `others` are fields of this class."""
        effects, cassette = settings.effects, settings.cassette
        if cassette is not None and "needs no cassette" in effects and not cassette.exists():
            cassette = None
        servers = settings.generator.server, settings.judge.server
        addresses = frozenset(server.base_url.public for server in servers if server.base_url)
        mode: Literal["live", "replay", "plan"] = "replay" if "sends nothing" in effects else "live"
        return cls(
            cache_dir=settings.cache_dir,
            cassette=cassette,
            mode="plan" if "has placeholders" in effects else mode,
            run=settings.run or run,
            sends_again="sends again" in effects,
            keeps_replies="keeps replies" in effects,
            record_prompts="keeps replies" in effects and settings.record_prompts,
            limits=Limits(settings.max_calls, settings.max_cost),
            max_timeout_s=max(server.timeout for server in servers),
            base_urls=addresses if len(addresses) > 1 else frozenset(),
            prices=settings.prices,
            tiers=settings.tiers,
            **others,
        )


class Source(ABC):
    """Obtains missing replies. Unless a subclass overrides the other methods, no requests are sent."""

    option: ClassVar[str] = ""  # of the run that this source belongs to, for error messages

    @abstractmethod
    async def obtain(self, server: Server, request: Request) -> Reply:
        """Return the reply to a request that is neither cached nor recorded."""

    def planned_reply(self, request: Request) -> Reply | None:  # noqa: ARG002 - only a plan has one
        """Return the placeholder of a request that a plan has counted: the run will have the reply by then."""
        return None

    async def forward(
        self,
        server: Server,  # noqa: ARG002 - nothing is sent
        proxied: ProxiedRequest,
        method: str,
        content: bytes,  # noqa: ARG002
        headers: Mapping[str, str],  # noqa: ARG002
    ) -> Answer:
        """Send a request whose reply is not cached, and return the server's response with any status."""
        raise MissingReplyError(
            f"{method} {proxied.path} is passed on to the server and not cached, and this run "
            f"({self.option}) sends no requests."
        )

    def stalls(self) -> list[Stall]:
        return []

    async def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Close the connections, if the source has any."""


class MakeBudget(Protocol):
    def __call__(self, limits: Limits, *, run: str) -> Budget: ...


MakeSource = Callable[[Cache, MakeBudget, Usage, GatewaySettings], Source]
"""Makes a source from the cache of the run, its budgets, its usage, to which the source adds, and its settings."""


@dataclass(frozen=True, slots=True)
class _Route:
    """The objects for one server: its sender, the semaphore of its claims, its name and budget."""

    sender: Sender
    claim_slots: asyncio.Semaphore
    label: str
    budget: Budget


class LiveSource(Source):
    def __init__(
        self, cache: Cache, make_budget: MakeBudget, usage: Usage, settings: GatewaySettings
    ) -> None:
        self.cache = cache
        self.usage = usage
        self._settings = settings
        self._make_budget = make_budget
        self._budget = make_budget(settings.limits, run=settings.run)
        self._store_error: RagevalError | None = None
        self._routes: dict[Server, _Route] = {}

    async def obtain(self, server: Server, request: Request) -> Reply:
        route = self._route(server)
        while True:
            # A process claims at most twice as many requests as it has in flight: the rest is for other processes.
            async with route.claim_slots:
                # Checked before the claim, which is written to the store: with a wrong key, all requests fail here.
                route.sender.raise_if_failed(request.model)
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
        self, server: Server, proxied: ProxiedRequest, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        route = self._route(server)
        client = route.sender.client
        if (method, proxied.path) == LIST_MODELS:
            return await client.forward(proxied, method, content, headers)
        async with route.sender.limiter.slot(), self._reserve(route, proxied) as charge:
            charge.billed = True
            try:
                answer = await client.forward(proxied, method, content, headers)
            except (RagevalError, Unscored) as error:
                charge.billed = isinstance(error, BilledFailure)
                raise
        self.usage.requests += 1
        for usage in self.usage.with_server(route.label):
            usage.count_live(0, 0, None)
        # Only the first part: the others may be ids of the user's files.
        resource, *rest = proxied.path.partition("?")[0].strip("/").split("/")
        path = f"/{resource}/…" if rest else f"/{resource}"
        self.usage.remarks[f"{method} {path} is passed on to the server, and not cached"] += 1
        return answer

    def stalls(self) -> list[Stall]:
        return [stall for route in list(self._routes.values()) if (stall := route.sender.stall) is not None]

    async def close(self) -> None:
        for route in self._routes.values():
            await route.sender.client.close()
        self._routes.clear()

    def budgets(self, server: Server) -> tuple[Budget, Budget]:
        return self._budget, self._route(server).budget

    async def _send(self, route: _Route, request: Request) -> Reply:
        # Computed before anything is paid: an error in the summary must not lose a reply.
        summary = request_summary(request, prompts=self._settings.record_prompts)
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
        async with self._reserve(route, request) as charge:
            # A process that was suspended may have lost its claims to others.
            if not await self.cache.holds_claim(request.key):
                raise _ClaimLost
            yield charge

    @contextlib.asynccontextmanager
    async def _reserve(self, route: _Route, request: Request) -> AsyncIterator[Charge]:
        """Reserve a call in the budgets of the run and of the server; yield the charge that both settle."""
        await self.cache.open()
        async with (
            self._budget.reserve(self.cache, request) as charge,
            route.budget.reserve(self.cache, request) as server_charge,
        ):
            if self._store_error is not None:
                raise self._store_error
            try:
                yield charge
            finally:
                server_charge.reply, server_charge.billed = charge.reply, charge.billed

    async def _keep(self, route: _Route, request: Request, reply: Reply, summary: RequestSummary) -> Reply:
        try:
            return await self.cache.keep(Entry(request.key, reply, summary))
        except RagevalError as error:
            # If replies cannot be stored, nothing more is paid.
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
        if server not in self._routes:
            policy = server.policy or self._settings.policy
            max_in_flight = min(policy.concurrency, server.in_flight or policy.concurrency)
            limiter = Limiter(max_in_flight, rpm=policy.rpm, tpm=policy.tpm)
            client = server.client(timeout_s=policy.timeout_s)
            sender = Sender(client, limiter, policy.timeout_s, policy.retries, policy.patience_s, server.flex)
            claim_slots = asyncio.Semaphore(2 * max_in_flight)
            budget = self._make_budget(server.limits, run=f"{self._settings.run} {server.label}")
            self._routes[server] = _Route(sender, claim_slots, server.label, budget)
        return self._routes[server]


class _ClaimLost(Exception):  # noqa: N818 - control flow, not an error
    pass


@dataclass
class ReplaySource(Source):
    option: ClassVar[str] = "--rageval-replay"

    cache: Cache
    _summaries: list[tuple[frozenset[str], RequestSummary]] | None = None  # each with the words of its prompt
    _missing: int = 0

    async def obtain(self, server: Server, request: Request) -> Reply:  # noqa: ARG002 - nothing is sent
        """Raise MissingReplyError, which names the nearest recorded request and how it differs."""
        self._missing += 1
        if self._missing > MAX_EXPLANATIONS:
            raise MissingReplyError("More replies are missing than are explained.")
        if self._summaries is None:
            self._summaries = [(words_of(each), each) for each in self.cache.summaries() if each]
        summary, near = request_summary(request, prompts=True), "No request like it is recorded."
        recorded = find_nearest_by_words(summary, self._summaries)
        recorded = recorded or find_nearest(summary, [each for _, each in self._summaries])
        if recorded is not None:
            changes = describe_differences(summary, recorded)
            # A reply of the same model at another address is used, so that the address alone is not why it is missing.
            changes = [change for change in changes if not change.startswith("base_url: ")] or changes
            shown = ", ".join(changes) or "nothing that the record shows, but its wording"
            near = f"The nearest recorded request differs in: {shown}."
        raise MissingReplyError(
            f"A reply of {request.model} is in neither the cache nor a cassette, and --rageval-replay sends no "
            "requests.\n"
            f"{near}\n"
            "Run once without --rageval-replay to request it (with --rageval-record to record it in the cassette), or "
            "undo what changed."
        )


@dataclass
class PlanSource(Source):
    """Counts every missing request in a `Usage`, with estimated tokens and cost.

    It returns a placeholder for the reply, so that requests that depend on replies are counted too.
    """

    option: ClassVar[str] = "--rageval-plan"

    prices: Prices
    usage: Usage
    tiers: Sequence[Tier] = ()
    _planned: dict[str, int] = field(default_factory=dict)  # by mark, the estimated tokens of the reply

    def planned_reply(self, request: Request) -> Reply | None:
        return _placeholder_reply(request) if request.key[:16] in self._planned else None

    async def obtain(self, server: Server, request: Request) -> Reply:
        mark = request.key[:16]
        price = self.prices.get(request.base_url, request.model)
        marks = REPLY_PLACEHOLDER.findall(
            " ".join(str(message.get("content")) for message in request.messages)
        )
        tokens_in = prompt_tokens(request.messages, request.parameters)
        tokens_in += sum(self._planned.get(mark, UNKNOWN_ANSWER_TOKENS) for mark in marks)
        if not self._planned.keys() >= set(marks):
            self.usage.remarks[ESTIMATED] += 1
        max_tokens = max_reply_tokens(request, price)
        self._planned[mark] = tokens_out = max_tokens or 0

        def cost(price: Price | None) -> float | None:
            unknown = price is None or (max_tokens is None and price.output)
            return None if price is None or unknown else price.cost(tokens_in, tokens_out)

        costs = {tier: cost(price and price.for_tier(tier)) for tier in self.tiers}
        for usage in self.usage.with_server(server.label):
            usage.count_live(tokens_in, tokens_out, cost(price))
            usage.cost_at.update({tier: usd for tier, usd in costs.items() if usd is not None})
            usage.unpriced_at.update([tier for tier, usd in costs.items() if usd is None])
            usage.dependent += bool(marks)
            usage.unbounded += max_tokens is None
        return _placeholder_reply(request)


def _placeholder_reply(request: Request) -> Reply:
    return Reply(f"⟪reply {request.key[:16]}⟫", request.model)
