"""Runs coroutines: many at once, and without an event loop.

`run_inline` runs a coroutine in the calling thread, without an event loop, as long as it does not have to wait. It is
used if the retriever is synchronous and no model is called: then the whole evaluation never waits, and no thread is
started. A call of the user's function takes less than 1 µs, compared with 25 µs if it is passed from the loop's thread
to the calling thread and awaited (Python 3.11). Code that needs an event loop awaits `require_loop` before it creates a
future or a task. The coroutine then continues in an event loop.

`gather_all` is an `asyncio.gather` without a task for each coroutine, for the thousands of coroutines of an evaluation,
most of whose results are cached. A task costs about 5 µs, even if its coroutine never waits; `gather_all` runs such a
coroutine in less than 1 µs (Python 3.11). It resumes a coroutine when its `CallbackFuture` has a result; those whose
results arrive together, such as the replies of one look-up, are resumed together. A coroutine that awaits any other
future becomes a task.
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

from pytest_rageval.core.errors import ReplyPending

T = TypeVar("T")

LOOP_REQUIRED: Final = object()  # yielded by a coroutine that cannot continue without an event loop
NOT_FINISHED: Final = object()  # returned for a coroutine that must continue in an event loop

_state: Final = threading.local()
"""Its attribute `inline` is True while this thread runs a coroutine by `run_inline`; `next_yield` is the time
(`monotonic`) at which `gather_all` in this thread yields to the event loop again."""


def is_inline() -> bool:
    """Whether the current coroutine is run by `run_inline`, in this thread."""
    return getattr(_state, "inline", False)


def run_inline(work: Coroutine[Any, Any, Any], context: Context) -> Any:
    """Run a coroutine in this thread; return its result, or `NOT_FINISHED` if it must continue in an event loop."""
    was_inline = is_inline()
    _state.inline = True
    try:
        while context.run(work.send, None) is not LOOP_REQUIRED:
            # The coroutine awaited `asyncio.sleep(0)`, which lets other tasks run; there are none.
            pass
    except StopIteration as stop:
        return stop.value
    finally:
        _state.inline = was_inline
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


def is_fatal(error: BaseException) -> bool:
    """Whether an exception must end the whole inline run, not just one of its coroutines: Ctrl-C or a test timeout."""
    return is_inline() and not isinstance(error, (Exception, ReplyPending))


U = TypeVar("U")

YIELD_INTERVAL_S: Final = 0.05
"""After this time, coroutines that do not wait yield to the event loop."""

MIN_BATCH_SHARE: Final = 0.02
"""If fewer than this share of `max_concurrency` finish together, they finish one by one and not in batches."""


class CallbackFuture(asyncio.Future[T]):
    """A future, awaited by a single coroutine, that calls `on_done` as soon as it is done.

    asyncio's own callbacks are called in the next iteration of the event loop.
    """

    on_done: Callable[[], None] | None = None

    def set_result(self, result: T) -> None:
        super().set_result(result)
        if self.on_done is not None:
            self.on_done()

    def set_exception(self, exception: type | BaseException) -> None:
        super().set_exception(exception)
        if self.on_done is not None:
            self.on_done()

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and self.on_done is not None:
            self.on_done()
        return cancelled


async def gather_all(awaitables: Iterable[Awaitable[T]], *, max_concurrency: int | None = None) -> list[T]:
    """Await all awaitables concurrently and return their results in order.

    If any of them raises, the first exception is raised after all have finished. Coroutines start immediately, one
    after the other, like eager tasks in Python 3.12. So `asyncio.current_task()` in a coroutine may be the task of the
    caller; `UserCallable` gives the user's coroutines tasks of their own.
    """
    results = await _GatherCall(awaitables, inf if max_concurrency is None else max_concurrency).run()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def gather_two(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    results: Any = await gather_all([one, other])
    return results[0], results[1]


async def gather_results(awaitables: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """Await all awaitables concurrently; return the results or exceptions, in order."""
    return await _GatherCall(awaitables, inf).run()


class _GatherCall:
    """One call of `gather_all`: its coroutines, identified by their index, and their results."""

    def __init__(self, awaitables: Iterable[Awaitable[Any]], max_concurrency: float) -> None:
        self._not_started = enumerate(awaitables)
        self._max_concurrency = max_concurrency
        # Calls without a limit gather a few coroutines, and run inside a call with a limit, which yields to the loop.
        self._is_limited = max_concurrency < inf
        self._results: list[Any] = []
        self._waiting: dict[int, tuple[Coroutine[Any, Any, Any], Context, CallbackFuture[Any]]] = {}
        self._tasks: dict[int, tuple[asyncio.Future[Any], Any]] = {}
        self._need_loop: dict[int, tuple[Coroutine[Any, Any, Any], Context]] = {}
        self._ready: list[int] = []
        self._wake_up: CallbackFuture[None] | None = None

    async def run(self) -> list[Any]:
        try:
            for index, awaitable in self._not_started:
                self._start(index, awaitable)
                if self._is_limited:
                    await self._wait_for_capacity()
            await self._enter_loop()
            while self._waiting or self._tasks:
                await self._resume_ready()
        except BaseException:
            self._cancel()
            raise
        return self._results

    async def _wait_for_capacity(self) -> None:
        """If the limit is reached, wait until some coroutines have finished; yield to the event loop if it is due.

        In general it waits until half of them have finished, so that look-ups are few and large. If they finish one by
        one, like replies of a server, the next coroutine starts immediately.
        """
        if len(self._need_loop) >= self._max_concurrency:
            await self._enter_loop()
        running = len(self._waiting) + len(self._tasks)
        if running >= self._max_concurrency:
            while 2 * running > self._max_concurrency:
                await self._resume_ready()
                before, running = running, len(self._waiting) + len(self._tasks)
                if 0 < before - running < MIN_BATCH_SHARE * self._max_concurrency:
                    break
        if _is_yield_due():
            await self._yield_to_loop()

    async def _enter_loop(self) -> None:
        if self._need_loop:
            await require_loop()
        started, self._need_loop = self._need_loop, {}
        for index, (work, context) in started.items():
            self._step(index, work, context)

    async def _resume_ready(self) -> None:
        """Resume the coroutines that are ready; if there are none, wait until one is ready or a task is done."""
        if not self._ready:
            self._wake_up = CallbackFuture()
            await self._wake_up
        ready, self._ready = self._ready, []
        for index in ready:
            work, context, _ = self._waiting.pop(index)
            self._step(index, work, context)
            if self._is_limited and _is_yield_due():
                await self._yield_to_loop()

    def _start(self, index: int, awaitable: Awaitable[Any]) -> None:
        self._results.append(None)
        # The exact type is compared first, since `asyncio.iscoroutine` takes five times as long.
        if type(awaitable) is CoroutineType or asyncio.iscoroutine(awaitable):
            self._step(index, awaitable, copy_context())
        elif is_inline():
            self._step(index, _await_in_loop(awaitable), copy_context())
        else:
            self._track_task(index, asyncio.ensure_future(awaitable), None)

    def _step(self, index: int, work: Coroutine[Any, Any, Any], context: Context) -> None:
        try:
            awaited = context.run(work.send, None)
        except StopIteration as stop:
            self._results[index] = stop.value
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if is_fatal(error):
                raise
            self._results[index] = error
        else:
            if awaited is LOOP_REQUIRED:
                self._need_loop[index] = work, context
            elif isinstance(awaited, CallbackFuture):
                awaited.on_done = partial(self._on_future_done, index)
                self._waiting[index] = work, context, awaited
            else:
                loop = asyncio.get_running_loop()
                task = loop.create_task(_continue_in_task(work, awaited), context=context)
                self._track_task(index, task, awaited)
                task.add_done_callback(partial(_cancel_abandoned, work, context))

    def _track_task(self, index: int, task: asyncio.Future[Any], awaited: Any) -> None:
        self._tasks[index] = task, awaited
        task.add_done_callback(partial(self._on_task_done, index))

    def _on_task_done(self, index: int, task: asyncio.Future[Any]) -> None:
        self._tasks.pop(index, None)
        try:
            self._results[index] = task.result()
        except BaseException as error:  # noqa: BLE001 - returned as a result
            self._results[index] = error
        self._wake()

    def _on_future_done(self, index: int) -> None:
        self._ready.append(index)
        self._wake()

    def _wake(self) -> None:
        if self._wake_up is not None:
            wake_up, self._wake_up = self._wake_up, None
            _resolve(wake_up)

    async def _yield_to_loop(self) -> None:
        """Let the event loop run one iteration, if there is a loop."""
        if is_inline():
            _state.next_yield = monotonic() + YIELD_INTERVAL_S
            return
        iteration: CallbackFuture[None] = CallbackFuture()
        asyncio.get_running_loop().call_soon(_end_iteration, iteration)
        await iteration

    def _cancel(self) -> None:
        for work, context, awaited in self._waiting.values():
            awaited.on_done = None
            awaited.cancel()
            _cancel_started(work, context)
        for work, context in self._need_loop.values():
            _cancel_started(work, context)
        for task, awaited in self._tasks.values():
            task.cancel()
            # A task that was cancelled before its first step does not cancel the future that it would have awaited.
            if asyncio.isfuture(awaited):
                awaited.cancel()


def _is_yield_due() -> bool:
    return monotonic() > getattr(_state, "next_yield", 0.0)


def _end_iteration(iteration: CallbackFuture[None]) -> None:
    _state.next_yield = monotonic() + YIELD_INTERVAL_S
    _resolve(iteration)


def _cancel_started(work: Coroutine[Any, Any, Any], context: Context) -> None:
    """Cancel a coroutine that has started; if it awaits something again, as in a `finally`, it continues in a task."""
    try:
        awaited = context.run(work.throw, asyncio.CancelledError())
    except BaseException:  # noqa: BLE001 - the coroutine is cancelled, so nobody needs its error
        return
    if is_inline():
        with suppress(BaseException):
            context.run(work.close)
    else:
        asyncio.get_running_loop().create_task(_continue_in_task(work, awaited), context=context)


def _cancel_abandoned(work: Coroutine[Any, Any, Any], context: Context, task: asyncio.Future[Any]) -> None:
    """Cancel a coroutine whose task was cancelled before its first step; without effect if the coroutine has ended."""
    if task.cancelled():
        _cancel_started(work, context)


async def _continue_in_task(work: Coroutine[Any, Any, T], awaited: Any) -> T:
    """Continue a started coroutine as a coroutine: since Python 3.12 a task does not accept a generator."""
    return await _continue(work, awaited)


async def _await_in_loop(awaitable: Awaitable[T]) -> T:
    await require_loop()
    return await awaitable


def _resolve(future: CallbackFuture[None]) -> None:
    if not future.done():
        future.set_result(None)


@coroutine
def _continue(work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    if asyncio.isfuture(awaited):
        # `await` sets this flag too; the task that runs this generator checks it.
        awaited._asyncio_future_blocking = True  # noqa: SLF001
    while True:
        try:
            step = partial(work.send, (yield awaited))
        except BaseException as error:  # noqa: BLE001 - raised in the coroutine
            step = partial(work.throw, error)
        try:
            awaited = step()
        except StopIteration as stop:
            return cast("T", stop.value)
