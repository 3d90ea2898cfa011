"""Awaiting many coroutines concurrently."""

import asyncio
from contextvars import ContextVar
from time import monotonic

import pytest

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import CallableError


def test_an_error_is_raised_when_all_have_ended(loop) -> None:
    """An error is raised only after all coroutines have ended, so that no paid reply is lost."""
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
    async def work(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert loop.run(gather_all(map(work, (3, 0, 2)))) == [3, 0, 2]


def test_so_many_at_a_time_in_their_order(loop) -> None:
    running, most, ended = 0, 0, []

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(1 + number % 3):
            await asyncio.sleep(0)
        running -= 1
        ended.append(number)
        return number

    assert loop.run(gather_all(map(work, range(50)), max_concurrency=4)) == list(range(50))
    assert most == 4

    async def failing(number: int) -> int:
        if await work(number) == 7:
            raise LookupError("seven")
        return number

    ended.clear()
    with pytest.raises(LookupError, match="seven"):
        loop.run(gather_all(map(failing, range(50)), max_concurrency=4))
    assert sorted(ended) == list(range(50))


def test_the_next_begins_at_once_where_one_ends(loop) -> None:
    waiting: list[asyncio.Future[None]] = []
    seen: list[int] = []

    async def work(_: int) -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    async def reply() -> None:
        while True:
            await asyncio.sleep(0)
            seen.append(len(waiting))
            for _ in waiting[:1]:
                waiting.pop(0).set_result(None)

    async def main() -> None:
        replying = asyncio.create_task(reply())
        await gather_all(map(work, range(1000)), max_concurrency=200)
        replying.cancel()

    loop.run(main())
    started = seen.index(200)
    assert min(seen[started : started + 400]) >= 195


def test_a_cancelled_one_ends_the_rest_only_where_all_are_cancelled(loop) -> None:
    """A coroutine that raises CancelledError does not stop the others; cancelling the gathering starts no more."""
    began: list[int] = []

    async def work(number: int) -> int:
        began.append(number)
        if number == 1:
            raise asyncio.CancelledError
        return number

    async def all_of_them() -> list[int]:
        return await gather_all(map(work, range(20)), max_concurrency=2)

    with pytest.raises(CallableError, match="cancelled by code"):
        loop.run(all_of_them())
    assert began == list(range(20))

    async def endless(number: int) -> None:
        began.append(number)
        await asyncio.Event().wait()

    async def interrupted() -> bool:
        task = asyncio.ensure_future(gather_all(map(endless, range(20)), max_concurrency=2))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    began.clear()
    assert loop.run(interrupted())
    assert began == [0, 1]


def test_a_coroutine_has_a_context_of_its_own(loop) -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)

    async def work(number: int) -> tuple[int, int]:
        token = variable.set(number)
        promise: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(promise.set_result, None)
        await promise
        await asyncio.sleep(0)
        during = variable.get()
        variable.reset(token)
        return during, variable.get()

    assert loop.run(gather_all(map(work, (1, 2)))) == [(1, 0), (2, 0)]


def test_those_that_wait_for_nothing_leave_the_loop_its_turns(loop) -> None:
    turns = 0

    async def work() -> None:
        end = monotonic() + 0.001
        while monotonic() < end:
            pass

    async def main() -> None:
        nonlocal turns

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        await gather_all((work() for _ in range(300)), max_concurrency=10)

    loop.run(main())
    assert turns > 2


def test_cancelled_coroutines_are_closed(loop) -> None:
    promises: list[asyncio.Future[None]] = []
    closed: list[int] = []

    async def work(number: int) -> None:
        try:
            if number % 2:
                await asyncio.Event().wait()
            promises.append(asyncio.get_running_loop().create_future())
            await promises[-1]
        finally:
            closed.append(number)

    async def nested(number: int) -> None:
        await gather_all([work(number), work(number + 1)])

    async def main() -> None:
        task = asyncio.ensure_future(gather_all(map(nested, (0, 2))))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.sleep(0)

    loop.run(main())
    assert sorted(closed) == [0, 1, 2, 3]
    assert all(promise.cancelled() for promise in promises)


def test_cancelled_coroutines_end_in_their_own_contexts(loop) -> None:
    """Cancelled coroutines can await and reset context variables; an error in one does not affect the others."""
    variable: ContextVar[int] = ContextVar("variable", default=0)
    seen: list[str] = []

    async def work(number: int) -> None:
        token = variable.set(number)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            if number == 0:
                raise LookupError from None
            await asyncio.sleep(0)
            seen.append("went on")
            raise
        finally:
            variable.reset(token)

    async def main() -> None:
        task = asyncio.ensure_future(gather_all(map(work, range(3))))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.sleep(0.01)

    loop.run(main())
    assert seen == ["cancelled"] * 3 + ["went on"] * 2
