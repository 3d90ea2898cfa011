"""The event loop that evaluations run in: a thread of its own beside the tests.

Evaluations are asynchronous, tests are not, and some tests run inside a loop of their own (async tests,
notebooks). So the package's loop lives in a thread. The user's synchronous callables stay in the calling
thread: a SQLite connection, for instance, may only be used where it was made.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final, NamedTuple, TypeVar, cast

from pytest_rageval.errors import CallableError, own_line

__all__ = ["PrivateLoop", "in_asyncio"]

T = TypeVar("T")

TICK_S = 0.1

AWAITED_TICK_S: Final = 1.0
"""Of each that waits in a loop of the test's own: there may be a thousand."""

CLOSE_S: Final = 5.0
"""How long closing waits for code that holds the loop up."""

POOL: Final = 32
"""Most threads of what async code hands to `asyncio.to_thread`."""


class PrivateLoop:
    """Runs coroutines in a thread of its own, started at the first one.

    Args:
        threads: in how many threads synchronous callables run. 1 means the
            thread that called `run`, one call at a time.
        tick: called in the calling thread every tenth of a second or so while
            it waits; a progress display hangs here.
    """

    def __init__(self, *, threads: int = 1, tick: Callable[[], None] | None = None) -> None:
        self._tick = tick or (lambda: None)
        self._threads = threads
        self._pool: _DaemonThreads | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._starting = threading.Lock()
        self._jobs: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self.runs = 0
        """How often `run` was called: tells what happened in this one from what is past."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to completion, and return or raise what the coroutine does.

        An exception in the calling thread meanwhile (Ctrl-C, a timeout plugin)
        cancels the coroutine and goes on upwards. Calls that nobody served are
        cancelled too: they must not be made in the middle of a later test.
        """
        self._started_for(coroutine)
        self._drop_calls()
        self.runs += 1
        future = self.submit(coroutine)
        future.add_done_callback(lambda _: self._jobs.put(_WAKE_UP))
        try:
            while not future.done():
                with contextlib.suppress(queue.Empty):
                    self._jobs.get(timeout=TICK_S).make()
                self._tick()
        except BaseException:
            future.cancel()
            self._drop_calls()
            raise
        return future.result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run to completion beside whatever else runs; for threads that do not serve calls meanwhile."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started_for(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """`submit`, and wait for the result; for a thread that is not the loop's."""
        future = self.submit(coroutine)
        try:
            while not wait([future], TICK_S).done:
                self._tick()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def awaited(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """`submit`, and wait for the result in any event loop: of asyncio, or of trio through anyio.

        Who is cancelled while it waits does not end it.
        """
        future = self.submit(coroutine)
        if not in_asyncio():
            import anyio  # noqa: PLC0415 - of the openai client, and only where it is needed

            await anyio.to_thread.run_sync(_wait_for, future, abandon_on_cancel=True)
            return future.result()
        result = asyncio.wrap_future(future)
        while not self.here and not (await asyncio.wait([result], timeout=AWAITED_TICK_S))[0]:
            self._tick()
        return await asyncio.shield(result)

    @property
    def here(self) -> bool:
        """Whether this is the loop's own thread, in which waiting for `submit` would never end."""
        return threading.current_thread() is self._thread

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a synchronous function from a coroutine: in the thread that waits in `run`."""
        loop = asyncio.get_running_loop()
        if self._threads > 1:
            pool = self._pool
            if pool is None:
                # The loop is being closed: nothing begins any more.
                raise asyncio.CancelledError
            outcome = await loop.run_in_executor(pool, _outcome, function, args)
        else:
            outcome = await self._called_back(loop, function, args)
        result, error = outcome
        if error is not None:
            raise error
        return cast("T", result)

    async def _called_back(
        self, loop: asyncio.AbstractEventLoop, function: Callable[..., T], args: tuple[Any, ...]
    ) -> "Outcome[T]":
        future: asyncio.Future[Outcome[T]] = loop.create_future()

        def deliver(outcome: "Outcome[T]") -> None:
            if not future.done():
                future.set_result(outcome)

        def job() -> None:
            if future.done():
                return
            try:
                outcome = _outcome(function, args)
            except BaseException:
                # It ends the run in the calling thread; who waits here must not wait for ever.
                loop.call_soon_threadsafe(future.cancel)
                raise
            loop.call_soon_threadsafe(deliver, outcome)

        self._jobs.put(_Call(job, lambda: loop.call_soon_threadsafe(future.cancel)))
        return await future

    def _drop_calls(self) -> None:
        dropped = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._jobs.get_nowait().drop()
                dropped = True
        if dropped:
            # Twice round the loop: then those who waited for the calls know. A loop that is held up
            # by the user's code is not waited for.
            with contextlib.suppress(TimeoutError):
                twice = asyncio.run_coroutine_threadsafe(_twice_round(), self._started())
                twice.result(timeout=TICK_S)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that made the loop: the thread is not in it."""
        return os.getpid() != self._process

    @property
    def started(self) -> bool:
        """Whether anything has run."""
        return self._loop is not None

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> str | None:
        """Cancel what still runs and end the thread; the next `run` starts another.

        Args:
            last: what is to run before.

        Returns:
            None; or, where code held the loop up for longer than `CLOSE_S`, what code that is. The thread is
            then left behind, and ends with the process.
        """
        if self.forked:
            return None
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return None
        self._loop = self._thread = None
        ending = asyncio.run_coroutine_threadsafe((last or _nothing)(), loop)
        ended = bool(wait([ending], CLOSE_S).done)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S if ended else 0.0)
        if thread.is_alive():
            return _where(thread) if not ended else "a coroutine that goes on after it was cancelled"
        ending.result()
        return None

    def _started_for(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        try:
            return self._started()
        except CallableError:
            # It will not run: closed, it is not warned of.
            coroutine.close()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        if self.forked:
            raise CallableError(FORKED)
        patched = _patched()
        if patched is not None:
            raise CallableError(PATCHED.format(patched))
        # Several of the user's threads may ask first.
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(_DaemonThreads(POOL))
                self._pool = _DaemonThreads(self._threads) if self._threads > 1 else None
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="rageval", daemon=True
                )
                self._thread.start()
            return self._loop


