"""Runs coroutines: many at once, and without an event loop.

`run_inline` runs a coroutine in the calling thread, without an event loop, as long as it does not have to wait. If the
retriever is synchronous and all replies are cached, the whole evaluation never waits, and no thread is started. A call
of the user's function takes less than 1 µs, compared with 25 µs if it is passed from the loop's thread to the calling
thread and awaited (Python 3.11). Code that needs an event loop awaits `require_loop` before it creates a future or a
task. The coroutine then continues in an event loop. Code that can do its work together with that of other examples
awaits `let_others_run`: a block of cached replies is read in one look-up.
"""

import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextvars import Context, copy_context
from itertools import chain, islice
from types import CoroutineType, coroutine
from typing import Any, Final, TypeVar, cast

from pytest_rageval.core.errors import ReplyPending

T = TypeVar("T")
U = TypeVar("U")

LOOP_REQUIRED: Final = object()  # yielded by a coroutine that cannot continue without an event loop
PAUSED: Final = object()  # yielded by a coroutine that lets the others of its block run first
NOT_FINISHED: Final = object()  # returned for a coroutine that must continue in an event loop

TICK_INTERVAL_S: Final = 0.1  # the interval of `tick` of a `BackgroundEventLoop`

BLOCK: Final = 64
"""How many coroutines of a gathering with a limit take turns without an event loop, so that they read together."""


class _State(threading.local):
    """`inline` is True while this thread runs a coroutine by `run_inline`, and `tick` is that call's argument."""

    inline: bool = False
    tick: Callable[[], None]


_state: Final = _State()


def is_inline() -> bool:
    """Whether the current coroutine is run by `run_inline`, in this thread."""
    return _state.inline


def run_inline(work: Coroutine[Any, Any, Any], context: Context, tick: Callable[[], None]) -> Any:
    """Run a coroutine in this thread; return its result, or `NOT_FINISHED` if it must continue in an event loop.

    `tick` is called after each coroutine of a gathering with a limit, such as that of all examples.
    """
    was_inline = _state.inline
    former_tick: Any = getattr(_state, "tick", None)
    _state.inline, _state.tick = True, tick
    try:
        while context.run(work.send, None) is not LOOP_REQUIRED:
            # The coroutine awaited `asyncio.sleep(0)`, which lets other tasks run; there are none.
            pass
    except StopIteration as stop:
        return stop.value
    finally:
        # A tick that stayed here would keep a run and its outcomes alive.
        _state.inline, _state.tick = was_inline, former_tick
    return NOT_FINISHED


def call_user_function(function: Callable[..., T], *args: Any) -> T:
    """Call a user's function with `is_inline` switched off: it may run an event loop of its own in this thread."""
    _state.inline = False
    try:
        return function(*args)
    finally:
        _state.inline = True


@coroutine
def require_loop() -> Generator[Any, Any, None]:
    """Move the current coroutine to an event loop; returns immediately if it already runs in one."""
    if is_inline():
        yield LOOP_REQUIRED


@coroutine
def let_others_run() -> Generator[Any, Any, bool]:
    """Without an event loop, let the others of the same block run until they pause too; False if there are none."""
    return is_inline() and (yield PAUSED) is True


def ends_task(error: BaseException) -> bool:
    """Whether an exception ends the current task, and says nothing of what the task computes."""
    import asyncio  # noqa: PLC0415 - see `gather_results`

    return isinstance(error, (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit))


def is_fatal(error: BaseException) -> bool:
    """Whether an exception must end the whole inline run, not just one of its coroutines: Ctrl-C or a test timeout."""
    return is_inline() and not isinstance(error, (Exception, ReplyPending))


async def gather_all(awaitables: Iterable[Awaitable[T]], *, max_concurrency: int | None = None) -> list[T]:
    """Await all awaitables concurrently and return their results in order.

    If any of them raises, the first exception is raised after all have finished, so that no paid reply is lost.
    """
    results = await gather_results(awaitables, max_concurrency=max_concurrency)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def gather_two(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    results: Any = await gather_all([one, other])
    return results[0], results[1]


async def gather_results(
    awaitables: Iterable[Awaitable[T]], *, max_concurrency: int | None = None
) -> list[T | BaseException]:
    """Await all awaitables concurrently; return the results or exceptions, in order.

    Without an event loop they run one after the other, or with a limit in blocks whose coroutines take turns; the first
    that needs a loop and those after it, with the rest of its block, run in it.
    """
    # The exact type is compared first, since the other test takes longer.
    works = (
        each if type(each) is CoroutineType or isinstance(each, Coroutine) else _await_in_loop(each)
        for each in awaitables
    )
    results, begun = _run_until_one_waits(works, max_concurrency) if is_inline() else ([], [])
    if is_inline():
        if not begun:
            return results
        try:
            await require_loop()
        except BaseException:
            for each in begun:
                each.work.close()
            raise
    import asyncio  # noqa: PLC0415 - a run without an event loop does not import it

    loop, free = asyncio.get_running_loop(), asyncio.Semaphore((max_concurrency or 1) - 1)
    tasks: list[asyncio.Task[Any]] = []
    try:
        waiting = (each for each in begun if each.result is NOT_FINISHED)
        for each in chain(waiting, map(_Begun, works)):
            tasks.append(loop.create_task(each.work, context=each.context))
            if max_concurrency is not None:
                tasks[-1].add_done_callback(lambda _: free.release())
                await free.acquire()
    except BaseException:
        # It marks their exceptions as seen too.
        asyncio.gather(*tasks, return_exceptions=True).cancel()
        raise
    ended = iter(await asyncio.gather(*tasks, return_exceptions=True))
    results += [next(ended) if each.result is NOT_FINISHED else each.result for each in begun]
    return [*results, *ended]


class _Begun:
    """A coroutine of a gathering, with its result or its exception."""

    __slots__ = ("context", "result", "work")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self.work = work
        self.context: Context = copy_context()
        self.result: Any = NOT_FINISHED

    def step(self, value: bool | None, *, pauses: bool) -> bool:  # noqa: FBT001 - sent to the coroutine
        """Run the coroutine to its end, or with `pauses` to its next pause; False if it must continue in a loop."""
        try:
            while (signal := self.context.run(self.work.send, value)) is not LOOP_REQUIRED:
                if pauses and signal is PAUSED:
                    return True
                value = None
        except StopIteration as stop:
            self.result = stop.value
        except BaseException as error:
            if is_fatal(error):
                raise
            self.result = error
        return self.result is not NOT_FINISHED


def _run_until_one_waits(
    works: Iterator[Coroutine[Any, Any, Any]], max_concurrency: int | None
) -> tuple[list[Any], list[_Begun]]:
    """Run coroutines in this thread, in blocks; return their results, and the block that must continue in a loop.

    The coroutines of a block take turns: each runs until it pauses.
    """
    results: list[Any] = []
    block: list[_Begun] = []
    size = min(max_concurrency or 1, BLOCK)
    try:
        while block := [_Begun(work) for work in islice(works, size)]:
            left, value = block, None
            while left:
                for each in left:
                    if not each.step(value, pauses=size > 1):
                        return results, block
                    if max_concurrency is not None and each.result is not NOT_FINISHED:
                        _state.tick()
                left, value = [each for each in left if each.result is NOT_FINISHED], True
            results += [each.result for each in block]
    except BaseException:
        for work in chain([each.work for each in block], works):
            work.close()
        raise
    return results, []


async def _await_in_loop(awaitable: Awaitable[T]) -> T:
    await require_loop()
    return await awaitable
