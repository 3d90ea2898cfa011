"""Coroutines that never wait run in the calling thread, without an event loop."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_rageval.calls import gathering
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import gather_all, gather_results, let_others_run, require_loop
from pytest_rageval.calls.user_code import UserCallable
from pytest_rageval.core.errors import ReplyPending


@pytest.fixture
def loop() -> Iterator[BackgroundEventLoop]:
    event_loop = BackgroundEventLoop()
    yield event_loop
    event_loop.close()


def _asked(
    loop: BackgroundEventLoop, function: Callable[[int], Any], n: int, at_once: int | None = None
) -> list[Any]:
    user = UserCallable("search", function, loop)
    calls = (user.call(number) for number in range(n))
    return loop.run(gather_all(calls, max_concurrency=at_once), inline=True)


@pytest.mark.parametrize("at_once", [None, 3])
def test_sync_functions_need_no_loop(loop: BackgroundEventLoop, at_once: int | None) -> None:
    threads = threading.active_count()
    assert _asked(loop, lambda n: n + 1, 10, at_once) == list(range(1, 11))
    assert not loop.started
    assert threading.active_count() == threads


def test_the_clock_tick_continues_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_rageval.calls.event_loop.TICK_INTERVAL_S", 0.0)
    ticks: list[int] = []
    _asked(BackgroundEventLoop(tick=lambda: ticks.append(1)), lambda n: n, 5)
    assert len(ticks) == 5


@pytest.mark.parametrize("at_once", [None, 4])
def test_a_coroutine_returned_by_a_function_runs_in_the_loop(loop, at_once):
    calls: list[tuple[int, int]] = []
    running, most = 0, 0

    async def found(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return n

    def search(n: int) -> Any:
        calls.append((n, threading.get_ident()))
        return found(n) if n % 2 else n

    assert _asked(loop, search, 20, at_once) == list(range(20))
    assert loop.started
    assert calls == [(n, threading.get_ident()) for n in range(20)]
    assert most == (10 if at_once is None else 4)


def test_an_exception_of_one_is_raised_when_all_have_ended(loop: BackgroundEventLoop) -> None:
    called: list[int] = []

    def search(n: int) -> int:
        called.append(n)
        if n == 1:
            raise ReplyPending
        return n

    with pytest.raises(ReplyPending):
        _asked(loop, search, 4)
    assert called == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, pytest.fail.Exception, pytest.skip.Exception, BaseException]
)
def test_what_ends_the_test_ends_the_run_at_once(loop, error):
    called: list[int] = []

    def search(n: int) -> int:
        called.append(n)
        if n == 1:
            raise error
        return n

    with pytest.raises(error):
        _asked(loop, search, 4)
    assert called == [0, 1]
    assert _asked(loop, lambda n: n, 2) == [0, 1]


def test_the_function_may_run_a_loop_of_its_own(loop: BackgroundEventLoop) -> None:
    async def both(n: int) -> list[int]:
        async def later(n: int) -> int:
            await asyncio.sleep(0)
            return n

        return await gather_all(later(number) for number in (n, n))

    assert _asked(loop, lambda n: asyncio.run(both(n)), 2) == [[0, 0], [1, 1]]
    assert not loop.started


async def test_within_a_loop_of_the_test_the_own_loop_is_used(loop: BackgroundEventLoop) -> None:
    assert _asked(loop, lambda n: n, 2) == [0, 1]
    assert loop.started


def test_the_first_that_needs_a_loop_and_those_after_it_run_in_the_loop(loop: BackgroundEventLoop) -> None:
    threads: list[int] = []

    async def work(number: int) -> int:
        if number == 2:
            await require_loop()
        threads.append(threading.get_ident())
        return number

    assert loop.run(gather_all(map(work, range(5)), max_concurrency=2), inline=True) == [*range(5)]
    assert [thread == threading.get_ident() for thread in threads] == [True, True, False, False, False]


@pytest.mark.filterwarnings("error")
def test_the_others_are_closed_where_one_ends_the_run(loop: BackgroundEventLoop) -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    other = asyncio.sleep(0)
    with pytest.raises(KeyboardInterrupt):
        loop.run(gather_all([interrupted(), other]), inline=True)
    assert inspect.getcoroutinestate(other) == inspect.CORO_CLOSED


def test_the_clock_ticks_between_many_that_call_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_rageval.calls.event_loop.TICK_INTERVAL_S", 0.0)
    ticks: list[int] = []

    async def work() -> None:
        pass

    loop = BackgroundEventLoop(tick=lambda: ticks.append(1))
    loop.run(gather_all((work() for _ in range(5)), max_concurrency=2), inline=True)
    assert len(ticks) == 5


def _in_turns(
    loop: BackgroundEventLoop, work: Callable[[int], Any], n: int, at_once: int | None
) -> list[Any]:
    return loop.run(gather_results(map(work, range(n)), max_concurrency=at_once), inline=True)


@pytest.mark.parametrize(
    ("at_once", "turns"), [(None, "00 01 10 11 20 21"), (1, "00 01 10 11 20 21"), (2, "00 10 01 11 20 21")]
)
def test_the_coroutines_of_a_block_take_turns(loop, at_once, turns):
    called: list[str] = []

    async def work(number: int) -> bool:
        called.append(f"{number}0")
        others = await let_others_run()
        called.append(f"{number}1")
        return others

    assert _in_turns(loop, work, 3, at_once) == [at_once == 2] * 3
    assert " ".join(called) == turns
    assert not loop.started


def test_a_block_has_a_bounded_size(loop: BackgroundEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "BLOCK", 2)
    running, most = 0, 0

    async def work(_: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await let_others_run()
        running -= 1

    _in_turns(loop, work, 7, 1000)
    assert (running, most) == (0, 2)


def test_one_within_another_does_not_wait_for_the_block(loop: BackgroundEventLoop) -> None:
    async def work(number: int) -> list[Any]:
        return await gather_results(let_others_run() for _ in range(number))

    assert _in_turns(loop, work, 3, 5) == [[], [False], [False, False]]


def test_where_one_of_a_block_needs_a_loop_all_continue_in_order(loop: BackgroundEventLoop) -> None:
    threads: dict[int, int] = {}

    async def work(number: int) -> int:
        if number != 1:
            await let_others_run()
        if number == 3:
            await require_loop()
        if number == 4:
            raise ValueError("four")
        threads[number] = threading.get_ident()
        return number

    results = _in_turns(loop, work, 7, 5)
    assert [str(result) for result in results] == ["0", "1", "2", "3", "four", "5", "6"]
    assert [number for number, thread in threads.items() if thread == threading.get_ident()] == [1, 0, 2]


@pytest.mark.filterwarnings("error")
def test_those_that_pause_are_closed_where_one_ends_the_run(loop: BackgroundEventLoop) -> None:
    closed: list[int] = []

    async def work(number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt
        try:
            await let_others_run()
        finally:
            closed.append(number)

    with pytest.raises(KeyboardInterrupt):
        _in_turns(loop, work, 5, 5)
    assert closed == [0, 1]
