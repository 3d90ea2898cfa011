"""`BackgroundEventLoop`: an asyncio event loop in a background thread, which runs evaluations.

It is used if an evaluation waits for model requests or for the user's async code. A second loop cannot run in the
thread of an async test or a notebook, which already runs one. The user's sync functions are called in the thread of the
test, because some objects, such as a SQLite connection, may be used only in the thread that created them.

A run of ranking scores with a sync retriever needs no loop, and does not import asyncio.
"""

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future, wait
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.calls.gathering import (
    NOT_FINISHED,
    call_user_function,
    is_inline,
    run_inline,
)
from pytest_rageval.core.errors import CallableError, ReplyPending
from pytest_rageval.lib.lazy import Lazy

if TYPE_CHECKING:
    import asyncio

    from pytest_rageval.calls.threads import DaemonThreadPool, LoopThread

    # A call of a user's function; the future receives what it returns.
    PendingCall = tuple[Callable[[], "CallResult[Any]"], asyncio.Future["CallResult[Any]"]]

T = TypeVar("T")

# Runs of sync retrievers alone need no thread.
new_loop_thread: Final = Lazy("calls.threads", "LoopThread")
new_thread_pool: Final = Lazy("calls.threads", "DaemonThreadPool")
continue_in_loop: Final = Lazy("calls.threads", "continue_in_loop")
two_iterations: Final = Lazy("calls.threads", "two_iterations")

TICK_INTERVAL_S: Final = 0.1  # the interval of `tick`
AWAITED_TICK_INTERVAL_S: Final = 1.0  # the interval per caller of `await_result`: there may be a thousand
FLUSH_INTERVAL_S: Final = 0.005  # how long results of short calls are collected before the loop is woken


