"""`gather_all`: runs many coroutines concurrently without a task for each.

An evaluation consists of thousands of coroutines, and most results that they await are cached. One task per coroutine
    would take several times as long as the work itself, because each step of a task goes through the event loop. So
    `gather_all` runs the coroutines itself. It resumes a coroutine when its `CallbackFuture` has a result. It resumes
    together all coroutines whose results arrived together: the replies of one look-up, the rankings of one batch. A
    coroutine that awaits any other future becomes a task.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from math import inf
from time import monotonic
from types import CoroutineType, coroutine
from typing import Any, Final, TypeVar, cast

from pytest_rageval.concurrency.inline import LOOP_REQUIRED, is_fatal, is_inline, require_loop

__all__ = ["CallbackFuture", "gather_all", "gather_results", "gather_two"]

T = TypeVar("T")
U = TypeVar("U")

TURN_S: Final = 0.05
"""How long coroutines that wait for nothing run before the event loop has its turn."""


ONE_BY_ONE: Final = 0.02
"""The share of those that run together below which those that end together are few."""


class CallbackFuture(asyncio.Future[T]):
    """A future, awaited by one coroutine, that calls `ended` when it has a result."""

    ended: Callable[[], None] | None = None

    def set_result(self, result: T) -> None:
        """Set the result."""
        super().set_result(result)
        if self.ended is not None:
            self.ended()

    def set_exception(self, exception: type | BaseException) -> None:
        """Set an exception as the result."""
        super().set_exception(exception)
        if self.ended is not None:
            self.ended()

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel it."""
        cancelled = super().cancel(msg)
        if cancelled and self.ended is not None:
            self.ended()
        return cancelled


