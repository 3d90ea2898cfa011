"""How fast one server is asked: as many at once as it bears, and not before it wants to be asked again.

Additive increase, multiplicative decrease, as in TCP: the number of requests in
flight halves when the server says that it is too much (429, 503), or is slow,
and grows by about one for as many replies as are in flight.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Limiter", "Slot"]

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
