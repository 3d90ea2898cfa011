"""The private event loop, and calls back into the calling thread."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pytest_rageval.calls import threads
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError

Loops = Callable[..., BackgroundEventLoop]


async def _result(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


def test_a_coroutines_result_is_returned(loop: BackgroundEventLoop) -> None:
    assert [loop.run(_result(value)) for value in ("a", "b")] == ["a", "b"]


async def test_it_runs_below_a_running_loop(loop: BackgroundEventLoop) -> None:
    assert loop.run(_result("inner")) == "inner"


def test_the_thread_starts_with_the_first_run(loop: BackgroundEventLoop) -> None:
    before = loop.started
    loop.run(_result(None))
    assert (before, loop.started) == (False, True)


def test_calls_come_back_to_the_calling_thread(loop: BackgroundEventLoop) -> None:
    async def both() -> tuple[int, int]:
        return threading.get_ident(), await loop.call(threading.get_ident)

    in_loop, called = loop.run(both())
    assert called == threading.get_ident()
    assert in_loop != called


def test_calls_are_made_one_at_a_time_in_order(loop: BackgroundEventLoop) -> None:
    log: list[str] = []

    def job(n: int) -> None:
        log.extend([f"{n} begins", f"{n} ends"])

    async def all_at_once() -> None:
        await asyncio.gather(*(loop.call(job, n) for n in range(3)))

    loop.run(all_at_once())
    assert log == ["0 begins", "0 ends", "1 begins", "1 ends", "2 begins", "2 ends"]


def test_more_threads_call_at_the_same_time(loops: Loops) -> None:
    loop, both_here = loops(threads=2), threading.Barrier(2, timeout=60)

    def job() -> str:
        both_here.wait()
        return threading.current_thread().name

    async def twice() -> list[str]:
        return await asyncio.gather(loop.call(job), loop.call(job))

    names = loop.run(twice())
    assert len(set(names)) == 2
    assert all(name.startswith("rageval") for name in names)
    assert threading.current_thread().name not in names


@pytest.mark.parametrize("threads", [1, 2])
def test_a_functions_exception_reaches_the_coroutine(loops: Loops, threads: int) -> None:
    loop = loops(threads=threads)

    def fail() -> None:
        raise LookupError("lost")

    async def caught() -> str:
        try:
            await loop.call(fail)
        except LookupError as error:
            return str(error)
        return ""

    assert loop.run(caught()) == "lost"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_function_that_raises_stop_iteration_does_not_hang(loops: Loops, threads: int) -> None:
    loop = loops(threads=threads)

    async def call() -> None:
        await loop.call(next, iter([]))

    with pytest.raises(Exception, match=r"(?i)StopIteration") as caught:
        loop.run(call())
    assert not isinstance(caught.value, TimeoutError)


def test_a_coroutines_exception_is_raised(loop: BackgroundEventLoop) -> None:
    async def fail() -> None:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        loop.run(fail())


def test_an_interrupt_while_waiting_cancels_the_coroutine(loops: Loops) -> None:
    began, cancelled = threading.Event(), threading.Event()

    def tick() -> None:
        if began.is_set():
            raise KeyboardInterrupt

    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        loops(tick=tick).run(endless())
    assert cancelled.wait(60)


def test_an_interrupt_in_a_called_function_cancels_the_coroutine(loop: BackgroundEventLoop) -> None:
    cancelled = threading.Event()

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def call() -> None:
        try:
            await loop.call(interrupt)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        loop.run(call())
    assert cancelled.wait(60)


def test_the_run_after_an_interrupted_one_serves_only_its_own_calls(loop: BackgroundEventLoop) -> None:
    made: list[str] = []

    def first() -> None:
        made.append("first")
        raise KeyboardInterrupt

    async def interrupted() -> None:
        await asyncio.gather(loop.call(first), loop.call(made.append, "left behind"))

    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupted())
    loop.run(loop.call(made.append, "next"))
    assert made == ["first", "next"]


def test_the_tick_is_called_in_the_calling_thread(loops: Loops) -> None:
    threads: set[int] = set()
    loop = loops(tick=lambda: threads.add(threading.get_ident()))
    loop.run(loop.call(lambda: None))
    assert threads == {threading.get_ident()}


def test_the_tick_is_called_by_the_clock_and_not_by_the_call(loops: Loops) -> None:
    """The tick is called at intervals, so that many short calls do not each cause one."""
    ticks: list[None] = []
    loop = loops(tick=lambda: ticks.append(None))

    async def calls() -> None:
        await asyncio.gather(*(loop.call(lambda: None) for _ in range(1000)))

    loop.run(calls())
    assert 1 <= len(ticks) < 500


@pytest.mark.parametrize("threads", [1, 2])
def test_a_closed_loop_is_replaced_by_a_new_one(loops: Loops, threads: int) -> None:
    loop = loops(threads=threads)
    loop.run(loop.call(lambda: None))
    loop.close()
    assert not loop.started
    assert loop.run(loop.call(lambda: "again")) == "again"


def test_closing_what_never_ran_does_nothing() -> None:
    loop = BackgroundEventLoop(threads=2)
    loop.close()
    loop.close()
    assert not loop.started


def test_a_thread_waits_for_a_result_and_ticks(loops: Loops) -> None:
    ticked = threading.Event()
    loop = loops(tick=ticked.set)

    async def after_a_tick() -> str:
        return "result" if await asyncio.to_thread(ticked.wait, 60) else "no tick"

    assert loop.wait(after_a_tick()) == "result"
    with pytest.raises(LookupError):
        loop.wait(_raising())


async def _raising() -> None:
    raise LookupError


async def test_a_coroutine_in_another_loop_waits_for_a_result(loops: Loops) -> None:
    ended = threading.Event()
    loop = loops()

    async def ends() -> str:
        await asyncio.sleep(0.05)
        ended.set()
        return "result"

    assert await loop.await_result(ends()) == "result"
    with pytest.raises(LookupError):
        await loop.await_result(_raising())
    ended.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(loop.await_result(ends()), 0.01)
    assert await loop.await_result(_result("the next"))
    assert ended.wait(60)


def test_trio_waits_for_a_result(loop: BackgroundEventLoop) -> None:
    trio = pytest.importorskip("trio")

    async def test() -> None:
        assert await loop.await_result(_result("a")) == "a"
        with pytest.raises(LookupError):
            await loop.await_result(_raising())

    trio.run(test)


def test_closing_runs_something_last(loop: BackgroundEventLoop) -> None:
    ran: list[str] = []

    async def last() -> None:
        ran.append(threading.current_thread().name)

    loop.run(_result(None))
    assert loop.close(last) is None
    assert ran == ["rageval"]
    loop.run(_result(None))
    with pytest.raises(LookupError):
        loop.close(_raising)


def test_closing_does_not_wait_for_code_that_blocks(monkeypatch, loop):
    monkeypatch.setattr(threads, "CLOSE_TIMEOUT_S", 0.1)
    go_on = threading.Event()

    async def blocks() -> None:
        go_on.wait(60)

    loop.submit(blocks())
    held_up = loop.close()
    go_on.set()
    assert held_up.endswith(" in blocks")
    assert loop.run(_result("next")) == "next"


def test_a_call_does_not_begin_while_the_loop_closes(loops: Loops) -> None:
    """A call that would start while the loop closes is cancelled, since its pool would never be shut down."""
    loop, closing, made = loops(threads=2), asyncio.Event(), []

    async def late() -> None:
        await closing.wait()
        await loop.call(made.append, 1)

    async def last() -> None:
        closing.set()
        await asyncio.sleep(0.2)

    running = loop.submit(late())
    loop.close(last)
    assert running.cancelled()
    assert not made


def test_calls_that_have_not_begun_do_not_begin_after_the_end(loops: Loops) -> None:
    """Queued calls are dropped on `close`, so that they do not run during a later test."""
    loop, began, go_on, made = loops(threads=2), threading.Barrier(3, timeout=60), threading.Event(), []

    def job(n: int) -> None:
        made.append(n)
        if n < 2:
            began.wait()
            go_on.wait(60)

    async def several() -> None:
        await asyncio.gather(*(loop.call(job, n) for n in range(5)))

    running = loop.submit(several())
    began.wait()
    loop.close()
    go_on.set()
    assert running.cancelled() or running.exception(60) is not None
    assert sorted(made) == [0, 1]


# Code of the user that disturbs the loop.


def test_no_socket_is_opened(loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("blocked")

    monkeypatch.setattr(socket.socket, "__init__", refuse)
    loop = loops()
    assert loop.run(asyncio.to_thread(lambda: "done")) == "done"
    assert loop.wait(_result("waited")) == "waited"
    assert loop.close() is None


@pytest.mark.slow
def test_a_full_pipe_wakes_the_loop_too(loop: BackgroundEventLoop) -> None:
    called: list[int] = []

    async def busy() -> None:
        running = asyncio.get_running_loop()

        def wake() -> None:
            for n in range(100_000):
                running.call_soon_threadsafe(called.append, n)

        thread = threading.Thread(target=wake)
        thread.start()
        thread.join()

    loop.run(busy())
    loop.run(_result(None))
    assert called == list(range(100_000))


async def _raise(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


@pytest.mark.parametrize("call", ["run", "wait"])
def test_a_keyboard_interrupt_in_the_loop_is_raised_in_the_caller(loop, call):
    async def interrupted() -> None:
        task = asyncio.ensure_future(_raise(KeyboardInterrupt("mine")))
        await asyncio.Event().wait()
        await task

    with pytest.raises(KeyboardInterrupt, match="mine"):
        getattr(loop, call)(interrupted())
    assert loop.run(_result("next")) == "next"


@pytest.mark.parametrize(
    ("raised", "error", "message"),
    [
        (KeyboardInterrupt("mine"), KeyboardInterrupt, "mine"),
        # A CancelledError would be blamed on the caller's own task.
        (asyncio.CancelledError(), CallableError, "cancelled by code"),
    ],
)
def test_a_caller_in_another_loop_gets_the_error(loop, raised, error, message):
    with pytest.raises(error, match=message):
        asyncio.run(loop.await_result(_raise(raised)))


def test_a_system_exit_of_a_task_ends_no_other_coroutine(loop: BackgroundEventLoop) -> None:
    async def go_on() -> str:
        task = asyncio.ensure_future(_raise(SystemExit(3)))
        with pytest.raises(SystemExit):
            await task
        return "done"

    assert loop.run(go_on()) == "done"


def test_a_stopped_loop_goes_on(loop: BackgroundEventLoop) -> None:
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "done"

    assert loop.run(stop()) == "done"


@pytest.mark.parametrize("call", ["run", "wait"])
def test_a_caller_whose_coroutine_was_cancelled_gets_an_error(loop: BackgroundEventLoop, call: str) -> None:
    async def cancel_all() -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(
        CallableError, match=r"cancelled by code(.|\n)*only the tasks that your code has created"
    ):
        getattr(loop, call)(cancel_all())
    assert loop.run(_result("next")) == "next"


def test_a_broken_loop_is_an_error_of_each_call(loops: Loops) -> None:
    loop = loops()

    def fail() -> None:
        raise OSError("broken")

    async def break_loop() -> None:
        asyncio.get_running_loop()._run_once = fail
        await asyncio.Event().wait()

    for _ in range(2):
        with pytest.raises(CallableError, match=r"event loop .* has ended: OSError: broken"):
            loop.run(break_loop())
    with pytest.raises(CallableError, match="has ended"):
        loop.wait(_result(None))
