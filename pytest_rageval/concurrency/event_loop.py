"""`BackgroundEventLoop`: the event loop of evaluations, in a background thread.

Evaluations are async, tests are not, and some tests run in a loop of their own (async tests, notebooks). The
user's sync callables stay in the calling thread, since a SQLite connection, for example, may be used only
where it was made.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar, cast

from pytest_rageval.concurrency.garbage_collection import fewer_collections
from pytest_rageval.concurrency.gathering import CallbackFuture
from pytest_rageval.concurrency.inline import NOT_FINISHED, call_user_function, is_inline, run_inline
from pytest_rageval.errors import CallableError, ReplyPending, innermost_user_frame

__all__ = ["BackgroundEventLoop", "DaemonThreads", "in_asyncio"]

T = TypeVar("T")

TICK_S: Final = 0.1  # the interval of `tick`
AWAITED_TICK_S: Final = 1.0  # the interval of `tick` for each waiter in another loop: there may be a thousand
RETURN_S: Final = 0.005  # how long the outcomes of short calls are collected before the loop is woken
CLOSE_S: Final = 5.0  # how long closing waits for code that blocks the loop
POOL_THREADS: Final = 32  # threads for `asyncio.to_thread`


class BackgroundEventLoop:
    """Runs coroutines in a thread of its own, started at the first one; `runs` counts the calls of `run`.

    `threads` is the number of threads for sync callables; 1 means the thread that called `run`, one call at a time.
    `tick` is called in the calling thread about every tenth of a second while it waits.
    """

    def __init__(self, *, threads: int = 1, tick: Callable[[], None] | None = None) -> None:
        self._tick = tick or (lambda: None)
        self._threads = threads
        self._pool: DaemonThreads | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._starting = threading.Lock()
        # Lists, as waking a thread takes longer than most calls.
        self._calls: queue.SimpleQueue[list[_Call]] = queue.SimpleQueue()
        self._new_calls: list[_Call] = []
        self._on_cancel: list[Callable[[], None]] = []
        self._ticked = 0.0
        self.users: list[object] = []  # the parts of the user's code that it calls
        self.runs = 0

    def on_cancel(self, drop: Callable[[], None]) -> None:
        """Call a function in the loop's thread where a run is cancelled."""
        self._on_cancel.append(drop)

    def run(self, coroutine: Coroutine[Any, Any, T], *, inline: bool = False) -> T:
        """Run a coroutine to completion; sync calls that it makes through `call` run in this thread.

        With `inline` all of it runs in this thread, without the loop, until it waits for something: a run that asks no
        model and whose retriever is sync never does.

        An exception here meanwhile (Ctrl-C, a timeout plugin) cancels the coroutine and its pending calls, which
        must not run in a later test, and is raised.
        """
        self._refuse_if_patched(coroutine)
        self.runs += 1
        self._ticked = -TICK_S
        with fewer_collections():
            if not inline or self._threads > 1 or in_asyncio():
                return self._run_in_loop(coroutine)
            context = copy_context()
            result = run_inline(coroutine, context)
            return (
                cast("T", result)
                if result is not NOT_FINISHED
                else self._run_in_loop(_rest(coroutine, context))
            )

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._started_for(coroutine)
        self._drop_calls()
        future = self.submit(coroutine)
        # To wake up this thread.
        future.add_done_callback(lambda _: self._calls.put([]))
        try:
            while not future.done():
                with contextlib.suppress(queue.Empty):
                    self._make(self._calls.get(timeout=TICK_S))
                self._tick_in_time()
        except BaseException:
            future.cancel()
            loop = self._loop
            if loop is not None:
                for drop in self._on_cancel:
                    loop.call_soon_threadsafe(drop)
            self._drop_calls()
            raise
        return future.result()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return its future; for threads that do not serve calls meanwhile."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started_for(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Start a coroutine and wait for its result, in any thread but the loop's."""
        future = self.submit(coroutine)
        try:
            while not wait([future], TICK_S).done:
                self._tick()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def await_result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine's result in any loop, asyncio's or trio's; a cancelled caller does not cancel it."""
        future = self.submit(coroutine)
        if not in_asyncio():
            import anyio  # noqa: PLC0415 - installed with the openai client

            await anyio.to_thread.run_sync(wait, [future], abandon_on_cancel=True)
            return future.result()
        result = asyncio.wrap_future(future)
        while not self.in_loop_thread and not (await asyncio.wait([result], timeout=AWAITED_TICK_S))[0]:
            self._tick()
        return await asyncio.shield(result)

    @property
    def in_loop_thread(self) -> bool:
        """Whether this is the loop's own thread, where `wait` would never return."""
        return threading.current_thread() is self._thread

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a sync function from a coroutine: in the thread that waits in `run`, or in the pool."""
        if is_inline():
            self._tick_in_time()
            return call_user_function(function, *args)
        loop = asyncio.get_running_loop()
        job: Callable[[], Outcome[T]] = partial(_outcome, function, args)
        if self._threads == 1:
            call = _Call(job, CallbackFuture())
            if not self._new_calls:
                # After all calls of this turn of the loop.
                loop.call_soon(self._hand_over)
            self._new_calls.append(call)
            result, error = await call.outcome
        elif self._pool is not None:
            result, error = await loop.run_in_executor(self._pool, job)
        else:
            # The loop is being closed: nothing begins any more.
            raise asyncio.CancelledError
        if error is not None:
            raise error
        return cast("T", result)

    def _hand_over(self) -> None:
        """Give the new calls to the thread that waits in `run`."""
        self._calls.put(self._new_calls)
        self._new_calls = []

    def _make(self, calls: "list[_Call]") -> None:
        """Make calls in this thread, but for cancelled ones."""
        made: list[tuple[_Call, Outcome[Any]]] = []
        returned = monotonic()
        try:
            for call in calls:
                if not call.outcome.cancelled():
                    made.append((call, call.job()))
                if monotonic() - returned >= RETURN_S:
                    self._in_loop(_set_outcomes, made)
                    made, returned = [], monotonic()
                self._tick_in_time()
        except BaseException:
            # It ends the run: `run` cancels that first, so that no other call begins in the place of these.
            self._calls.put(calls)
            raise
        finally:
            self._in_loop(_set_outcomes, made)

    def _tick_in_time(self) -> None:
        if monotonic() - self._ticked >= TICK_S:
            self._tick()
            self._ticked = monotonic()

    def _in_loop(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function in the loop's thread, unless the loop is closed."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, *args)

    def _drop_calls(self) -> None:
        dropped: list[_Call] = []
        with contextlib.suppress(queue.Empty):
            while True:
                dropped += self._calls.get_nowait()
        if dropped:
            self._in_loop(_cancel, dropped)
            # After two turns of the loop the coroutines have seen the cancellation. Do not wait for a loop that
            # the user's code blocks.
            with contextlib.suppress(TimeoutError):
                self.submit(_two_turns()).result(timeout=TICK_S)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that made the loop, without its thread."""
        return os.getpid() != self._process

    @property
    def started(self) -> bool:
        """Whether anything has run."""
        return self._loop is not None

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> str | None:
        """Run `last`, cancel running coroutines and end the thread; the next `run` starts another.

        The code that blocks the loop for longer than `CLOSE_S` is returned. The thread then ends with the process.
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
        ending = asyncio.run_coroutine_threadsafe(asyncio.sleep(0) if last is None else last(), loop)
        ended = bool(wait([ending], CLOSE_S).done)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S if ended else 0.0)
        if thread.is_alive():
            return _user_line(thread) if not ended else "a coroutine that goes on after it was cancelled"
        ending.result()
        return None

    def _refuse_if_patched(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        patched = _patched()
        if self.forked or patched is not None:
            # Closed, so that Python does not warn that it was never awaited.
            coroutine.close()
            raise CallableError(FORKED if self.forked else PATCHED.format(patched))

    def _started_for(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        self._refuse_if_patched(coroutine)
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(DaemonThreads(POOL_THREADS))
                self._pool = DaemonThreads(self._threads) if self._threads > 1 else None
                run = partial(_serve, self._loop)
                self._thread = threading.Thread(target=run, name="rageval", daemon=True)
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
    """Return the library that has patched threads, if one has; it is not imported for that."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and any(map(gevent.is_module_patched, ("threading", "select", "queue"))):
        return "gevent.monkey"
    if eventlet is not None and any(map(eventlet.is_monkey_patched, ("thread", "select"))):
        return "eventlet.monkey_patch"
    return None


