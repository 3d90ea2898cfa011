"""Where a reply comes from that is not in the cache: a server, or an error in replay."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_rageval.errors import MissingReplyError, RagevalError
from pytest_rageval.llm.budget import Purchase
from pytest_rageval.llm.client import Client
from pytest_rageval.llm.messages import Reply, difference, nearest, request_summary
from pytest_rageval.llm.patience import Wait
from pytest_rageval.llm.sender import Limiter, Sender

if TYPE_CHECKING:
    from pytest_rageval.llm.budget import Budget
    from pytest_rageval.llm.cache import Cache
    from pytest_rageval.llm.messages import Request
    from pytest_rageval.llm.servers import Server
    from pytest_rageval.llm.usage import Usage

__all__ = ["LiveSource", "Pace", "ReplaySource"]

EXPLAINED = 50
"""How many missing replies are compared with all that are recorded: what changed, mostly changed for all."""


@dataclass
class ReplaySource:
    """No server is asked, and none is started."""

    cache: "Cache"
    _recorded: list[Mapping[str, Any]] | None = None
    _explained: int = 0

    async def obtain(self, server: "Server", request: "Request") -> "Reply":  # noqa: ARG002 - not asked
        """Explain why there is none.

        Raises:
            MissingReplyError: always; it names the nearest recorded request, and what changed since.
        """
        self._explained += 1
        raise MissingReplyError(self._explanation(request, look=self._explained <= EXPLAINED))

    async def close(self) -> None:
        """Nothing was opened."""

    def _explanation(self, request: "Request", *, look: bool) -> str:
        if not look:
            return "More replies are missing than are explained."
        outline = request_summary(request)
        if self._recorded is None:
            self._recorded = [known for known in self.cache.outlines() if known]
        near = nearest(outline, self._recorded)
        asked = f"A reply of {request.model} is in neither the cache nor a cassette, and --rageval-replay asks nothing"
        if near is None:
            told = "No request like it is recorded."
        else:
            changes = difference(outline, near)
            listed = ", ".join(changes) if changes else "nothing that the record shows, but its wording"
            told = f"The nearest recorded request differs in: {listed}."
        return (
            f"{asked}.\n{told}\n"
            "Run once without --rageval-replay to ask for it (with --rageval-cassette FILE and "
            "--rageval-record to record it), or undo what changed."
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How servers are asked by this process.

    Attributes:
        concurrency: the most requests in flight to one server.
        timeout_s: for one reply, in seconds.
        retries: attempts after the first.
        rpm: requests a minute to one server; None for no limit.
        tpm: tokens a minute, likewise.
        patience_s: for a server that answers nothing, in seconds.
    """

    concurrency: int = 16
    timeout_s: float = 60.0
    retries: int = 4
    rpm: float | None = None
    tpm: float | None = None
    patience_s: float = 300.0


class _TakenOver(Exception):  # noqa: N818 - no error, a reason to look again
    """Another process asks for what this one has claimed."""


@dataclass
class LiveSource:
    """What is asked of servers now."""

    cache: "Cache"
    budget: "Budget"
    usage: "Usage"
    pace: Pace
    prompts: bool = False
    _unkept: RagevalError | None = None
    _senders: dict[str, Sender] = field(default_factory=dict)
    _desks: dict[str, asyncio.Semaphore] = field(default_factory=dict)

    async def obtain(self, server: "Server", request: "Request") -> Reply:
        """The reply to a request that is not kept yet.

        Raises:
            Unscored: this request failed; the reason.
            RagevalError: none can be answered: no server, a wrong key, an unusable cache, no budget.
        """
        while True:
            # Claimed are those in flight and as many that come next; the rest is for other processes.
            async with self._desk(server):
                claimed = await self.cache.claim(request.key)
                if claimed is True:
                    with contextlib.suppress(_TakenOver):
                        return await self._claimed(server, request)
                    continue
            if isinstance(claimed, Reply):
                self.usage.cached += 1
                return claimed
            await self.cache.settled(request.key)

    def waits(self) -> list[Wait]:
        """The servers that answer nothing while requests wait for them."""
        return [wait for sender in list(self._senders.values()) if (wait := sender.wait) is not None]

    async def close(self) -> None:
        """Close the connections."""
        for sender in self._senders.values():
            await sender.client.close()
        self._senders.clear()

    async def _claimed(self, server: "Server", request: "Request") -> Reply:
        # Before anything is paid: what only explains must not fail when the reply is there.
        outline = request_summary(request, prompts=self.prompts)
        try:
            return await self._sender(server).send(
                request,
                purchase=lambda: self._purchase(request),
                keep=lambda reply: self._keep(request, reply, outline),
            )
        except BaseException:
            self.cache.release(request.key)
            raise

    @contextlib.asynccontextmanager
    async def _purchase(self, request: "Request") -> AsyncIterator[Purchase]:
        # The cache is opened first, so that nothing is paid that could not be kept.
        async with self.budget.purchase(self.cache.database, request) as purchase:
            if self._unkept is not None:
                raise self._unkept
            # A process that was stopped for a while counts as dead, and what it has claimed is asked by another.
            if not self.cache.still_ours(request.key):
                raise _TakenOver
            yield purchase

    async def _keep(self, request: "Request", reply: Reply, outline: Mapping[str, Any]) -> Reply:
        """Keep a reply, and then count it."""
        from pytest_rageval.llm.store import Entry  # noqa: PLC0415 - with SQLite, loaded by now

        try:
            return await self.cache.keep(Entry(request.key, reply, outline))
        except RagevalError as error:
            # What cannot be kept must not be paid: those in flight are the last.
            self._unkept = error
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
                Limiter(self._most(server), rpm=pace.rpm, tpm=pace.tpm),
                pace.timeout_s,
                pace.retries,
                pace.patience_s,
            )
        return self._senders[server.base_url]

    def _desk(self, server: "Server") -> asyncio.Semaphore:
        if server.base_url not in self._desks:
            self._desks[server.base_url] = asyncio.Semaphore(2 * self._most(server))
        return self._desks[server.base_url]

    def _most(self, server: "Server") -> int:
        return min(self.pace.concurrency, server.in_flight or self.pace.concurrency)
