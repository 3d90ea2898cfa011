"""The rate limits of one server."""

import asyncio
import itertools

import pytest

from pytest_rageval.models import rate_limits
from pytest_rageval.models.rate_limits import Limiter, Slot
from tests.unit.models.virtual_time import Clock

EXACT = 1e-3
"""In seconds: far more than the readings of the clock add up to, far less than what is waited for."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rate_limits, "time", clock)
    return clock


class _Crowd:
    """Requests that hold slots until an event is set; records the admitted requests in order."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.admitted: list[object] = []
        self.most = 0
        self.slots: list[Slot] = []
        self.go_on = asyncio.Event()

    async def hold(self, name: object = None, tokens: int = 0, *, first: bool = False) -> None:
        async with self.limiter.slot(tokens, first=first) as slot:
            self.admitted.append(name)
            self.slots.append(slot)
            self.most = max(self.most, self.limiter.in_flight)
            await self.go_on.wait()


async def _turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_than_the_limit_are_in_flight() -> None:
    crowd = _Crowd(Limiter(3))
    tasks = [asyncio.create_task(crowd.hold(number)) for number in range(10)]
    await _turns()
    assert crowd.admitted == [0, 1, 2]
    assert crowd.limiter.in_flight == 3
    crowd.go_on.set()
    await asyncio.gather(*tasks)
    assert crowd.admitted == list(range(10))
    assert crowd.most == 3
    assert crowd.limiter.in_flight == 0


async def test_a_refused_request_is_sent_first() -> None:
    """A refused request is sent before requests that are already waiting, since it has waited longest."""
    crowd = _Crowd(Limiter(1))
    tasks = [asyncio.create_task(crowd.hold(number)) for number in range(3)]
    await _turns()
    tasks.append(asyncio.create_task(crowd.hold("again", first=True)))
    await _turns()
    crowd.go_on.set()
    await asyncio.gather(*tasks)
    assert crowd.admitted == [0, "again", 1, 2]


async def test_refusals_of_those_in_flight_together_are_one_event() -> None:
    """They halve the limit once, to at least 1; a refusal of a later request halves it again."""
    limiter = Limiter(16)
    for expected in (8, 4, 2, 1, 1, 1):
        crowd = _Crowd(limiter)
        tasks = [asyncio.create_task(crowd.hold()) for _ in range(16)]
        await _turns()
        for slot in crowd.slots:
            limiter.decrease_limit(slot)
        assert limiter.limit == expected
        crowd.go_on.set()
        await asyncio.gather(*tasks)


async def test_fewer_are_in_flight_after_a_refusal() -> None:
    limiter = Limiter(4)
    first, then = _Crowd(limiter), _Crowd(limiter)
    before = [asyncio.create_task(first.hold()) for _ in range(4)]
    await _turns()
    after = [asyncio.create_task(then.hold()) for _ in range(10)]
    limiter.decrease_limit(first.slots[0])
    first.go_on.set()
    await asyncio.gather(*before)
    await _turns()
    assert limiter.in_flight == 2
    then.go_on.set()
    await asyncio.gather(*after)
    assert then.most == 2


async def test_the_limit_grows_by_one_for_as_many_replies_as_are_averaged() -> None:
    for most, replies in ((8, 8), (16, 16), (20, 20), (40, 20), (100, 50)):
        limiter = Limiter(most)
        async with limiter.slot() as slot:
            limiter.decrease_limit(slot)
        assert limiter.limit == most / 2
        for _ in range(replies):
            limiter.record_success()
        assert limiter.limit == pytest.approx(most / 2 + 1, abs=0.05)
        for _ in range(most * most):
            limiter.record_success()
        assert limiter.limit == most


async def test_one_alone_grows_again() -> None:
    limiter = Limiter(2)
    async with limiter.slot() as slot:
        limiter.decrease_limit(slot)
    for _ in range(8):
        limiter.record_success()
    crowd = _Crowd(limiter)
    tasks = [asyncio.create_task(crowd.hold()) for _ in range(2)]
    await _turns()
    assert limiter.in_flight == 2
    crowd.go_on.set()
    await asyncio.gather(*tasks)


async def test_nothing_is_sent_during_a_pause(clock: Clock) -> None:
    limiter = Limiter(4)
    began = clock.now
    limiter.pause(0.2)
    limiter.pause(0.01)
    crowd = _Crowd(limiter)
    crowd.go_on.set()
    await asyncio.gather(*(crowd.hold() for _ in range(8)))
    assert [slot.began - began for slot in crowd.slots] == [pytest.approx(0.2, abs=EXACT)] * 8


