"""Rate limits of one server, how long it asks to wait (429, `Retry-After`), and how long it is waited for.

A request that is refused (429, 503) waits, and the others go on: a gateway may refuse one in ten however few it gets.
Where many of the recent requests are refused, the number in flight halves, as it does in TCP. Where most are, or where
the server's headers say that its limit is used up, all requests wait.
"""

import asyncio
import contextlib
import email.utils
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Limiter", "OutageTimer", "Slot", "Stall", "StallNotifier", "retry_after", "until_reset"]

DECREASE: Final = 0.5  # the factor of the limit of requests in flight after congestion
MANY: Final = 0.3  # the share of recent requests refused above which fewer are sent at once
MOST: Final = 0.5  # the share above which all wait
RECENT: Final = 20  # requests over which the share is averaged; of 10% at random that is seldom MANY
MAX_WAIT_S: Final = 120.0  # the longest pause that a header can ask for
ANNOUNCED_AFTER_S: Final = 20.0
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
        self._replied = True  # whether a reply came since then
        self._recent = max(8, min(most, RECENT))
        self._refused = MANY  # a moving average; the first refusal of a server that never answered counts
        self.limit = float(most)  # how many requests may be in flight now; at least 1
        self.in_flight = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are limited, so that requests must be estimated."""
        return self._tpm is not None

    @contextlib.asynccontextmanager
    async def slot(self, tokens: int = 0, *, first: bool = False) -> AsyncIterator[Slot]:
        """Wait until a request may be sent; it is in flight until the block ends. `first` is for retries."""
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        add = self._waiting.appendleft if first else self._waiting.append
        add((future, tokens))
        self._admit()
        try:
            slot = await future
        except asyncio.CancelledError:
            # Cancelled after the slot was granted; a waiter that `fail_waiting` has ended never had one.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._leave()
            raise
        try:
            yield slot
        finally:
            self._leave()

    def succeeded(self) -> None:
        """A reply came in good time: raise the limit a little, no faster than the share of refusals is known."""
        self._refused -= self._refused / self._recent
        self._replied = True
        self.limit = min(self._most, self.limit + 1 / max(self.limit, self._recent))

    def refused(self, slot: Slot, seconds: float, *, exhausted: bool = False) -> None:
        """A request was refused for load, and waits for so long; `exhausted` where the server's limit is used up."""
        self._refused += (1 - self._refused) / self._recent
        if exhausted or self._refused > MOST:
            self.pause(seconds)
        # A server that refuses everything is asked less by pauses. Its limit is unknown until it answers again.
        if self._replied and (exhausted or self._refused > MANY):
            self.congested(slot)

    def used(self, slot: Slot, tokens: int) -> None:
        """Correct the expected tokens of a request to those it used."""
        if self._tpm:
            self._next_tokens += (tokens - slot.tokens) * 60 / self._tpm

    def congested(self, slot: Slot) -> None:
        """The server has too much to do: halve the limit, once for all requests in flight together."""
        if slot.began >= self._last_decrease:
            self._replied = False
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


class OutageTimer:
    """A stopwatch for one server: it runs while requests wait and none of them succeeds.

    It starts at the sending of the first attempt that fails, and a success resets it. It is stopped while no
    request waits. After so many seconds it calls `give_up`.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.seconds = seconds
        self._give_up = give_up
        self._succeeded_at = 0.0
        self._spent = 0.0
        self._runs_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.last = ""  # the server's last answer where that was a failure
        self.requests = 0  # how many requests wait for the server

    @property
    def spent(self) -> float:
        """The seconds without a success so far."""
        runs_since = self._runs_since
        return self._spent + (0.0 if runs_since is None else time.monotonic() - runs_since)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """One request waits for the server until the block ends."""
        self.requests += 1
        if self.last:
            self._start()
        try:
            yield
        finally:
            self.requests -= 1
            if not self.requests:
                self._stop()

    def failed(self, sent_at: float, answer: str) -> None:
        """An attempt that was sent at this time has failed."""
        if not self.last:
            self._spent = time.monotonic() - max(sent_at, self._succeeded_at)
        self.last = answer
        self._start()

    def succeeded(self) -> None:
        """A reply came."""
        self._stop()
        self._spent, self.last = 0.0, ""
        self._succeeded_at = time.monotonic()

    def _start(self) -> None:
        if self._runs_since is None:
            self._runs_since = time.monotonic()
            left = max(0.0, self.seconds - self._spent)
            self._timer = asyncio.get_running_loop().call_later(left, self._give_up)

    def _stop(self) -> None:
        self._spent, self._runs_since = self.spent, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@dataclass(frozen=True, slots=True)
class Stall:
    """A server that requests wait for."""

    url: str  # without secrets
    last: str  # its last answer
    requests: int  # how many wait
    seconds: float  # for how long
    patience_s: float | None = (
        None  # after which the server is given up; None where it has refused no request
    )

    def lasts(self, seconds: float) -> bool:
        """Whether it has lasted for so long, or for a third of the patience where that is less."""
        return self.seconds >= (seconds if self.patience_s is None else min(seconds, self.patience_s / 3))

    def __str__(self) -> str:
        requests = f"{self.requests} {'request' if self.requests == 1 else 'requests'}"
        most = "" if self.patience_s is None else f"of at most {self.patience_s:g} "
        # The answer comes last: a terminal may be too narrow for it.
        return f"waiting for {self.url} ({requests}, {self.seconds:.0f} {most}s): {self.last}"


class StallNotifier:
    """Prints (`say`) a line for each server that keeps requests waiting, once until it answers again."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._announced: set[str] = set()

    def __call__(self, waits: Sequence[Stall]) -> None:
        """Announce the new waits that have lasted long enough."""
        self._announced &= {wait.url for wait in waits}
        for wait in waits:
            if wait.url not in self._announced and wait.lasts(ANNOUNCED_AFTER_S):
                self._announced.add(wait.url)
                self._say(f"rageval: {wait}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a refusal asks to wait: `retry-after-ms`, `retry-after` or an exhausted limit.

    >>> retry_after({"retry-after": "2"}), retry_after({})
    (2.0, None)
    """
    milliseconds, header = _number(headers.get("retry-after-ms")), headers.get("retry-after")
    seconds = _number(header) if milliseconds is None else milliseconds / 1000
    if seconds is None and (date := _date(header or "")) is not None:
        seconds = date - time.time()
    return until_reset(headers) if seconds is None else _bounded(seconds)


def until_reset(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until an exhausted limit (`x-ratelimit-remaining-…` is 0) is reset; None without one.

    The reset is a duration such as `6m0s` or `20ms`, or a number of seconds.

    >>> until_reset({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"})
    62.0
    """
    waits = []
    for kind in ("requests", "tokens"):
        reset = _duration(headers.get(f"x-ratelimit-reset-{kind}") or "")
        if _number(headers.get(f"x-ratelimit-remaining-{kind}")) == 0 and reset is not None:
            waits.append(_bounded(reset))
    return max(waits, default=None)


def _duration(text: str) -> float | None:
    if re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    return _number(text)


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
