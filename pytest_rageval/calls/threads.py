"""What the background event loop is made of: a loop that is woken through a pipe, and a pool of daemon threads.

The coroutines that it runs in the loop.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from io import FileIO
from typing import Any, TypeVar

T = TypeVar("T")


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


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop that opens no socket; on Windows, the usual one."""
    return asyncio.new_event_loop() if sys.platform == "win32" else _PipeEventLoop()


async def continue_in_loop(work: Coroutine[Any, Any, T], context: Context) -> T:
    """Continue a coroutine that was started without a loop, in the context that it was started in."""
    return await asyncio.get_running_loop().create_task(work, context=context)


async def two_iterations() -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
