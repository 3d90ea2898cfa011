"""Awaiting many at once."""

import asyncio
from concurrent.futures import CancelledError

import pytest

from pytest_rageval.gathering import gather_all


def test_an_error_is_raised_when_all_have_ended(loop) -> None:
    """What the others were paying for is not thrown away."""
    ended: list[int] = []

    async def work(number: int) -> int:
        if number == 0:
            raise LookupError("first")
        await asyncio.sleep(0)
        ended.append(number)
        return number

    with pytest.raises(LookupError, match="first"):
        loop.run(gather_all(map(work, range(4))))
    assert ended == [1, 2, 3]


def test_results_are_in_order(loop) -> None:
    """Whichever ends first."""

    async def work(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert loop.run(gather_all(map(work, (3, 0, 2)))) == [3, 0, 2]


def test_so_many_at_a_time_in_their_order(loop) -> None:
    """The next begins when one has ended; results are in order, and an error waits for the rest."""
    running, most, ended = 0, 0, []

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(number % 3):
            await asyncio.sleep(0)
        running -= 1
        ended.append(number)
        return number

    assert loop.run(gather_all(map(work, range(50)), at_once=4)) == list(range(50))
    assert most == 4

    async def failing(number: int) -> int:
        if await work(number) == 7:
            raise LookupError("seven")
        return number

    ended.clear()
    with pytest.raises(LookupError, match="seven"):
        loop.run(gather_all(map(failing, range(50)), at_once=4))
    assert sorted(ended) == list(range(50))


def test_a_cancelled_one_ends_the_rest_only_where_all_are_cancelled(loop) -> None:
    """A question whose own work was cancelled is an error of its own; an interrupted run begins no other."""
    began: list[int] = []

    async def work(number: int) -> int:
        began.append(number)
        if number == 1:
            raise asyncio.CancelledError
        return number

    async def all_of_them() -> list[int]:
        return await gather_all(map(work, range(20)), at_once=2)

    with pytest.raises(CancelledError):
        loop.run(all_of_them())
    assert began == list(range(20))

    async def endless(number: int) -> None:
        began.append(number)
        await asyncio.Event().wait()

    async def interrupted() -> bool:
        task = asyncio.ensure_future(gather_all(map(endless, range(20)), at_once=2))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    began.clear()
    assert loop.run(interrupted())
    assert began == [0, 1]
