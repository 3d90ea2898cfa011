"""From a request to a paid reply: rate limits, retries, and parameters that the server refuses.

The number of requests in flight follows TCP: it grows by about one for as many replies as are in flight, and
halves when the server refuses (429, 503) or slows down.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.errors import RagevalError, ServerError, Unscored
from pytest_rageval.llm.budget import Purchase
from pytest_rageval.llm.client import Client, Refused, RetryableError
from pytest_rageval.llm.messages import Reply, TooLarge
from pytest_rageval.llm.patience import Patience, Wait
from pytest_rageval.llm.tokens import count_tokens, prompt_tokens
from pytest_rageval.llm.unsupported_params import UnsupportedParams

if TYPE_CHECKING:
    from pytest_rageval.llm.messages import Request

__all__ = ["Limiter", "Sender", "Slot"]

DECREASE: Final = 0.5


@dataclass(slots=True)
class Slot:
    """The right to have one request in flight.

    Attributes:
        began: when it was given, by the event loop's kind of clock.
        tokens: that the request was expected to use.
    """

    began: float
    tokens: int


class Limiter:
    """Of one server, for all tests of a process.

    Args:
        most: requests in flight.
        rpm: requests a minute, evenly spaced; None for no limit.
        tpm: tokens a minute, likewise; counted before a request, corrected after its reply.
    """

    def __init__(self, most: int, *, rpm: float | None = None, tpm: float | None = None) -> None:
        self._most = most
        self._rpm = rpm
        self._tpm = tpm
        self._waiting: deque[tuple[asyncio.Future[Slot], int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._paused_at = 0.0
        self._next_request = 0.0
        self._next_tokens = 0.0
        self._last_decrease = 0.0
        self.limit = float(most)
        """How many requests may be in flight now; at least 1."""
        self.in_flight = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether it matters how many tokens a request is expected to use."""
        return self._tpm is not None

    @contextlib.asynccontextmanager
    async def slot(self, tokens: int = 0, *, first: bool = False) -> AsyncIterator[Slot]:
        """Wait until a request may be sent; it is in flight until the block ends.

        Args:
            tokens: that it is expected to use.
            first: before those who wait already: it was sent before and refused.
        """
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft((future, tokens))
        else:
            self._waiting.append((future, tokens))
        self._admit()
        try:
            slot = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave()
            raise
        try:
            yield slot
        finally:
            self._leave()

    def succeeded(self) -> None:
        """A reply came in good time: room for a little more."""
        self.limit = min(self._most, self.limit + 1 / self.limit)

    def used(self, slot: Slot, tokens: int) -> None:
        """A request used so many tokens, which may not be as many as were expected."""
        if self._tpm:
            self._next_tokens += (tokens - slot.tokens) * 60 / self._tpm

    def congested(self, slot: Slot) -> None:
        """The server refused for being busy, or was slow: half as many at once.

        Only once for what was in flight together: sixteen refusals are one event.
        """
        if slot.began >= self._last_decrease:
            self.limit = max(1.0, self.limit * DECREASE)
            self._last_decrease = time.monotonic()

    def turn_away(self, error: Exception) -> None:
        """Raise an error where requests wait for a slot now."""
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the server said when it will answer again."""
        now = time.monotonic()
        if self._not_before <= now:
            self._paused_at = now
        self._not_before = max(self._not_before, now + seconds)

    @property
    def paused_s(self) -> float:
        """For how long nothing is sent by now, where requests wait for the end of a pause; else 0."""
        now = time.monotonic()
        return now - self._paused_at if self._waiting and self._not_before > now else 0.0

    def _leave(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        """Give slots to those who wait, as far as the limits allow now."""
        while self._waiting and self.in_flight < int(self.limit):
            future, tokens = self._waiting[0]
            if future.done():
                self._waiting.popleft()
                continue
            now = time.monotonic()
            earliest = max(self._not_before, self._next_request, self._next_tokens)
            if earliest > now:
                self._admit_in(earliest - now)
                return
            self._waiting.popleft()
            self.in_flight += 1
            if self._rpm:
                self._next_request = max(now, self._next_request) + 60 / self._rpm
            if self._tpm:
                self._next_tokens = max(now, self._next_tokens) + tokens * 60 / self._tpm
            future.set_result(Slot(now, tokens))

    def _admit_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._admit)


FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 8.0

PROMPT: Final = 8
"""So often is asked again as soon as the server wants it; one that says "now" every time is not believed."""

SLOW: Final = 0.5
"""The share of the timeout after which a reply counts as slow."""


BILLED: Final = {"slow", "garbled", "dropped"}
"""Kinds of failure after which the server may still count the attempt."""

Buying = Callable[[], AbstractAsyncContextManager[Purchase]]

Keeping = Callable[[Reply], Awaitable[Reply]]


@contextlib.asynccontextmanager
async def _free() -> AsyncIterator[Purchase]:
    """Where nobody counts."""
    yield Purchase()


async def _as_it_is(reply: Reply) -> Reply:
    """Where nobody keeps."""
    return reply


@dataclass
class Sender:
    """All requests of this process to one server.

    Attributes:
        client: of the server.
        limiter: of the server.
        timeout_s: for one reply, in seconds.
        retries: attempts after the first that may fail. Being told to wait (429, 503) is none of them.
        patience_s: for so long a request is repeated that is told to wait. The server itself is given
            up when no request at all has succeeded for so long.
    """

    client: Client
    limiter: Limiter
    timeout_s: float
    retries: int
    patience_s: float = 300.0
    _dialects: dict[str, UnsupportedParams] = field(default_factory=dict)
    _broken: dict[str, RagevalError] = field(default_factory=dict)
    _reached: bool = False
    _patience: Patience = field(init=False)
    _given_up: ServerError | None = None
    _asked_at: float | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._patience = Patience(self.patience_s, self._give_up)

    async def send(self, request: "Request", *, purchase: Buying = _free, keep: Keeping = _as_it_is) -> Reply:
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
            ServerError: nothing at this server can answer, or it has answered nothing for too long.
            Unscored: this request failed; the reason.
        """
        with self._patience.waiting():
            return await self._send(request, purchase, keep)

    @property
    def wait(self) -> Wait | None:
        """What is waited for: a server that refuses, or says nothing, or wants to be asked later; or None."""
        patience = self._patience
        if not patience.requests or self._given_up is not None:
            return None
        url, requests = self.client.url, patience.requests
        if patience.last:
            return Wait(url, patience.last, requests, patience.spent, patience.seconds)
        if self._asked_at is not None:
            return Wait(url, "no answer yet", requests, time.monotonic() - self._asked_at)
        paused_s = self.limiter.paused_s
        later = "its limit is used up, it wants to be asked later"
        return Wait(url, later, requests, paused_s) if paused_s else None

    async def _send(self, request: "Request", purchase: Buying, keep: Keeping) -> Reply:
        dialect = self._dialects.setdefault(request.model, UnsupportedParams())
        tokens = prompt_tokens(request.messages, request.parameters) if self.limiter.counts_tokens else 0
        failed: list[RetryableError] = []
        began = 0.0
        while True:
            self._raise_if_broken(request.model)
            async with self.limiter.slot(tokens, first=bool(failed)) as slot:
                # Again: while this waited for its slot, another may have learned something.
                self._raise_if_broken(request.model)
                parameters, without = dialect.spoken(request.parameters)
                try:
                    async with purchase() as bought:
                        reply = await self._attempt(request, parameters, slot, bought)
                        return await keep(replace(reply, without=without) if without else reply)
                except Refused as refused:
                    if not dialect.learn(parameters, refused.answer):
                        raise
                    continue
                except RetryableError as again:
                    began = began or time.monotonic()
                    failed.append(again)
                    self._patience.failed(slot.began, again.reason)
            self._give_up_after(request.model, failed, time.monotonic() - began)
            if failed[-1].wait_s is None or len(failed) > PROMPT:
                # Not all at the same moment, and not in the slot, which others can use meanwhile.
                await self._sleep(_wait(len(failed)))

    async def _attempt(
        self, request: "Request", parameters: Mapping[str, Any], slot: Slot, bought: Purchase
    ) -> Reply:
        """Send it once, and let the limiter learn from how that went."""
        if self._asked_at is None:
            self._asked_at = slot.began
        # Until it is known to be otherwise: of a call that is cancelled, nobody hears whether it was answered.
        bought.billed = True
        try:
            reply, pause = await self.client.complete(request, parameters)
        except RetryableError as again:
            bought.billed = again.why in BILLED
            if again.why in {"throttled", "slow"}:
                self.limiter.congested(slot)
            if again.wait_s is not None:
                self.limiter.pause(again.wait_s)
            raise
        except (RagevalError, Unscored) as error:
            bought.billed = isinstance(error, TooLarge)
            if isinstance(error, RagevalError):
                self._broken[request.model] = error
            raise
        finally:
            # The others in flight have been asked by now.
            self._asked_at = time.monotonic() if self.limiter.in_flight > 1 else None
        self._reached = True
        self._patience.succeeded()
        self._given_up = None
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

    async def _sleep(self, seconds: float) -> None:
        """Until the seconds are over, or the server is given up."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)

    def _give_up(self) -> None:
        """End all requests that wait. Those in flight may still succeed, which shows that the server works."""
        patience = self._patience
        self._given_up = self.client.silent(patience.last, patience.requests, patience.seconds)
        self.limiter.turn_away(self._given_up)
        self._woken.set()
        self._woken = asyncio.Event()

    def _raise_if_broken(self, model: str) -> None:
        broken = self._broken.get(model) or self._given_up
        if broken is not None:
            raise broken

    def _give_up_after(self, model: str, failed: Sequence[RetryableError], seconds: float) -> None:
        """Raise what the last failure means for good, if these were enough of them."""
        last = failed[-1]
        if self._given_up is not None:
            raise self._given_up from last
        counted = sum(again.why != "throttled" for again in failed)
        if counted <= self.retries and seconds <= self.patience_s:
            return
        if last.why in {"unreached", "dropped"} and not self._reached:
            self._broken[model] = self.client.unreachable(last.reason, len(failed))
            raise self._broken[model] from last
        reason = f"{last.reason}, {len(failed)} times"
        raise Unscored(reason) from last


def _wait(failures: int) -> float:
    longest: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, guards nothing
