"""Awaiting many at once."""

import asyncio

import pytest

from pytest_rageval.evaluations.context import gather_all


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