def _user_line(thread: threading.Thread) -> str:
    """Return the line of the user's code at which a thread is."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - there is no public function
    line = None if frame is None else innermost_user_frame(traceback.extract_stack(frame))
    return "code that has just ended" if line is None else f"{line.filename}:{line.lineno} in {line.name}"


class DaemonThreads(ThreadPoolExecutor):
    """A pool whose threads end with the process: at exit the interpreter would wait for those of any other."""

    def __init__(self, threads: int, name: str = "rageval") -> None:
        super().__init__(threads)
        self._most = threads
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._started = 0

    def submit(self, function: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        """Have a thread call a function, and return the future of its result."""
        future: Future[T] = Future()

        def call() -> bool:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **named))
                except BaseException as error:  # noqa: BLE001 - raised by `result`
                    future.set_exception(error)
            return True

        self._calls.put(call)
        if self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """End each thread after its current call; pending calls are dropped."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
        for _ in range(self._started):
            self._calls.put(lambda: False)

    def _work(self) -> None:
        while self._calls.get()():
            pass


@dataclass(eq=False, slots=True)
class _Call:
    job: "Callable[[], Outcome[Any]]"
    outcome: "CallbackFuture[Outcome[Any]]"


def _set_outcomes(made: "Sequence[tuple[_Call, Outcome[Any]]]") -> None:
    for call, outcome in made:
        if not call.outcome.done():
            call.outcome.set_result(outcome)


def _cancel(calls: "Sequence[_Call]") -> None:
    """Cancel the calls that have no outcome, so that none is awaited for ever."""
    for call in calls:
        call.outcome.cancel()


def in_asyncio() -> bool:
    """Whether an event loop of asyncio is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _rest(work: Coroutine[Any, Any, T], context: Context) -> T:
    """Go on with a coroutine that was begun without a loop."""
    return await asyncio.get_running_loop().create_task(work, context=context)


async def _two_turns() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


Outcome = tuple[T | None, BaseException | None]


def _outcome(function: Callable[..., T], args: tuple[Any, ...]) -> Outcome[T]:
    """Return the result and the exception of a call: a future cannot hold every exception."""
    try:
        return function(*args), None
    except (Exception, ReplyPending) as error:  # noqa: BLE001 - raised in the calling coroutine
        return None, error


async def _cancel_others() -> None:
    """Cancel all other tasks of the loop and wait for them."""
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
