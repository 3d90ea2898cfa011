"""What `BackgroundEventLoop` is made of: the thread of the loop, and a pool of daemon threads."""

import asyncio
import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextvars import Context
from functools import partial
from io import FileIO
from time import monotonic
from typing import Any, Final, TypeVar, cast

from pytest_rageval.calls.gathering import TICK_INTERVAL_S
from pytest_rageval.core.errors import CallableError, ReplyPending, innermost_user_frame

T = TypeVar("T")

CallResult = tuple[T | None, BaseException | None]
"""The result and the exception of a call; one of them is None."""

PendingCall = tuple[Callable[[], CallResult[Any]], asyncio.Future[CallResult[Any]]]
"""A call of a user's function, and the future that receives what it returns."""

FLUSH_INTERVAL_S: Final = 0.005  # how long results of short calls are collected before the loop is woken

CLOSE_TIMEOUT_S: Final = 5.0  # how long `close` waits for code that blocks the loop
CLOSE_PATIENCE_S: Final = (
    30.0  # how long it waits if nothing blocks the loop, as while a store does not answer
)
TO_THREAD_WORKERS: Final = 32  # number of threads for `asyncio.to_thread`

ENDED_MESSAGE: Final = "The event loop in which async retrievers, generators and judges are called has ended"

CANCELLED_MESSAGE: Final = (
    "The evaluation was cancelled by code that it called in its event loop, such as\n"
    "  for task in asyncio.all_tasks(): task.cancel()\n"
    "in an async retriever, generator or judge. The loop also runs the tasks of this package: cancel only the tasks "
    "that your code has created."
)


