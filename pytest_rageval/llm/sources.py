"""Sources of replies that are not kept: servers in a live run, an error in replay; `plan` has the third."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytest_rageval.errors import MissingReplyError, RagevalError
from pytest_rageval.llm.budget import Purchase
from pytest_rageval.llm.client import Client
from pytest_rageval.llm.messages import Reply, difference, nearest, request_summary
from pytest_rageval.llm.patience import Wait
from pytest_rageval.llm.rate_limits import Limiter
from pytest_rageval.llm.sender import Sender
from pytest_rageval.llm.store import Entry

if TYPE_CHECKING:
    from pytest_rageval.llm.budget import Budget
    from pytest_rageval.llm.cache import Cache
    from pytest_rageval.llm.messages import Request, RequestSummary
    from pytest_rageval.llm.servers import Server
    from pytest_rageval.llm.usage import Usage

__all__ = ["LiveSource", "Pace", "ReplaySource"]

EXPLAINED: Final = 50
"""How many missing replies are compared with everything recorded; further ones mostly have the same cause."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast this process asks servers.

    Attributes:
        concurrency: the most requests in flight to one server.
        timeout_s: for one reply, in seconds.
        retries: attempts after the first.
        rpm: requests a minute to one server; None for no limit.
        tpm: tokens a minute, likewise.
        patience_s: how long to wait for a server that answers nothing, in seconds.
    """

    concurrency: int = 16
    timeout_s: float = 60.0
    retries: int = 4
    rpm: float | None = None
    tpm: float | None = None
    patience_s: float = 300.0


@dataclass
class LiveSource:
    """Requests missing replies from servers, and keeps and counts them."""

    cache: "Cache"
    budget: "Budget"
    usage: "Usage"
    pace: Pace
    prompts: bool = False
    _store_error: RagevalError | None = None
    _senders: dict[str, Sender] = field(default_factory=dict)
    _claim_slots: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    async def obtain(self, server: "Server", request: "Request") -> Reply:
        """Return the reply from the server, or from another process that has requested it.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: no request can be answered: no server, a wrong key, an unusable cache, no budget.
        """
        while True:
            # Claim only what is in flight and as many to follow; the rest is for other processes.
            async with self._claim_slot(server):
                claimed = await self.cache.claim(request.key)
                if claimed is True:
                    with contextlib.suppress(_LeaseLost):
                        return await self._send(server, request)
                    continue
            if isinstance(claimed, Reply):
                self.usage.cached += 1
                return claimed
            await self.cache.wait_for_other(request.key)

    def waits(self) -> list[Wait]:
        """Return the servers that answer nothing while requests wait for them."""
        return [wait for sender in list(self._senders.values()) if (wait := sender.wait) is not None]

    async def close(self) -> None:
        """Close the connections."""
        for sender in self._senders.values():
            await sender.client.close()
        self._senders.clear()

    async def _send(self, server: "Server", request: "Request") -> Reply:
        # Before anything is paid: an error in the summary must not lose a reply.
        summary = request_summary(request, prompts=self.prompts)
        try:
            return await self._sender(server).send(
                request,
                purchase=lambda: self._purchase(request),
                keep=lambda reply: self._keep(request, reply, summary),
            )
        except BaseException:
            self.cache.release(request.key)
            raise

    @contextlib.asynccontextmanager
    async def _purchase(self, request: "Request") -> AsyncIterator[Purchase]:
        # `database` opens the cache: nothing is paid that could not be kept.
        async with self.budget.purchase(self.cache.database, request) as purchase:
            if self._store_error is not None:
                raise self._store_error
            # A process that was suspended for a while has lost its leases to others.
            if not self.cache.holds_lease(request.key):
                raise _LeaseLost
            yield purchase

    async def _keep(self, request: "Request", reply: Reply, summary: "RequestSummary") -> Reply:
        try:
            return await self.cache.keep(Entry(request.key, reply, summary))
        except RagevalError as error:
            # Nothing more is paid once replies cannot be kept.
            self._store_error = error
            raise
        finally:
            self._count(request, reply)

    def _count(self, request: "Request", reply: Reply) -> None:
        usage, cost = self.usage, self.budget.cost(request, reply)
        usage.live += 1
        usage.tokens_in += reply.tokens_in
        usage.tokens_out += reply.tokens_out
        if not (reply.counts_in and reply.counts_out):
            usage.remarks[f"{request.model} reports no tokens: counted as costing the most it can"] += 1
        if cost is None:
            usage.unpriced += 1
        else:
            usage.cost_usd += cost

    def _sender(self, server: "Server") -> Sender:
        if server.base_url not in self._senders:
            pace = self.pace
            self._senders[server.base_url] = Sender(
                Client(server, timeout_s=pace.timeout_s),
                Limiter(self._concurrency(server), rpm=pace.rpm, tpm=pace.tpm),
                pace.timeout_s,
                pace.retries,
                pace.patience_s,
            )
        return self._senders[server.base_url]

    def _claim_slot(self, server: "Server") -> asyncio.Semaphore:
        if server.base_url not in self._claim_slots:
            self._claim_slots[server.base_url] = asyncio.Semaphore(2 * self._concurrency(server))
        return self._claim_slots[server.base_url]

    def _concurrency(self, server: "Server") -> int:
        return min(self.pace.concurrency, server.in_flight or self.pace.concurrency)


class _LeaseLost(Exception):  # noqa: N818 - control flow, not an error
    """Another process requests what this one has claimed."""


@dataclass
class ReplaySource:
    """Raises for every missing reply; nothing is sent."""

    cache: "Cache"
    _summaries: "list[RequestSummary] | None" = None
    _missing: int = 0

    async def obtain(self, server: "Server", request: "Request") -> "Reply":  # noqa: ARG002 - nothing is sent
        """Explain why there is no reply.

        Raises:
            MissingReplyError: always; names the nearest recorded request and how it differs.
        """
        self._missing += 1
        if self._missing > EXPLAINED:
            raise MissingReplyError("More replies are missing than are explained.")
        raise MissingReplyError(
            f"A reply of {request.model} is in neither the cache nor a cassette, and --rageval-replay asks nothing.\n"
            f"{self._nearest(request)}\n"
            "Run once without --rageval-replay to ask for it (with --rageval-cassette FILE and "
            "--rageval-record to record it), or undo what changed."
        )

    async def close(self) -> None:
        """Nothing was opened."""

    def _nearest(self, request: "Request") -> str:
        if self._summaries is None:
            self._summaries = [summary for summary in self.cache.summaries() if summary]
        summary = request_summary(request)
        recorded = nearest(summary, self._summaries)
        if recorded is None:
            return "No request like it is recorded."
        changes = ", ".join(difference(summary, recorded)) or "nothing that the record shows, but its wording"
        return f"The nearest recorded request differs in: {changes}."
