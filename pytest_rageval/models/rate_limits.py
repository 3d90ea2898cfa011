"""Rate limits of one server, and the timer and the messages for a server that does not answer.

A request that is refused for load (429, 503) waits, and other requests are still sent: some gateways refuse one request
in ten at any load. If the share of refused requests is above `CONGESTION_SHARE`, the limit of requests in flight is
halved, as in the congestion control of TCP. If it is above `PAUSE_SHARE`, or the headers say that the server's limit is
used up, all requests wait.
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

from pytest_rageval.lib.text import counted

DECREASE_FACTOR: Final = 0.5  # of the limit of requests in flight, at congestion
CONGESTION_SHARE: Final = 0.3  # the share of refused requests above which the limit is decreased
PAUSE_SHARE: Final = 0.5  # the share of refused requests above which all requests wait
AVERAGED_REQUESTS: Final = 20
"""The share of refused requests is averaged over these. 10% random refusals seldom reach `CONGESTION_SHARE`."""

MAX_WAIT_S: Final = 120.0  # the longest wait that a header can set
ANNOUNCE_AFTER_S: Final = 20.0  # a stall is announced after this time
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(slots=True)
class Slot:
    began: float  # when it was granted, of `time.monotonic`
    tokens: int  # the estimated tokens of the request


class Limiter:
    """The rate limits of one server, for all tests of a process.

    Requests per minute (`rpm`) are evenly spaced. Tokens per minute (`tpm`) are estimated before a request, and
    corrected after its reply.
    """

    def __init__(self, max_in_flight: int, *, rpm: float | None = None, tpm: float | None = None) -> None:
        self._max_in_flight = max_in_flight
        self._rpm = rpm
        self._tpm = tpm
        self._waiting: deque[tuple[asyncio.Future[Slot], int]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0
        self._paused_at = 0.0
        self._next_request = 0.0
        self._next_tokens = 0.0
        self._last_decrease = 0.0
        self._replied = True  # whether a reply was received since the last decrease
        self._averaged_requests = max(8, min(max_in_flight, AVERAGED_REQUESTS))
        # A moving average. It begins so high that the first refusal counts as congestion.
        self._refused_share = CONGESTION_SHARE
        self.limit: float = float(max_in_flight)  # the current limit of requests in flight; at least 1
        self.in_flight: int = 0

    @property
    def counts_tokens(self) -> bool:
        return self._tpm is not None

    @contextlib.asynccontextmanager
    async def slot(self, tokens: int = 0, *, first: bool = False) -> AsyncIterator[Slot]:
        """Wait until a request of about so many tokens may be sent; it counts as in flight until the block ends."""
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        add = self._waiting.appendleft if first else self._waiting.append
        add((future, tokens))
        self._admit()
        try:
            slot = await future
        except asyncio.CancelledError:
            # Release a slot that was granted before the cancellation; a waiter that `fail_waiting` ended has none.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._leave()
            raise
        try:
            yield slot
        finally:
            self._leave()

    def record_success(self) -> None:
        """Record a reply in good time: raise the limit a little, no faster than the average of refusals adapts."""
        self._refused_share -= self._refused_share / self._averaged_requests
        self._replied = True
        self.limit = min(self._max_in_flight, self.limit + 1 / max(self.limit, self._averaged_requests))

    def record_refusal(self, slot: Slot, seconds: float, *, exhausted: bool = False) -> None:
        """Record that a request was refused for load; `exhausted`: the server's limit is used up, for all requests."""
        self._refused_share += (1 - self._refused_share) / self._averaged_requests
        if exhausted or self._refused_share > PAUSE_SHARE:
            self.pause(seconds)
        # The limit is decreased once until the next reply: pauses slow down a server that refuses everything.
        if self._replied and (exhausted or self._refused_share > CONGESTION_SHARE):
            self.decrease_limit(slot)

    def correct_tokens(self, slot: Slot, tokens: int) -> None:
        if self._tpm:
            self._next_tokens += (tokens - slot.tokens) * 60 / self._tpm

    def decrease_limit(self, slot: Slot) -> None:
        """Halve the limit because of congestion, once for all requests that were in flight together."""
        if slot.began >= self._last_decrease:
            self._replied = False
            self.limit = max(1.0, self.limit * DECREASE_FACTOR)
            self._last_decrease = time.monotonic()

    def fail_waiting(self, error: Exception) -> None:
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    def pause(self, seconds: float) -> None:
        now = time.monotonic()
        if self._not_before <= now:
            self._paused_at = now
        self._not_before = max(self._not_before, now + seconds)

    @property
    def paused_s(self) -> float:
        """The seconds for which requests have been waiting for the end of a pause; 0 if none is waiting."""
        now = time.monotonic()
        return now - self._paused_at if self._waiting and self._not_before > now else 0.0

    def _leave(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
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
    """Measures how long requests have waited for one server without any success; calls `give_up` after the patience.

    The time starts when the first attempt that fails is sent, and a success resets it. It stops while no request is
    waiting.
    """

    def __init__(self, patience_s: float, give_up: Callable[[], None]) -> None:
        self.patience_s = patience_s
        self._give_up = give_up
        self._succeeded_at = 0.0
        self._elapsed_s = 0.0
        self._runs_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.last_failure: str = ""  # the reason of the last failure; "" after a success
        self.requests: int = 0  # number of requests that are waiting for the server

    @property
    def elapsed_s(self) -> float:
        runs_since = self._runs_since
        return self._elapsed_s + (0.0 if runs_since is None else time.monotonic() - runs_since)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        self.requests += 1
        if self.last_failure:
            self._start()
        try:
            yield
        finally:
            self.requests -= 1
            if not self.requests:
                self._stop()

    def record_failure(self, sent_at: float, reason: str) -> None:
        if not self.last_failure:
            self._elapsed_s = time.monotonic() - max(sent_at, self._succeeded_at)
        self.last_failure = reason
        self._start()

    def record_success(self) -> None:
        self._stop()
        self._elapsed_s, self.last_failure = 0.0, ""
        self._succeeded_at = time.monotonic()

    def _start(self) -> None:
        if self._runs_since is None:
            self._runs_since = time.monotonic()
            remaining_s = max(0.0, self.patience_s - self._elapsed_s)
            self._timer = asyncio.get_running_loop().call_later(remaining_s, self._give_up)

    def _stop(self) -> None:
        self._elapsed_s, self._runs_since = self.elapsed_s, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@dataclass(frozen=True, slots=True)
class Stall:
    url: str  # without secrets
    reason: str  # why the requests wait, such as the server's last answer
    requests: int
    seconds: float  # for which they have been waiting
    patience_s: float | None = None  # after which the server is given up; None if it has refused no request

    def has_lasted(self, seconds: float) -> bool:
        """Whether the stall has lasted for this time, or for a third of the patience if that is less."""
        return self.seconds >= (seconds if self.patience_s is None else min(seconds, self.patience_s / 3))

    def __str__(self) -> str:
        requests = counted(self.requests, "request")
        limit = "" if self.patience_s is None else f"of at most {self.patience_s:g} "
        # The reason is at the end: it is long, and the terminal may be narrow.
        return f"waiting for {self.url} ({requests}, {self.seconds:.0f} {limit}s): {self.reason}"


class StallNotifier:
    """Prints one line for each stalled server, again after it has answered in the meantime."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line
        self._announced: set[str] = set()

    def __call__(self, stalls: Sequence[Stall]) -> None:
        self._announced &= {stall.url for stall in stalls}
        for stall in stalls:
            if stall.url not in self._announced and stall.has_lasted(ANNOUNCE_AFTER_S):
                self._announced.add(stall.url)
                self._print_line(f"rageval: {stall}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds that a refusal requests: `retry-after-ms`, `retry-after` or an exhausted limit.

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