class DaemonThreadPool(ThreadPoolExecutor):
    """A thread pool that does not keep the process alive; the interpreter waits for the threads of other executors."""

    def __init__(self, threads: int, name: str = "rageval") -> None:
        super().__init__(threads)
        self._max_threads = threads
        self._name = name
        self._calls: queue.SimpleQueue[Callable[[], bool]] = queue.SimpleQueue()
        self._started = 0

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def call() -> bool:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - raised by `result`
                    future.set_exception(error)
            return True

        self._calls.put(call)
        if self._started < self._max_threads:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """End each thread after its current call, without waiting; pending calls are dropped."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
        for _ in range(self._started):
            self._calls.put(lambda: False)

    def _work(self) -> None:
        # A call returns False to end the thread.
        while self._calls.get()():
            pass


class _PipeEnd(FileIO):
    """One end of a pipe that does not block, with the methods of a socket that asyncio calls."""

    def __init__(self, descriptor: int, mode: str) -> None:
        super().__init__(descriptor, mode)
        os.set_blocking(descriptor, False)

    def recv(self, size: int) -> bytes | None:
        return self.read(size)

    def send(self, data: bytes) -> None:
        """Write bytes; if the pipe is full, nothing needs to be written. OSError if another thread has closed it."""
        try:
            self.write(data)
        except ValueError as error:
            raise OSError(str(error)) from None


class _PipeEventLoop(asyncio.SelectorEventLoop):
    _ssock: _PipeEnd
    _csock: _PipeEnd

    def _make_self_pipe(self) -> None:
        # As the method of asyncio, which other threads and `close` use through these attributes.
        reading, writing = os.pipe()
        self._ssock, self._csock = _PipeEnd(reading, "rb"), _PipeEnd(writing, "wb")
        self._internal_fds += 1  # type: ignore[attr-defined]
        self._add_reader(reading, self._read_from_self)  # type: ignore[attr-defined]


class LoopThread(threading.Thread):
    """A thread that runs an event loop until `close`.

    `threads` call the user's sync functions; 1 means the thread that waits in `run_to_end`, one call at a time.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(name="rageval", daemon=True)
        self._pool = DaemonThreadPool(threads) if threads > 1 else None
        # Calls are passed in lists, because waking a thread takes longer than most calls. An empty list only wakes it.
        self._calls: queue.SimpleQueue[list[PendingCall]] = queue.SimpleQueue()
        self._new_calls: list[PendingCall] = []
        self._closing = False
        # A KeyboardInterrupt that was raised in the loop, until a caller has raised it; and what has broken the loop.
        self._interruption: KeyboardInterrupt | None = None
        self.fault: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop = new_event_loop()
        self.loop.set_default_executor(DaemonThreadPool(TO_THREAD_WORKERS))
        self.start()

    def run_to_end(
        self,
        coroutine: Coroutine[Any, Any, T],
        tick: Callable[[], None],
        cancel_callbacks: Iterable[Callable[[], None]],
    ) -> T:
        """Run a coroutine as `BackgroundEventLoop.run` does; if it is cancelled, the callbacks run in the loop."""
        self._cancel_calls()
        future = self.submit(coroutine)
        future.add_done_callback(lambda _: self._wake())
        try:
            while not future.done():
                with contextlib.suppress(queue.Empty):
                    self._run_calls(self._calls.get(timeout=TICK_INTERVAL_S), tick)
                self.check()
                tick()
        except BaseException:
            if not self._has_ended:
                future.cancel()
                for callback in cancel_callbacks:
                    self._call_in_loop(callback)
            self._cancel_calls()
            raise
        return self.result(future)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def wait(self, coroutine: Coroutine[Any, Any, T], tick: Callable[[], None]) -> T:
        """Run a coroutine whose functions other threads call, and return its result."""
        future = self.submit(coroutine)
        try:
            while not wait([future], TICK_INTERVAL_S).done:
                self.check()
                tick()
        except BaseException:
            if not self._has_ended:
                future.cancel()
            raise
        return self.result(future)

    def result(self, future: Future[T]) -> T:
        """Return the result of a future that is done; CallableError if it was cancelled, and as `check`."""
        self.check()
        try:
            return future.result()
        except CancelledError:
            raise CallableError(CANCELLED_MESSAGE) from None

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a sync function from a coroutine of the loop."""
        job: Callable[[], CallResult[T]] = partial(_call_result, function, args)
        if self._pool is None:
            future: asyncio.Future[CallResult[T]] = self.loop.create_future()
            if not self._new_calls:
                # The calls of this iteration of the loop are passed on together, in its next iteration.
                self.loop.call_soon(self._queue_new_calls)
            self._new_calls.append((job, future))
            result, error = await future
        else:
            result, error = await self.loop.run_in_executor(self._pool, job)
        if error is not None:
            raise error
        return cast("T", result)

    def _queue_new_calls(self) -> None:
        self._calls.put(self._new_calls)
        self._new_calls = []

    def _run_calls(self, calls: list[PendingCall], tick: Callable[[], None]) -> None:
        finished: list[tuple[asyncio.Future[Any], CallResult[Any]]] = []
        last_flush = monotonic()
        try:
            for job, future in calls:
                if not future.cancelled():
                    finished.append((future, job()))
                if monotonic() - last_flush >= FLUSH_INTERVAL_S:
                    self._call_in_loop(_set_results, finished)
                    finished, last_flush = [], monotonic()
                tick()
        except BaseException:
            # This exception ends the run. The calls are queued again, so that `run_to_end` cancels them before their
            # coroutines can begin other calls.
            self._calls.put(calls)
            raise
        finally:
            self._call_in_loop(_set_results, finished)

    def _call_in_loop(self, function: Callable[..., object], *args: Any) -> None:
        # A loop that has failed is closed.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *args)

    def _cancel_calls(self) -> None:
        """Cancel all queued calls, and wait until their coroutines have seen the cancellation."""
        cancelled: list[PendingCall] = []
        with contextlib.suppress(queue.Empty):
            while True:
                cancelled += self._calls.get_nowait()
        if cancelled and not self._has_ended:
            self._call_in_loop(_cancel, cancelled)
            # After two iterations of the loop the coroutines have seen the cancellation. The timeout is for a loop
            # that the user's code blocks.
            with contextlib.suppress(TimeoutError):
                self.submit(_two_iterations()).result(timeout=TICK_INTERVAL_S)

    @property
    def _has_ended(self) -> bool:
        return self._closing or self.fault is not None

    def _wake(self) -> None:
        self._calls.put([])

    def check(self) -> None:
        """Raise the KeyboardInterrupt that was raised in the loop, if any; CallableError if the loop has failed."""
        if self._interruption is not None:
            error, self._interruption = self._interruption, None
            raise error
        if self.fault is not None:
            raise CallableError.from_exception(ENDED_MESSAGE, self.fault)

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None) -> str | None:
        """Run a last coroutine, cancel all others and end the thread; see `BackgroundEventLoop.close`."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self.fault is not None:
            return None
        self._closing = True
        last_future = asyncio.run_coroutine_threadsafe(
            asyncio.sleep(0) if last is None else last(), self.loop
        )
        until = monotonic() + CLOSE_PATIENCE_S
        is_done = bool(wait([last_future], CLOSE_TIMEOUT_S).done)
        while not is_done and self._answers() and monotonic() < until:
            is_done = bool(wait([last_future], CLOSE_TIMEOUT_S).done)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join(CLOSE_TIMEOUT_S if is_done else 0.0)
        if self.is_alive():
            return self._user_line() if not is_done else "a coroutine that goes on after it was cancelled"
        last_future.result()
        return None

    def _answers(self) -> bool:
        answered = threading.Event()
        self.loop.call_soon_threadsafe(answered.set)
        return answered.wait(1.0)

    def _user_line(self) -> str:
        frame = sys._current_frames().get(self.ident or 0)  # noqa: SLF001 - there is no public function
        line = None if frame is None else innermost_user_frame(traceback.extract_stack(frame))
        return "code that has just ended" if line is None else f"{line.filename}:{line.lineno} in {line.name}"

    def run(self) -> None:
        """Run the loop until `close` ends it, cancel its tasks and close it."""
        asyncio.set_event_loop(self.loop)
        try:
            # The user's code may stop the loop, but other coroutines wait for it.
            while not self._closing:
                # asyncio lets these two exceptions leave the loop, after it has stored them in their task.
                try:
                    self.loop.run_forever()
                except KeyboardInterrupt as error:
                    self._interruption = error
                    self._wake()
                except SystemExit:
                    pass
            self.loop.run_until_complete(_cancel_others())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        except BaseException as error:  # noqa: BLE001 - raised in the threads that wait
            if not self._closing:
                self.fault = error
                self._wake()
        finally:
            with contextlib.suppress(Exception):
                self.loop.close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop that opens no socket; on Windows, the usual one."""
    return asyncio.new_event_loop() if sys.platform == "win32" else _PipeEventLoop()


async def continue_in_loop(work: Coroutine[Any, Any, T], context: Context) -> T:
    """Continue a coroutine that was started without a loop, in the context that it was started in."""
    return await asyncio.get_running_loop().create_task(work, context=context)


async def _two_iterations() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _set_results(finished: Sequence[tuple[asyncio.Future[Any], CallResult[Any]]]) -> None:
    for future, result in finished:
        if not future.done():
            future.set_result(result)


def _cancel(calls: Sequence[PendingCall]) -> None:
    """Cancel the calls that have no result, so that no coroutine awaits them for ever."""
    for _, future in calls:
        future.cancel()


def _call_result(function: Callable[..., T], args: tuple[Any, ...]) -> CallResult[T]:
    """Call a function and return its result or exception; a future cannot hold exceptions such as StopIteration."""
    try:
        return function(*args), None
    except (Exception, ReplyPending) as error:  # noqa: BLE001 - raised in the calling coroutine
        return None, error
