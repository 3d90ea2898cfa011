"""Servers that refuse requests for different reasons: how many requests are refused, and how long a run takes."""

import asyncio
import itertools
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_rageval.models import rate_limits, sender
from pytest_rageval.models.client import Client, RetryableError
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.rate_limits import Limiter
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.virtual_time import Clock

REPLY = Reply("fine", "m")
ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},))
LATENCY_S = 0.1

Refuse = Callable[[float], RetryableError | None]


def busy(wait_s: float | None = None, *, exhausted: bool = False) -> RetryableError:
    return RetryableError("the server answered 429: busy", "throttled", wait_s, exhausted)


@dataclass
class Outcome:
    """The duration of a run in seconds, its refused and lost requests, and the final limit."""

    seconds: float
    refused: int
    lost: int
    limit: float


class _Server(Client):
    """A client that replies or refuses after a delay, as a function of the time decides."""

    limiter: Limiter  # of its sender

    def __init__(self, clock: Clock, refuse: Refuse) -> None:
        super().__init__(RemoteServer("http://it/v1"), timeout_s=60)
        self._clock = clock
        self._refuse = refuse
        self._began = clock.now
        self.refused = 0
        self.in_flight = 0

    async def complete(self, *_: object) -> tuple[Reply, float | None]:
        await asyncio.sleep(LATENCY_S * random.uniform(0.7, 1.3))
        refusal = self._refuse(self._clock.now - self._began)
        if refusal is not None:
            self.refused += 1
            raise refusal
        return REPLY, None


def outcome(
    refuse: Refuse, requests: int, *, most: int = 20, seed: int = 0, kind: type[_Server] = _Server
) -> Outcome:
    random.seed(seed)
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        for module in (rate_limits, sender):
            patch.setattr(module, "time", clock)
        server = kind(clock, refuse)
        server_sender = Sender(server, Limiter(most), 60.0, 4, 3600.0)
        server.limiter, began = server_sender.limiter, clock.now

        async def main() -> list[Any]:
            return await asyncio.gather(
                *(server_sender.send(ASKED) for _ in range(requests)), return_exceptions=True
            )

        replies = clock.run(main())
    lost = sum(reply != REPLY for reply in replies)
    return Outcome(clock.now - began, server.refused, lost, server_sender.limiter.limit)


class Bucket:
    """A hard limit: `size` requests at once, and `rate` requests per second after that."""

    def __init__(self, rate: float, size: int, wait: Callable[[float], float | None]) -> None:
        self._rate, self._size, self._wait = rate, size, wait
        self._left, self._at = float(size), 0.0

    def __call__(self, now: float) -> RetryableError | None:
        self._left = min(self._size, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return None
        return busy(self._wait((1 - self._left) / self._rate))


def every_tenth(wait_s: float | None) -> Refuse:
    numbers = itertools.count(1)
    return lambda _: None if next(numbers) % 10 else busy(wait_s)


def at_random(wait_s: float | None) -> Refuse:
    return lambda _: busy(wait_s) if random.random() < 0.1 else None


def test_requests_that_are_refused_together_do_not_return_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that got the same Retry-After are sent again after that time, each at a different time."""
    monkeypatch.setattr(f"{__name__}.LATENCY_S", 0.0)
    times = list[float]()

    def refuse(now: float) -> RetryableError | None:
        times.append(now)
        return busy(4.0) if now < 4 else None

    assert outcome(refuse, 20).refused == 20
    retry_times = times[20:]
    assert min(retry_times) >= 4
    assert len(set(retry_times)) == 20
    assert statistics.pstdev(retry_times) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("refuse", [every_tenth, at_random])
@pytest.mark.parametrize("wait_s", [None, 1.0])
def test_requests_that_are_refused_alone_wait_alone(refuse, wait_s):
    """If a server refuses one request in ten, the others are sent as before, except after a series of refusals."""
    undisturbed = outcome(lambda _: None, 1000)
    results = [outcome(refuse(wait_s), 1000, seed=seed) for seed in range(3)]
    assert {result.lost for result in results} == {0}
    assert statistics.median(result.refused for result in results) == pytest.approx(111, rel=0.1)
    assert statistics.median(result.seconds for result in results) < 2 * undisturbed.seconds


def test_a_long_wait_of_one_is_not_that_of_all() -> None:
    assert 20 <= outcome(every_tenth(20.0), 100).seconds < 45


@pytest.mark.parametrize("wait_s", [None, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("begins", [0.0, 1.0])
def test_a_server_that_refuses_all_for_two_seconds(begins: float, wait_s: float | None) -> None:
    result = outcome(lambda now: busy(wait_s) if begins <= now < begins + 2 else None, 2000)
    assert result.lost == 0
    assert 20 <= result.refused < 60
    assert result.seconds < 2 * outcome(lambda _: None, 2000).seconds


@pytest.mark.parametrize(("stated", "fewest", "most"), [(True, 0, 20), (False, 10, 40)])
def test_a_limit_that_is_stated_stops_all_at_once_and_another_soon(stated, fewest, most):
    """Without headers that say so, about as many are refused as are averaged."""
    result = outcome(lambda now: busy(5.0 - now, exhausted=stated) if 0.5 < now < 5 else None, 1000)
    assert result.lost == 0
    assert fewest <= result.refused <= most


def test_fewer_are_sent_at_once_where_many_are_refused() -> None:
    limits: list[float] = []

    class Crowded(_Server):
        async def complete(self, *_: object) -> tuple[Reply, float | None]:
            limits.append(self.limiter.limit)
            if self.in_flight == 8:
                self.refused += 1
                raise busy()
            self.in_flight += 1
            try:
                await asyncio.sleep(LATENCY_S)
            finally:
                self.in_flight -= 1
            return REPLY, None

    result = outcome(lambda _: None, 1000, seed=1, kind=Crowded)
    assert result.lost == 0
    assert result.refused < 200
    assert statistics.median(limits) < 12
    assert result.seconds < 1.5 * 1000 / 8 * LATENCY_S


WAITS: dict[str, Callable[[float], float | None]] = {
    "exact": lambda seconds: seconds,
    "a second": lambda _: 1.0,
    "longer": lambda seconds: seconds + 5,
    "unknown": lambda _: None,
    "now": lambda _: 0.0,
}


@given(
    rate=st.floats(0.5, 200),
    size=st.integers(1, 100),
    most=st.integers(1, 200),
    wait=st.sampled_from(sorted(WAITS)),
)
@example(rate=0.5, size=1, most=200, wait="unknown")
@example(rate=0.5, size=5, most=64, wait="now")
@example(rate=10, size=1, most=200, wait="exact")
@settings(max_examples=30)
@pytest.mark.slow
def test_refusals_are_bounded_under_a_hard_limit(rate: float, size: int, most: int, wait: str) -> None:
    """The bound is two per request in flight, one per reply, and four per second."""
    result = outcome(Bucket(rate, size, WAITS[wait]), 100, most=most)
    assert result.lost == 0
    assert result.refused <= 2 * min(most, 100) + 100 + 4 * result.seconds
