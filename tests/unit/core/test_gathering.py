"""Awaiting many coroutines concurrently."""

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine
from contextvars import ContextVar
from time import monotonic

import pytest

from pytest_rageval.core.errors import CallableError
from pytest_rageval.core.gathering import CallbackFuture, gather_all, gather_two


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
    """Results are in the order of the coroutines, whichever ends first."""

    async def work(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert loop.run(gather_all(map(work, (3, 0, 2)))) == [3, 0, 2]


def test_so_many_at_a_time_in_their_order(loop) -> None:
    """At most max_concurrency coroutines run at once; results are ordered, and an error waits for the others."""
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


@pytest.mark.parametrize(("together", "least"), [(1, 195), (200, 100)])
def test_the_next_begins_at_once_where_they_end_one_by_one(loop, together: int, least: int) -> None:
    """If coroutines end one by one, the next starts at once, so that the limit stays in use.

    If they end together, as cached replies do, at least half of the limit is in use.
    """
    waiting: list[CallbackFuture[None]] = []
    seen: list[int] = []

    async def work(_: int) -> None:
        waiting.append(CallbackFuture())
        await waiting[-1]

    async def reply() -> None:
        while True:
            await asyncio.sleep(0)
            seen.append(len(waiting))
            for _ in range(min(together, len(waiting))):
                waiting.pop(0).set_result(None)

    async def main() -> None:
        replying = asyncio.create_task(reply())
        await gather_all(map(work, range(1000)), max_concurrency=200)
        replying.cancel()

    loop.run(main())
    started = seen.index(200)
    assert min(seen[started : started + 400 // together]) >= least


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


async def count_tasks(gathered: Awaitable[object]) -> int:
    """Return the number of tasks that are created while the awaitable runs."""
    made = 0

    def make(loop: asyncio.AbstractEventLoop, work: Coroutine, **named: object) -> asyncio.Task:
        nonlocal made
        made += 1
        return asyncio.Task(work, loop=loop, **named)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(make)
    try:
        await gathered
    finally:
        loop.set_task_factory(None)
    return made


def test_what_waits_for_promises_takes_no_task(loop) -> None:
    """Coroutines that wait only for CallbackFutures need no task, also when nested; any other future needs one."""
    promises: list[CallbackFuture[int]] = []

    async def promised(number: int) -> int:
        promises.append(CallbackFuture())
        return number + await promises[-1]

    async def two(number: int) -> int:
        return sum(await gather_two(promised(number), promised(number)))

    async def kept() -> list[int]:
        def answer() -> None:
            for promise in promises[::-1]:
                promise.set_result(1)

        asyncio.get_running_loop().call_later(0.01, answer)
        return await gather_all(map(two, range(100)))

    async def main() -> None:
        assert await count_tasks(kept()) == 0
        assert await count_tasks(gather_all(asyncio.sleep(0.001) for _ in range(3))) == 3

    loop.run(main())
    promises.clear()

    async def values() -> list[int]:
        return await kept()

    assert loop.run(values()) == [2 * number + 2 for number in range(100)]


def test_a_coroutine_keeps_its_context_where_it_becomes_a_task(loop) -> None:
    variable: ContextVar[int] = ContextVar("variable", default=0)

    async def work(number: int) -> tuple[int, int]:
        token = variable.set(number)
        promise: CallbackFuture[None] = CallbackFuture()
        asyncio.get_running_loop().call_soon(promise.set_result, None)
        await promise
        await asyncio.sleep(0)
        during = variable.get()
        variable.reset(token)
        return during, variable.get()

    assert loop.run(gather_all(map(work, (1, 2)))) == [(1, 0), (2, 0)]


def test_a_wait_may_end_before_the_task_that_takes_it_over_runs(loop) -> None:
    """A CallbackFuture may be done before the task that continues the coroutine runs."""

    async def work() -> list[int]:
        results = []
        for value in range(3):
            await asyncio.sleep(0)
            promise: CallbackFuture[int] = CallbackFuture()
            asyncio.get_running_loop().call_soon(promise.set_result, value)
            results.append(await promise)
        return results

    assert loop.run(gather_all([work(), work()])) == [[0, 1, 2]] * 2


def test_those_that_wait_for_nothing_leave_the_loop_its_turns(loop) -> None:
    """Coroutines that never wait still let the event loop process pending requests."""
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
    promises: list[CallbackFuture[None]] = []
    closed: list[int] = []

    async def work(number: int) -> None:
        try:
            if number % 2:
                await asyncio.Event().wait()
            promises.append(CallbackFuture())
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
            await CallbackFuture()
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


def test_what_a_task_takes_over_is_a_coroutine(loop, monkeypatch) -> None:
    """Tasks are created only from coroutines, because Python 3.12 accepts no generators."""
    made: list[object] = []
    create = asyncio.BaseEventLoop.create_task

    def create_task(self: asyncio.AbstractEventLoop, work: object, **named: object) -> asyncio.Task:
        made.append(work)
        return create(self, work, **named)

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", create_task)
    loop.run(gather_all([asyncio.sleep(0)]))
    assert made
    assert all(map(inspect.iscoroutine, made))
