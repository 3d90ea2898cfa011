"""From a request to a paid reply: within the limits, as often as it takes, in the server's dialect."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.errors import RagevalError, Unscored
from pytest_rageval.llm.budget import Purchase
from pytest_rageval.llm.client import Again, Client, Refused
from pytest_rageval.llm.dialect import Dialect
from pytest_rageval.llm.limits import Limiter, Slot
from pytest_rageval.llm.tokens import count_tokens, prompt_tokens

if TYPE_CHECKING:
    from pytest_rageval.llm.reply import Reply
    from pytest_rageval.llm.request import Request

__all__ = ["Sender"]

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 8.0

PROMPT: Final = 8
"""So often is asked again as soon as the server wants it; one that says "now" every time is not believed."""

SLOW: Final = 0.5
"""The share of the timeout after which a reply counts as slow."""


BILLED: Final = {"slow", "garbled", "dropped"}
"""Kinds of failure after which the server may still count the attempt."""

Buying = Callable[[], AbstractAsyncContextManager[Purchase]]

Keeping = Callable[["Reply"], Awaitable["Reply"]]


@asynccontextmanager
async def _free() -> AsyncIterator[Purchase]:
    """Where nobody counts."""
    yield Purchase()


async def _as_it_is(reply: "Reply") -> "Reply":
    """Where nobody keeps."""
    return reply


@dataclass
class Sender:
    """All requests of this process to one server.

    Attributes:
        client: of the server.
        limiter: of the server.
        timeout_s: for one reply, in seconds.
        retries: attempts after the first that may fail. Being told to wait (429) is none of them,
            but it ends when it has lasted as long as all attempts may.
    """

    client: Client
    limiter: Limiter
    timeout_s: float
    retries: int
    _dialects: dict[str, Dialect] = field(default_factory=dict)
    _broken: dict[str, RagevalError] = field(default_factory=dict)
    _reached: bool = False

    async def send(
        self, request: "Request", *, purchase: Buying = _free, keep: Keeping = _as_it_is
    ) -> "Reply":
        """The server's reply to a request.

        A model that cannot answer at all is asked no more, so that a wrong key is one error and not
        four hundred.

        Args:
            request: to send.
            purchase: around each attempt; what it raises is raised.
            keep: called with the reply before anything else is sent in its place, and before it is counted.

        Returns:
            What `keep` returns.

        Raises:
            ServerError: nothing at this server can answer.
            Unscored: this request failed; the reason.
        """
        dialect = self._dialects.setdefault(request.model, Dialect())
        tokens = prompt_tokens(request.messages, request.parameters) if self.limiter.counts_tokens else 0
        failed: list[Again] = []
        began = 0.0
        while True:
            async with self.limiter.slot(tokens, first=bool(failed)) as slot:
                # Only now: while this waited for its slot, another may have learned something.
                parameters, without = dialect.spoken(request.parameters)
                self._raise_if_broken(request.model)
                try:
                    async with purchase() as bought:
                        reply = await self._attempt(request, parameters, slot, bought)
                        return await keep(replace(reply, without=without) if without else reply)
                except Refused as refused:
                    if not dialect.learn(parameters, refused.answer):
                        raise
                    continue
                except Again as again:
                    began = began or time.monotonic()
                    failed.append(again)
            self._give_up_after(request.model, failed, time.monotonic() - began)
            if failed[-1].wait_s is None or len(failed) > PROMPT:
                # Not all at the same moment, and not in the slot, which others can use meanwhile.
                await asyncio.sleep(_wait(len(failed)))

    async def _attempt(
        self, request: "Request", parameters: Mapping[str, Any], slot: Slot, bought: Purchase
    ) -> "Reply":
        """Send it once, and let the limiter learn from how that went."""
        # Until it is known to be otherwise: of a call that is cancelled, nobody hears whether it was answered.
        bought.billed = True
        try:
            reply, pause = await self.client.complete(request, parameters)
        except Again as again:
            bought.billed = again.why in BILLED
            if again.why in {"throttled", "slow"}:
                self.limiter.congested(slot)
            if again.wait_s is not None:
                self.limiter.pause(again.wait_s)
            raise
        except (RagevalError, Unscored) as error:
            bought.billed = False
            if isinstance(error, RagevalError):
                self._broken[request.model] = error
            raise
        self._reached = True
        bought.reply = reply
        if self.limiter.counts_tokens:
            # What is not reported stays as it was expected.
            tokens_in = reply.tokens_in if reply.counts_in else slot.tokens
            tokens_out = reply.tokens_out if reply.counts_out else count_tokens(reply.text)
            self.limiter.used(slot, tokens_in + tokens_out)
        if time.monotonic() - slot.began > SLOW * self.timeout_s:
            self.limiter.congested(slot)
        else:
            self.limiter.succeeded()
        if pause is not None:
            self.limiter.pause(pause)
        return reply

    def _raise_if_broken(self, model: str) -> None:
        if model in self._broken:
            raise self._broken[model]

    def _give_up_after(self, model: str, failed: Sequence[Again], seconds: float) -> None:
        """Raise what the last failure means for good, if these were enough of them."""
        last = failed[-1]
        counted = sum(again.why != "throttled" for again in failed)
        patience = max(self.timeout_s * (self.retries + 1), LONGEST_WAIT_S)
        if counted <= self.retries and seconds <= patience:
            return
        if last.why in {"unreached", "dropped"} and not self._reached:
            self._broken[model] = self.client.unreachable(last.reason, len(failed))
            raise self._broken[model] from last
        reason = f"{last.reason}, {len(failed)} times"
        raise Unscored(reason) from last


def _wait(failures: int) -> float:
    longest: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, guards nothing