async def gather_all(awaitables: Iterable[Awaitable[T]], *, max_concurrency: int | None = None) -> list[T]:
    """Await all concurrently, or at most `max_concurrency` at a time; an exception is raised when all have ended.

    Each begins in its turn without waiting for the event loop, as eager tasks do in Python 3.12. So its
    `asyncio.current_task()` may be its caller's; `UserCallable` gives the user's coroutines tasks of their own.
    """
    results = await _Gathering(awaitables, inf if max_concurrency is None else max_concurrency).results()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def gather_two(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    """`gather_all` for two of different types."""
    results: Any = await gather_all([one, other])
    return results[0], results[1]


async def gather_results(awaitables: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """Await all at once, as `gather_all`; return the results, or the exceptions, in order."""
    return await _Gathering(awaitables, inf).results()


class _Gathering:
    """Coroutines that run together: their results, and those that wait, by number."""

    def __init__(self, awaitables: Iterable[Awaitable[Any]], max_concurrency: float) -> None:
        self._to_begin = enumerate(awaitables)
        self._max_concurrency = max_concurrency
        # Those that gather a few are gathered themselves, by one that gathers many.
        self._is_bounded = max_concurrency < inf
        self._results: list[Any] = []
        self._waiting: dict[int, tuple[Coroutine[Any, Any, Any], Context, CallbackFuture[Any]]] = {}
        self._tasks: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._need_loop: dict[int, tuple[Coroutine[Any, Any, Any], Context]] = {}
        self._ready: list[int] = []
        self._change: CallbackFuture[None] | None = None

    async def results(self) -> list[Any]:
        try:
            for number, each in self._to_begin:
                self._begin(number, each)
                if self._is_bounded:
                    await self._make_room()
            await self._enter_loop()
            while self._waiting or self._tasks:
                await self._next()
        except BaseException:
            self._cancel()
            raise
        return self._results

    async def _make_room(self) -> None:
        """Wait, where no other one may begin, until some have ended; the event loop has its turn.

        Half of them end at once, so that look-ups are few and large. Where they end one by one, as replies of a server
        come, the next begins at once.
        """
        if len(self._need_loop) >= self._max_concurrency:
            await self._enter_loop()
        begun = len(self._waiting) + len(self._tasks)
        if begun >= self._max_concurrency:
            while 2 * begun > self._max_concurrency:
                await self._next()
                before, begun = begun, len(self._waiting) + len(self._tasks)
                if 0 < before - begun < ONE_BY_ONE * self._max_concurrency:
                    break
        if _is_late():
            await self._turn()

    async def _enter_loop(self) -> None:
        """Continue in an event loop with the coroutines that need one."""
        if self._need_loop:
            await require_loop()
        begun, self._need_loop = self._need_loop, {}
        for number, (work, context) in begun.items():
            self._run(number, work, context)

    async def _next(self) -> None:
        """Resume the coroutines that are ready, or wait for one."""
        if not self._ready:
            self._change = CallbackFuture()
            await self._change
        ready, self._ready = self._ready, []
        for number in ready:
            work, context, _ = self._waiting.pop(number)
            self._run(number, work, context)
            if self._is_bounded and _is_late():
                await self._turn()

    def _begin(self, number: int, each: Awaitable[Any]) -> None:
        self._results.append(None)
        # The usual type at first: asyncio's test takes five times as long.
        if type(each) is CoroutineType or asyncio.iscoroutine(each):
            self._run(number, each, copy_context())
        elif is_inline():
            self._run(number, _awaited(each), copy_context())
        else:
            self._follow(number, asyncio.ensure_future(each), None)

    def _run(self, number: int, work: Coroutine[Any, Any, Any], context: Context) -> None:
        """Run a coroutine until it ends or waits."""
        try:
            wait = context.run(work.send, None)
        except StopIteration as stop:
            self._results[number] = stop.value
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if is_fatal(error):
                raise
            self._results[number] = error
        else:
            if wait is LOOP_REQUIRED:
                self._need_loop[number] = work, context
            elif isinstance(wait, CallbackFuture):
                wait.ended = partial(self._is_ready, number)
                self._waiting[number] = work, context, wait
            else:
                loop = asyncio.get_running_loop()
                self._follow(number, loop.create_task(_rest_of(work, wait), context=context), wait)

    def _follow(self, number: int, task: asyncio.Future[Any], wait: Any) -> None:
        self._tasks[number] = task, wait
        task.add_done_callback(partial(self._end_task, number))

    def _end_task(self, number: int, task: asyncio.Future[Any]) -> None:
        self._tasks.pop(number, None)
        try:
            self._results[number] = task.result()
        except BaseException as error:  # noqa: BLE001 - returned
            self._results[number] = error
        self._note_change()

    def _is_ready(self, number: int) -> None:
        self._ready.append(number)
        self._note_change()

    def _note_change(self) -> None:
        if self._change is not None:
            change, self._change = self._change, None
            _end(change)

    async def _turn(self) -> None:
        """Give the event loop its turn, where there is one."""
        if is_inline():
            _TURN.late = monotonic() + TURN_S
            return
        turn: CallbackFuture[None] = CallbackFuture()
        asyncio.get_running_loop().call_soon(_end_turn, turn)
        await turn

    def _cancel(self) -> None:
        for work, context, wait in self._waiting.values():
            wait.ended = None
            wait.cancel()
            _cancel_begun(work, context)
        for work, context in self._need_loop.values():
            _cancel_begun(work, context)
        for task, wait in self._tasks.values():
            task.cancel()
            # Of a task that has not begun: nobody else would cancel it.
            if asyncio.isfuture(wait):
                wait.cancel()


_TURN: Final = threading.local()  # `late`: when the loop of this thread is to have its turn


def _is_late() -> bool:
    """Whether the event loop has had no turn for long."""
    return monotonic() > getattr(_TURN, "late", 0.0)


def _end_turn(turn: CallbackFuture[None]) -> None:
    _TURN.late = monotonic() + TURN_S
    _end(turn)


def _cancel_begun(work: Coroutine[Any, Any, Any], context: Context) -> None:
    """Cancel a coroutine that has begun; if it waits again, as in a `finally`, it continues in a task."""
    try:
        wait = context.run(work.throw, asyncio.CancelledError())
    except BaseException:  # noqa: BLE001 - of something that is cancelled
        return
    if is_inline():
        with suppress(BaseException):
            context.run(work.close)
    else:
        asyncio.get_running_loop().create_task(_rest_of(work, wait), context=context)


async def _rest_of(work: Coroutine[Any, Any, T], wait: Any) -> T:
    """The rest of a coroutine that has begun, for a task: since Python 3.12 it takes no generator."""
    return await _rest(work, wait)


async def _awaited(each: Awaitable[T]) -> T:
    await require_loop()
    return await each


def _end(wait: CallbackFuture[None]) -> None:
    if not wait.done():
        wait.set_result(None)


@coroutine
def _rest(work: Coroutine[Any, Any, T], wait: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that has begun, and waits."""
    if asyncio.isfuture(wait):
        # As `await` does, for the task that will see it.
        wait._asyncio_future_blocking = True  # noqa: SLF001
    while True:
        try:
            step = partial(work.send, (yield wait))
        except BaseException as error:  # noqa: BLE001 - raised in the coroutine
            step = partial(work.throw, error)
        try:
            wait = step()
        except StopIteration as stop:
            return cast("T", stop.value)