class BackgroundEventLoop:
    """Runs coroutines in an event loop in a thread of its own, which starts with the first coroutine.

    Whatever the user's code does in the loop, a caller does not wait for ever: a KeyboardInterrupt is raised in the
    caller, a loop that was stopped goes on, and a caller whose coroutine was cancelled gets CallableError.

    `threads` call the user's sync functions; 1 means the thread that called `run`, one call at a time. `tick` is called
    in the calling thread about every tenth of a second while it waits. `runs` counts the calls of `run`; the objects
    that wrap the user's code are in `user_callables`.
    """

    def __init__(self, *, threads: int = 1, tick: Callable[[], None] | None = None) -> None:
        self._tick = tick or (lambda: None)
        self._threads = threads
        self._pool: DaemonThreadPool | None = None
        self._thread: LoopThread | None = None
        self._process = os.getpid()
        self._start_lock = threading.Lock()
        # Calls are passed in lists, because waking a thread takes longer than most calls.
        self._calls: queue.SimpleQueue[list[PendingCall]] = queue.SimpleQueue()
        self._new_calls: list[PendingCall] = []
        # Called in the loop's thread whenever a run is cancelled.
        self.cancel_callbacks: list[Callable[[], None]] = []
        self._last_tick = 0.0
        self.user_callables: list[object] = []
        self.runs: int = 0

    def run(self, coroutine: Coroutine[Any, Any, T], *, inline: bool = False) -> T:
        """Run a coroutine to completion and return its result; functions passed to `call` run in this thread.

        If an exception is raised in this thread meanwhile (Ctrl-C, a timeout plugin), the coroutine and its pending
        calls are cancelled, so that they do not run in a later test, and the exception is raised. With `inline` it runs
        in this thread, without the loop, until it has to wait, as without models and async code it never does.
        """
        self._refuse_process(coroutine)
        self.runs += 1
        self._last_tick = -TICK_INTERVAL_S
        if not inline or self._threads > 1 or in_asyncio():
            return self._run_in_loop(coroutine)
        context = copy_context()
        result = run_inline(coroutine, context, self._tick_if_due)
        if result is NOT_FINISHED:
            result = self._run_in_loop(continue_in_loop(coroutine, context))
        return cast("T", result)

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._start_loop(coroutine)
        self._cancel_calls()
        future = self.submit(coroutine)
        # An empty list of calls wakes this thread.
        future.add_done_callback(lambda _: self._calls.put([]))
        try:
            while not future.done():
                with contextlib.suppress(queue.Empty):
                    self._run_calls(self._calls.get(timeout=TICK_INTERVAL_S))
                self._check_loop()
                self._tick_if_due()
        except BaseException:
            if self.started:
                future.cancel()
                for callback in self.cancel_callbacks:
                    self._call_in_loop(callback)
            self._cancel_calls()
            raise
        return self._result(future)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return its future without waiting.

        It is for threads that do not wait in `run`, and so do not run the functions that are passed to `call`.
        """
        import asyncio  # noqa: PLC0415 - see the module

        return asyncio.run_coroutine_threadsafe(coroutine, self._start_loop(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Start a coroutine and wait for its result, in any thread except the loop's own."""
        future = self.submit(coroutine)
        try:
            while not wait([future], TICK_INTERVAL_S).done:
                self._check_loop()
                self._tick()
        except BaseException:
            if self.started:
                future.cancel()
            raise
        return self._result(future)

    async def await_result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this loop and await its result in another one, of asyncio or trio.

        If the caller is cancelled, the coroutine is not.
        """
        future = self.submit(coroutine)
        if not in_asyncio():
            import anyio  # noqa: PLC0415 - for trio alone

            await anyio.to_thread.run_sync(wait, [future], abandon_on_cancel=True)
            return self._result(future)
        import asyncio  # noqa: PLC0415 - see the module

        result = asyncio.wrap_future(future)
        if self.in_loop_thread:
            return await asyncio.shield(result)
        while not (await asyncio.wait([result], timeout=AWAITED_TICK_INTERVAL_S))[0]:
            self._check_loop()
            self._tick()
        return self._result(future)

    def _check_loop(self) -> None:
        if self._thread is not None:
            self._thread.check()

    def _result(self, future: Future[T]) -> T:
        """Return the result of a future that is done; CallableError if it was cancelled, and as `LoopThread.check`."""
        self._check_loop()
        try:
            return future.result()
        except CancelledError:
            raise CallableError(CANCELLED_MESSAGE) from None

    @property
    def in_loop_thread(self) -> bool:
        """Whether the current thread is the loop's own, in which `wait` would block for ever."""
        return threading.current_thread() is self._thread

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a sync function from a coroutine: in the thread that waits in `run`, or in the thread pool."""
        if is_inline():
            self._tick_if_due()
            return call_user_function(function, *args)
        import asyncio  # noqa: PLC0415 - see the module

        loop = asyncio.get_running_loop()
        job: Callable[[], CallResult[T]] = partial(_call_result, function, args)
        if self._threads == 1:
            future: asyncio.Future[CallResult[T]] = loop.create_future()
            if not self._new_calls:
                # The calls of this iteration of the loop are passed on together, in its next iteration.
                loop.call_soon(self._queue_new_calls)
            self._new_calls.append((job, future))
            result, error = await future
        elif self._pool is not None:
            result, error = await loop.run_in_executor(self._pool, job)
        else:
            # The loop is being closed, so no call may begin.
            raise asyncio.CancelledError
        if error is not None:
            raise error
        return cast("T", result)

    def _queue_new_calls(self) -> None:
        self._calls.put(self._new_calls)
        self._new_calls = []

    def _run_calls(self, calls: "list[PendingCall]") -> None:
        finished: list[tuple[asyncio.Future[Any], CallResult[Any]]] = []
        last_flush = monotonic()
        try:
            for job, future in calls:
                if not future.cancelled():
                    finished.append((future, job()))
                if monotonic() - last_flush >= FLUSH_INTERVAL_S:
                    self._call_in_loop(_set_results, finished)
                    finished, last_flush = [], monotonic()
                self._tick_if_due()
        except BaseException:
            # This exception ends the run. The calls are queued again, so that `run` cancels them before their
            # coroutines can begin other calls.
            self._calls.put(calls)
            raise
        finally:
            self._call_in_loop(_set_results, finished)

    def _tick_if_due(self) -> None:
        if monotonic() - self._last_tick >= TICK_INTERVAL_S:
            self._tick()
            self._last_tick = monotonic()

    def _call_in_loop(self, function: Callable[..., object], *args: Any) -> None:
        if self._thread is not None:
            with contextlib.suppress(RuntimeError):
                self._thread.loop.call_soon_threadsafe(function, *args)

    def _cancel_calls(self) -> None:
        """Cancel all queued calls, and wait until their coroutines have seen the cancellation."""
        cancelled: list[PendingCall] = []
        with contextlib.suppress(queue.Empty):
            while True:
                cancelled += self._calls.get_nowait()
        if cancelled:
            self._call_in_loop(_cancel, cancelled)
            # After two iterations of the loop the coroutines have seen the cancellation. The timeout is for a loop
            # that the user's code blocks.
            with contextlib.suppress(TimeoutError):
                self.submit(two_iterations()).result(timeout=TICK_INTERVAL_S)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the process that created this object; the loop's thread is not in it."""
        return os.getpid() != self._process

    @property
    def started(self) -> bool:
        return self._thread is not None and self._thread.fault is None

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> str | None:
        """Run a last coroutine, cancel all others and end the thread; the next `run` starts another thread.

        Returns None if the thread has ended. Otherwise it ends with the process, and the result is what keeps it from
        ending: the line of code that blocks the loop, or a coroutine that ignores its cancellation.
        """
        if self.forked:
            return None
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        thread = self._thread
        if thread is None or thread.fault is not None:
            return None
        self._thread = None
        return thread.close(last)

    def _refuse_process(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Raise CallableError if this process is a fork, or if a library has replaced its threads."""
        patcher = _find_thread_patcher()
        if self.forked or patcher is not None:
            # The coroutine is closed, so that Python does not warn that it was never awaited.
            coroutine.close()
            raise CallableError(FORKED_MESSAGE if self.forked else PATCHED_MESSAGE.format(patcher))

    def _start_loop(self, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.AbstractEventLoop":
        """Return the loop, started now if there is none; if that cannot be, close the coroutine."""
        self._refuse_process(coroutine)
        with self._start_lock:
            if self._thread is None:
                self._thread = new_loop_thread(wake=partial(self._calls.put, []))
                self._pool = new_thread_pool(self._threads) if self._threads > 1 else None
            thread = self._thread
        if thread.fault is not None:
            # Coroutines of this loop were lost, and others would wait for them in another loop.
            coroutine.close()
            thread.check()
        return thread.loop


FORKED_MESSAGE: Final = (
    "rageval was called in a forked process, but its background thread exists only in the parent process.\n"
    "Call it in the process that runs the tests; or let multiprocessing start new processes instead of forking: "
    'multiprocessing.get_context("spawn").'
)

PATCHED_MESSAGE: Final = (
    "rageval cannot work in this process: {0} has monkey-patched Python's threads, and the background event loop "
    "would hang.\nRun these tests in a process without it."
)

CANCELLED_MESSAGE: Final = (
    "The evaluation was cancelled by code that it called in its event loop, such as\n"
    "  for task in asyncio.all_tasks(): task.cancel()\n"
    "in an async retriever, generator or judge. The loop also runs the tasks of this package: cancel only the tasks "
    "that your code has created."
)


def _find_thread_patcher() -> str | None:
    """Return the library, gevent or eventlet, that has monkey-patched threads, or None; imports neither of them."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "select", "queue"))):
        return "gevent.monkey"
    if eventlet is not None and any(map(eventlet.is_monkey_patched, ("thread", "select"))):
        return "eventlet.monkey_patch"
    return None


def _set_results(finished: "Sequence[tuple[asyncio.Future[Any], CallResult[Any]]]") -> None:
    for future, result in finished:
        if not future.done():
            future.set_result(result)


def _cancel(calls: "Sequence[PendingCall]") -> None:
    """Cancel the calls that have no result, so that no coroutine awaits them for ever."""
    for _, future in calls:
        future.cancel()


def in_asyncio() -> bool:
    if "asyncio" not in sys.modules:
        return False
    import asyncio  # noqa: PLC0415 - see the module

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


CallResult = tuple[T | None, BaseException | None]
"""The result and the exception of a call; one of them is None."""


def _call_result(function: Callable[..., T], args: tuple[Any, ...]) -> CallResult[T]:
    """Call a function and return its result or exception; a future cannot hold exceptions such as StopIteration."""
    try:
        return function(*args), None
    except (Exception, ReplyPending) as error:  # noqa: BLE001 - raised in the calling coroutine
        return None, error
