"""The patience with a server that answers no request, tested in simulated time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pytest_rageval.core.errors import ServerError, Unscored
from pytest_rageval.models import rate_limits, sender
from pytest_rageval.models.client import Client, RetryableError
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.rate_limits import Limiter, Stall, StallNotifier
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.virtual_time import Clock

REPLY = Reply("fine", "m")
PATIENCE_S = 300.0
ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},))

Answers = Callable[[], Coroutine[Any, Any, Reply]]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (rate_limits, sender):
        monkeypatch.setattr(module, "time", clock)
    return clock


class _Client(Client):
    def __init__(self, answer: Answers) -> None:
        super().__init__(RemoteServer("http://it/v1"), timeout_s=60)
        self._answer = answer
        self.attempts = 0

    async def complete(self, *_: object) -> tuple[Reply, float | None]:
        self.attempts += 1
        return await self._answer(), None


def _sender(answer: Answers, *, most: int = 16, patience_s: float = PATIENCE_S, retries: int = 4) -> Sender:
    return Sender(_Client(answer), Limiter(most), 60.0, retries, patience_s)


async def _outcomes(sender: Sender, n: int) -> list[Any]:
    return await asyncio.gather(*(sender.send(ASKED) for _ in range(n)), return_exceptions=True)


def _failing(why: Any = "throttled", *, delay_s: float = 0.1, wait_s: float | None = None) -> Answers:
    async def answer() -> Reply:
        await asyncio.sleep(delay_s)
        raise RetryableError("the server answered 429: busy", why, wait_s=wait_s)

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("wait_s", [None, 0.0, 1.0, 120.0])
@pytest.mark.parametrize("n", [1, 48, 1000])
async def test_a_server_that_refuses_for_ever_is_waited_for_once(clock, n, wait_s):
    server_sender = _sender(_failing(wait_s=wait_s))
    began = clock.now
    outcomes = await _outcomes(server_sender, n)
    assert clock.now - began == pytest.approx(PATIENCE_S, abs=1.0)
    (outcome_text,) = {(type(outcome), str(outcome)) for outcome in outcomes}
    assert outcome_text[0] is ServerError
    assert outcome_text[1].startswith(
        f"The server at http://it/v1 answered nothing for 300 s, while {n} request{'s' if n > 1 else ''} waited "
        "(last: the server answered 429: busy).\n"
    )
    assert "--rageval patience=SECONDS" in outcome_text[1]
    assert server_sender.limiter.in_flight == 0


async def test_a_later_test_does_not_wait_for_a_server_that_was_given_up(clock: Clock) -> None:
    server_sender = _sender(_failing())
    await _outcomes(server_sender, 4)
    attempts, began = server_sender.client.attempts, clock.now
    (outcome,) = await _outcomes(server_sender, 1)
    assert isinstance(outcome, ServerError)
    assert (server_sender.client.attempts, round(clock.now - began)) == (attempts, 0)


async def test_one_success_sets_the_stopwatch_back(clock: Clock) -> None:
    """A success restarts the patience: a server that answers one request every 200 s is not given up."""
    times: list[float] = []

    async def seldom() -> Reply:
        await asyncio.sleep(0.1)
        if clock.now - (times[-1] if times else 1000.0) < 200:
            raise RetryableError("the server answered 429: busy", "throttled", wait_s=1.0)
        times.append(clock.now)
        return REPLY

    server_sender = _sender(seldom)
    assert [await server_sender.send(ASKED) for _ in range(4)] == [REPLY] * 4
    assert times[-1] - 1000 > 2 * PATIENCE_S


async def test_a_request_that_is_refused_for_ever_is_unscored_where_others_succeed() -> None:
    class _Picky(_Client):
        async def complete(self, request: Request, *_: object) -> tuple[Reply, float | None]:
            await asyncio.sleep(0.1)
            if request.model == "poison":
                raise RetryableError("the server answered 429: too large", "throttled")
            return REPLY, None

    server_sender = Sender(_Picky(_failing()), Limiter(4), 60.0, 4, PATIENCE_S)
    poison = asyncio.create_task(server_sender.send(Request("u", "poison", ASKED.messages)))
    while not poison.done():
        assert await server_sender.send(ASKED) == REPLY
        await asyncio.sleep(5)
    with pytest.raises(Unscored, match=r"^the server answered 429: too large, "):
        await poison


async def test_a_failure_counts_from_the_last_success(clock: Clock) -> None:
    delays = iter([250.0])

    class _Slow(_Client):
        async def complete(self, request: Request, *_: object) -> tuple[Reply, float | None]:
            if request == ASKED:
                return REPLY, None
            await asyncio.sleep(next(delays, 0.1))
            raise RetryableError("the server answered 429: busy", "throttled")

    server_sender = Sender(_Slow(_failing()), Limiter(4), 600.0, 4, PATIENCE_S)
    began = clock.now
    slow = asyncio.create_task(server_sender.send(Request("u", "slow", ASKED.messages)))
    await asyncio.sleep(240)
    assert await server_sender.send(ASKED) == REPLY
    with pytest.raises(ServerError):
        await slow
    assert clock.now - began == pytest.approx(240 + PATIENCE_S, abs=2)


@pytest.mark.parametrize("why", ["throttled", "slow", "unreached", "failed"])
async def test_patience_ends_whatever_kind_of_failure(clock: Clock, why: Any) -> None:
    server_sender = _sender(_failing(why, delay_s=60.0), retries=1000)
    server_sender._reached = True
    began = clock.now
    outcomes = await _outcomes(server_sender, 1000)
    assert {type(outcome) for outcome in outcomes} == {ServerError}
    # Requests in flight at the end of the patience end after one more timeout.
    assert PATIENCE_S <= clock.now - began <= PATIENCE_S + 61


async def test_a_reply_in_flight_is_not_discarded(clock: Clock) -> None:
    """A reply that arrives after the server was given up is returned, and later requests are sent again."""
    answers = iter([PATIENCE_S + 50, 0.1, 0.1])

    async def answer() -> Reply:
        delay_s = next(answers, 0.1)
        await asyncio.sleep(delay_s)
        if delay_s < 1 and clock.now < 1000 + PATIENCE_S + 50:
            raise RetryableError("busy", "throttled")
        return REPLY

    server_sender = _sender(answer)
    slow = asyncio.create_task(server_sender.send(ASKED))
    await asyncio.sleep(0)
    with pytest.raises(ServerError):
        await server_sender.send(ASKED)
    assert await slow == await server_sender.send(ASKED) == REPLY


async def test_time_in_which_nothing_is_asked_does_not_count() -> None:
    """The time in which no request is waiting does not count, such as an hour between two tests."""
    script: list[Reply] = []

    async def answer() -> Reply:
        if not script:
            raise RetryableError("the server answered 500: broken", "failed")
        if len(script) == 1:
            script.append(REPLY)
            raise RetryableError("the server answered 503: busy", "throttled", wait_s=1.0)
        return script[-1]

    server_sender = _sender(answer, retries=1)
    with pytest.raises(Unscored):
        await server_sender.send(ASKED)
    await asyncio.sleep(3600)
    script.append(REPLY)
    assert await server_sender.send(ASKED) == REPLY


async def test_requests_one_at_a_time_share_the_patience(clock: Clock) -> None:
    server_sender = _sender(_failing("slow", delay_s=60.0), retries=1)
    began = clock.now
    outcomes = [(await _outcomes(server_sender, 1))[0] for _ in range(100)]
    assert {type(outcome) for outcome in outcomes[3:]} == {ServerError}
    assert clock.now - began <= PATIENCE_S + 61


async def test_a_waiting_request_has_a_reason() -> None:
    server_sender = _sender(_failing(wait_s=1.0))
    assert server_sender.stall is None
    tasks = [asyncio.create_task(server_sender.send(ASKED)) for _ in range(12)]
    await asyncio.sleep(30)
    assert str(server_sender.stall) == (
        "waiting for http://it/v1 (12 requests, 30 of at most 300 s): the server answered 429: busy"
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert server_sender.stall is None
    assert (
        str(Stall("u", "no reply", 1, 2.4, 7.5)) == "waiting for u (1 request, 2 of at most 7.5 s): no reply"
    )


async def test_a_server_without_an_answer_is_reported() -> None:
    """`stall` reports a silent server before the first request times out, until the last reply arrives."""
    delays = iter([30.0, 50.0, 50.0])

    async def slow() -> Reply:
        await asyncio.sleep(next(delays))
        return REPLY

    server_sender = _sender(slow)
    tasks = [asyncio.create_task(server_sender.send(ASKED)) for _ in range(3)]
    await asyncio.sleep(25)
    assert str(server_sender.stall) == "waiting for http://it/v1 (3 requests, 25 s): no answer yet"
    await asyncio.sleep(10)
    assert str(server_sender.stall) == "waiting for http://it/v1 (2 requests, 5 s): no answer yet"
    assert await asyncio.gather(*tasks) == [REPLY] * 3
    assert server_sender.stall is None


async def test_an_exhausted_rate_limit_is_reported() -> None:
    class _Exhausted(_Client):
        async def complete(self, *_: object) -> tuple[Reply, float | None]:
            await asyncio.sleep(0.1)
            return REPLY, 100.0

    server_sender = Sender(_Exhausted(_failing()), Limiter(1), 60.0, 4, PATIENCE_S)
    tasks = [asyncio.create_task(server_sender.send(ASKED)) for _ in range(2)]
    await asyncio.sleep(30)
    assert str(server_sender.stall) == (
        "waiting for http://it/v1 (1 request, 30 s): its rate limit is used up"
    )
    assert await asyncio.gather(*tasks) == [REPLY] * 2


def _wait(url: str = "u", *, seconds: float, patience_s: float = PATIENCE_S) -> Stall:
    return Stall(url, "busy", 3, seconds, patience_s)


def test_a_waiting_line_is_printed_once_until_the_server_answers_again() -> None:
    """It is printed after 20 s, or after a third of a shorter patience."""
    lines: list[str] = []
    announce = StallNotifier(lines.append)
    for seconds in (0, 19):
        announce([_wait(seconds=seconds)])
    assert not lines
    for seconds in (21, 40, 200):
        announce([_wait(seconds=seconds), _wait("v", seconds=1)])
    assert lines == ["rageval: waiting for u (3 requests, 21 of at most 300 s): busy"]
    announce([])
    announce([_wait(seconds=25)])
    announce([_wait("v", seconds=2, patience_s=6)])
    assert [line.partition(" (")[0] for line in lines[1:]] == [
        "rageval: waiting for u",
        "rageval: waiting for v",
    ]
