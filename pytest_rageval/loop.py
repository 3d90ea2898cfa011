"""A private event loop, and the way back from it to the calling thread.

Evaluation is asynchronous, tests are not, and some tests run inside a loop of
their own (async tests, notebooks). So the loop lives in a thread. The user's
synchronous callables must not: a SQLite connection, say, may be used only in
the thread that opened it. While the caller waits for the loop, it therefore
serves the calls that the loop hands back to it.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["PrivateLoop"]

T = TypeVar("T")

TICK_S = 0.1


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
        self._pool = ThreadPoolExecutor(threads, "rageval") if threads > 1 else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run to completion, and return or raise what the coroutine does.

        An exception in the calling thread meanwhile (Ctrl-C, a timeout plugin)
        cancels the coroutine and goes on upwards.
        """
        # A queue of its own for every run: what a cancelled run left is not served by the next.
        jobs = self._jobs = queue.SimpleQueue()
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        future.add_done_callback(lambda _: jobs.put(lambda: None))
        try:
            while not future.done():
                with contextlib.suppress(queue.Empty):
                    jobs.get(timeout=TICK_S)()
                self._tick()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a synchronous function from a coroutine: in the thread that waits in `run`."""
        loop = asyncio.get_running_loop()
        if self._pool is not None:
            return await loop.run_in_executor(self._pool, function, *args)
        future: asyncio.Future[T] = loop.create_future()

        def deliver(setter: Callable[[Any], None], outcome: Any) -> None:
            if not future.done():
                setter(outcome)

        def job() -> None:
            try:
                result = function(*args)
            except Exception as error:  # noqa: BLE001 - handed on to the coroutine that asked
                loop.call_soon_threadsafe(deliver, future.set_exception, error)
            else:
                loop.call_soon_threadsafe(deliver, future.set_result, result)

        self._jobs.put(job)
        return await future

    @property
    def started(self) -> bool:
        """Whether anything has run."""
        return self._loop is not None

    def close(self) -> None:
        """Cancel what still runs and end the thread; the next `run` starts another."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="rageval", daemon=True)
            self._thread.start()
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