async def test_a_pause_that_is_made_longer_while_some_wait(clock: Clock) -> None:
    limiter = Limiter(4)
    began = clock.now
    limiter.pause(0.1)
    crowd = _Crowd(limiter)
    crowd.go_on.set()
    waiting = asyncio.create_task(crowd.hold())
    await asyncio.sleep(0.05)
    limiter.pause(0.2)
    await waiting
    assert crowd.slots[0].began - began == pytest.approx(0.25, abs=EXACT)


async def test_requests_a_minute_are_evenly_spaced() -> None:
    crowd = _Crowd(Limiter(16, rpm=1200))
    crowd.go_on.set()
    await asyncio.gather(*(crowd.hold() for _ in range(6)))
    times = [slot.began for slot in crowd.slots]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps == [pytest.approx(0.05, abs=EXACT)] * 5


async def test_an_idle_time_is_not_saved_up() -> None:
    """Requests after an idle time keep the same distance: unused permissions are not saved for a burst."""
    limiter = Limiter(16, rpm=1200)
    crowd = _Crowd(limiter)
    crowd.go_on.set()
    await crowd.hold()
    await asyncio.sleep(0.2)
    await asyncio.gather(*(crowd.hold() for _ in range(3)))
    first, *later_times = (slot.began for slot in crowd.slots)
    assert [other - first for other in later_times] == pytest.approx([0.2, 0.25, 0.3], abs=EXACT)


async def test_tokens_a_minute_are_counted_before_a_request() -> None:
    limiter = Limiter(16, tpm=60_000)
    crowd = _Crowd(limiter)
    crowd.go_on.set()
    for tokens in (100, 200, 0):
        await crowd.hold(tokens=tokens)
    first, second, third = (slot.began for slot in crowd.slots)
    assert (second - first, third - second) == pytest.approx((0.1, 0.2), abs=EXACT)


@pytest.mark.parametrize(("expected", "used", "wait"), [(2000, 20, 0.02), (10, 200, 0.2)])
async def test_tokens_a_minute_are_corrected_after_a_reply(expected: int, used: int, wait: float) -> None:
    limiter = Limiter(16, tpm=60_000)
    async with limiter.slot(expected) as slot:
        limiter.correct_tokens(slot, used)
    async with limiter.slot(100) as next_slot:
        assert next_slot.began - slot.began == pytest.approx(wait, abs=EXACT)


def test_whether_tokens_are_counted() -> None:
    """Tokens are estimated only with a limit of tokens per minute, since estimating takes time."""
    assert Limiter(1, tpm=5).counts_tokens
    assert not Limiter(1, rpm=5).counts_tokens


async def test_waiters_that_are_cancelled_leave_no_gap() -> None:
    crowd = _Crowd(Limiter(2))
    tasks = [asyncio.create_task(crowd.hold(number)) for number in range(20)]
    await _turns()
    for task in tasks[:18:3]:
        task.cancel()
    await _turns()
    crowd.go_on.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert crowd.limiter.in_flight == 0
    assert crowd.most == 2
    assert set(range(20)) - set(crowd.admitted) == set(range(3, 18, 3))


async def test_a_waiter_cancelled_in_the_moment_it_is_admitted_gives_the_slot_on() -> None:
    limiter = Limiter(1)
    crowd = _Crowd(limiter)
    crowd.go_on.set()
    async with limiter.slot():
        waiter, behind = (asyncio.create_task(crowd.hold(name)) for name in ("waiter", "behind"))
        await _turns()
    assert limiter.in_flight == 1
    waiter.cancel()
    await asyncio.gather(waiter, behind, return_exceptions=True)
    assert crowd.admitted == ["behind"]
    assert limiter.in_flight == 0


async def test_a_cancelled_waiter_does_not_delay_others_after_a_pause() -> None:
    limiter = Limiter(1)
    limiter.pause(0.05)
    crowd = _Crowd(limiter)
    crowd.go_on.set()
    waiter, behind = asyncio.create_task(crowd.hold(0)), asyncio.create_task(crowd.hold(1))
    await _turns()
    waiter.cancel()
    await asyncio.gather(waiter, behind, return_exceptions=True)
    assert crowd.admitted == [1]


async def test_an_error_in_a_request_gives_its_slot_back() -> None:
    limiter = Limiter(1)
    for _ in range(3):
        with pytest.raises(LookupError):
            async with limiter.slot():
                raise LookupError
    assert limiter.in_flight == 0


async def test_a_waiter_that_failed_and_was_cancelled_frees_no_slot() -> None:
    """A waiting request that was failed and then cancelled releases no slot, since it never had one."""
    crowd = _Crowd(Limiter(1))
    holds, waits = (asyncio.create_task(crowd.hold()) for _ in range(2))
    await _turns()
    crowd.limiter.fail_waiting(RuntimeError("the server is given up"))
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    crowd.go_on.set()
    await holds
    assert crowd.limiter.in_flight == 0
