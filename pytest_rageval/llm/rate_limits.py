"""Rate limits of one server: how many requests are in flight, and how long it asks to wait (429, `Retry-After`).

The number of requests in flight follows TCP: it grows by about one for as many replies as are in flight, and
halves when the server refuses (429, 503) or slows down.
"""

import asyncio
import contextlib
import email.utils
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Limiter", "Slot", "retry_after", "until_reset"]

DECREASE: Final = 0.5
"""The factor of the limit of requests in flight after congestion."""

MAX_WAIT_S: Final = 120.0
"""The longest pause that a header can ask for."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(slots=True)
class Slot:
    """Permission, since `began`, to have one request with so many expected tokens in flight."""

    began: float
    tokens: int


class Limiter:
    """The rate limits of one server, for all tests of a process.

    Args:
        most: requests in flight.
        rpm: requests a minute, evenly spaced; None for no limit.
        tpm: tokens a minute, likewise; estimated before a request, corrected after its reply.

    Attributes:
        limit: how many requests may be in flight now; at least 1.
        in_flight: how many are.
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
        self.in_flight = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are limited, so that requests must be estimated."""
        return self._tpm is not None

    @contextlib.asynccontextmanager
    async def slot(self, tokens: int = 0, *, first: bool = False) -> AsyncIterator[Slot]:
        """Wait until a request may be sent; it is in flight until the block ends. `first` is for retries."""
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
        """A reply came in good time: raise the limit a little."""
        self.limit = min(self._most, self.limit + 1 / self.limit)

    def used(self, slot: Slot, tokens: int) -> None:
        """Correct the expected tokens of a request to those it used."""
        if self._tpm:
            self._next_tokens += (tokens - slot.tokens) * 60 / self._tpm

    def congested(self, slot: Slot) -> None:
        """The server was slow or refused for load: halve the limit, once for all requests in flight together."""
        if slot.began >= self._last_decrease:
            self.limit = max(1.0, self.limit * DECREASE)
            self._last_decrease = time.monotonic()

    def fail_waiting(self, error: Exception) -> None:
        """Raise an error in all requests that wait for a slot."""
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    def pause(self, seconds: float) -> None:
        """Send nothing for so long, as the server has asked."""
        now = time.monotonic()
        if self._not_before <= now:
            self._paused_at = now
        self._not_before = max(self._not_before, now + seconds)

    @property
    def paused_s(self) -> float:
        """How long requests have waited for the end of a pause, in seconds; 0 where none does."""
        now = time.monotonic()
        return now - self._paused_at if self._waiting and self._not_before > now else 0.0

    def _leave(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        """Grant slots to waiting requests, as far as the limits allow now."""
        while self._waiting and self.in_flight < int(self.limit):
            future, tokens = self._waiting[0]
            if future.done():
                self._waiting.popleft()
                continue
            now = time.monotonic()
            earliest = max(self._not_before, self._next_request, self._next_tokens)
            if earliest > now:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_later(earliest - now, self._admit)
                return
            self._waiting.popleft()
            self.in_flight += 1
            if self._rpm:
                self._next_request = max(now, self._next_request) + 60 / self._rpm
            if self._tpm:
                self._next_tokens = max(now, self._next_tokens) + tokens * 60 / self._tpm
            future.set_result(Slot(now, tokens))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a refusal asks to wait: `retry-after-ms`, `retry-after` or an exhausted limit.

    >>> retry_after({"retry-after": "2"}), retry_after({})
    (2.0, None)
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    header = headers.get("retry-after")
    seconds = _number(header)
    if seconds is not None:
        return _bounded(seconds)
    date = _date(header or "")
    return until_reset(headers) if date is None else _bounded(date - time.time())


def until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until an exhausted limit is reset, by the `x-ratelimit-…` headers.

    None where `x-ratelimit-remaining-requests` and `-tokens` are above 0 or missing. The reset is a
    duration such as `6m0s` or `20ms`, or a number of seconds.

    >>> until_reset({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"})
    62.0
    """
    waits = []
    for kind in ("requests", "tokens"):
        remaining = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
        if remaining is not None and remaining <= 0:
            reset = _duration(headers.get(f"x-ratelimit-reset-{kind}") or "")
            if reset is not None:
                waits.append(_bounded(reset))
    return max(waits, default=None)


def _duration(text: str) -> float | None:
    plain = _number(text)
    if plain is not None:
        return plain
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def _date(text: str) -> float | None:
    try:
        parsed = email.utils.parsedate_tz(text)
        return None if parsed is None else email.utils.mktime_tz(parsed)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value >= 0 else None


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), MAX_WAIT_S)
