"""`BackgroundEventLoop`: an asyncio event loop in a background thread, which runs evaluations.

It is used if an evaluation waits for model requests or for the user's async code. A second loop cannot run in the
thread of an async test or a notebook, which already runs one. The user's sync functions are called in the thread of the
test, because some objects, such as a SQLite connection, may be used only in the thread that created them.

A run of ranking scores with a sync retriever needs no loop, and does not import asyncio.
"""

import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextvars import copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pytest_rageval.calls.gathering import (
    NOT_FINISHED,
    TICK_INTERVAL_S,
    call_user_function,
    is_inline,
    run_inline,
)
from pytest_rageval.core.errors import CallableError
from pytest_rageval.lib.lazy import Lazy

if TYPE_CHECKING:
    from pytest_rageval.calls.threads import LoopThread

T = TypeVar("T")

# Runs of sync retrievers alone need no thread.
new_loop_thread: Final = Lazy("calls.threads", "LoopThread")
continue_in_loop: Final = Lazy("calls.threads", "continue_in_loop")

AWAITED_TICK_INTERVAL_S: Final = 1.0  # the interval per caller of `await_result`: there may be a thousand


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
        self._thread: LoopThread | None = None
        self._process = os.getpid()
        self._start_lock = threading.Lock()
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
        if inline and self._threads == 1 and not in_asyncio():
            context = copy_context()
            result = run_inline(coroutine, context, self._tick_if_due)
            if result is not NOT_FINISHED:
                return cast("T", result)
            coroutine = continue_in_loop(coroutine, context)
        return self._start_thread(coroutine).run_to_end(coroutine, self._tick_if_due, self.cancel_callbacks)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return its future without waiting.

        It is for threads that do not wait in `run`, and so do not run the functions that are passed to `call`.
        """
        return self._start_thread(coroutine).submit(coroutine)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Start a coroutine and wait for its result, in any thread except the loop's own."""
        return self._start_thread(coroutine).wait(coroutine, self._tick)

    async def await_result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in this loop and await its result in another one, of asyncio or trio.

        If the caller is cancelled, the coroutine is not.
        """
        thread = self._start_thread(coroutine)
        future = thread.submit(coroutine)
        if not in_asyncio():
            import anyio  # noqa: PLC0415 - for trio alone

            await anyio.to_thread.run_sync(wait, [future], abandon_on_cancel=True)
            return thread.result(future)
        import asyncio  # noqa: PLC0415 - see the module

        result = asyncio.wrap_future(future)
        if self.in_loop_thread:
            return await asyncio.shield(result)
        while not (await asyncio.wait([result], timeout=AWAITED_TICK_INTERVAL_S))[0]:
            thread.check()
            self._tick()
        return thread.result(future)

    @property
    def in_loop_thread(self) -> bool:
        """Whether the current thread is the loop's own, in which `wait` would block for ever."""
        return threading.current_thread() is self._thread

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a sync function from a coroutine: in the thread that waits in `run`, or in the thread pool."""
        if is_inline():
            self._tick_if_due()
            return call_user_function(function, *args)
        if self._thread is not None:
            return await self._thread.call(function, *args)
        import asyncio  # noqa: PLC0415 - see the module

        # The loop is being closed, so no call may begin.
        raise asyncio.CancelledError

    def _tick_if_due(self) -> None:
        if monotonic() - self._last_tick >= TICK_INTERVAL_S:
            self._tick()
            self._last_tick = monotonic()

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
        thread = self._thread
        if self.forked or thread is None:
            return None
        if thread.fault is None:
            self._thread = None
        return thread.close(last)

    def _refuse_process(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Raise CallableError if this process is a fork, or if a library has replaced its threads."""
        patcher = _find_thread_patcher()
        if self.forked or patcher is not None:
            # The coroutine is closed, so that Python does not warn that it was never awaited.
            coroutine.close()
            raise CallableError(FORKED_MESSAGE if self.forked else PATCHED_MESSAGE.format(patcher))

    def _start_thread(self, coroutine: Coroutine[Any, Any, Any]) -> "LoopThread":
        """Return the thread of the loop, started now if there is none; if that cannot be, close the coroutine."""
        self._refuse_process(coroutine)
        with self._start_lock:
            if self._thread is None:
                self._thread = new_loop_thread(self._threads)
            thread = self._thread
        if thread.fault is not None:
            # Coroutines of this loop were lost, and others would wait for them in another loop.
            coroutine.close()
            thread.check()
        return thread


FORKED_MESSAGE: Final = (
    "rageval was called in a forked process, but its background thread exists only in the parent process.\n"
    "Call it in the process that runs the tests; or let multiprocessing start new processes instead of forking: "
    'multiprocessing.get_context("spawn").'
)

PATCHED_MESSAGE: Final = (
    "rageval cannot work in this process: {0} has monkey-patched Python's threads, and the background event loop "
    "would hang.\nRun these tests in a process without it."
)


def _find_thread_patcher() -> str | None:
    """Return the library, gevent or eventlet, that has monkey-patched threads, or None; imports neither of them."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "select", "queue"))):
        return "gevent.monkey"
    if eventlet is not None and any(map(eventlet.is_monkey_patched, ("thread", "select"))):
        return "eventlet.monkey_patch"
    return None


def in_asyncio() -> bool:
    if "asyncio" not in sys.modules:
        return False
    import asyncio  # noqa: PLC0415 - see the module

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