FORKED: Final = (
    "rageval was called in a forked process, and the thread that works for it is in the process that forked.\n"
    "Call it there, in the process that runs the tests; or let multiprocessing start processes anew: "
    'multiprocessing.get_context("spawn").'
)

PATCHED: Final = (
    "rageval cannot work in this process: {0} has replaced threads and waiting by its own, and the event loop in "
    "a thread would hang.\nRun these tests in a process that is not patched."
)


def _patched() -> str | None:
    """The library that has replaced what the loop is built on, where one has."""
    # Looked up where it is loaded: it is not ours to import.
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "select", "queue"))):
        return "gevent.monkey"
    if eventlet is not None and any(map(eventlet.is_monkey_patched, ("thread", "select"))):
        return "eventlet.monkey_patch"
    return None


def _where(thread: threading.Thread) -> str:
    """The line of the user's that a thread is at."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - there is no other way
    own = None if frame is None else own_line(traceback.extract_stack(frame))
    return "code that has just ended" if own is None else f"{own.filename}:{own.lineno} in {own.name}"


class _DaemonThreads(ThreadPoolExecutor):
    """A pool whose threads end with the process: the user's code in one of them may never return.

    The interpreter waits at its exit for the threads of any other pool.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._most = threads
        self._calls: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._started = 0

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """See `concurrent.futures.Executor`."""
        future: Future[T] = Future()

        def call() -> bool:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **named))
                except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                    future.set_exception(error)
            return True

        self._calls.put(call)
        if self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name=f"rageval-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """End the threads that are idle, and the others after their call; what has not begun does not begin."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
        for _ in range(self._started):
            self._calls.put(lambda: False)

    def _work(self) -> None:
        while self._calls.get()():
            pass


class _Call(NamedTuple):
    """A call for the waiting thread: how to make it, and how to tell that it is not made."""

    make: Callable[[], None]
    drop: Callable[[], object]


_WAKE_UP: Final = _Call(lambda: None, lambda: None)


def in_asyncio() -> bool:
    """Whether the running event loop is one of asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _wait_for(future: Future[Any]) -> None:
    wait([future])


async def _nothing() -> None:
    pass


async def _twice_round() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


Outcome = tuple[T | None, Exception | None]


def _outcome(function: Callable[..., T], args: tuple[Any, ...]) -> Outcome[T]:
    """What a call returned or raised, as a value: a future does not carry every exception."""
    try:
        return function(*args), None
    except Exception as error:  # noqa: BLE001 - handed on to the coroutine that asked
        return None, error


async def _cancel_others() -> None:
    """Cancel everything else in the loop, and wait for its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
