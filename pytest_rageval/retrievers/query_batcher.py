"""Groups questions into batches for a retriever that accepts several in one call: waiting and announced questions."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import is_inline, require_loop
from pytest_rageval.calls.user_code import InvalidResult, UserCallable, call_errors, error_result
from pytest_rageval.core.errors import CallableError, RagevalError, Unscored

Key = tuple[str, int | None]

InFlight = dict[Key, list[asyncio.Future[Any]]]
"""The questions whose call is running, each with the futures of the coroutines that wait for its result."""

MAX_BATCH: Final = 100
"""The most questions in a batch. Between two batches the progress line is updated."""


class QueryBatcher:
    """Calls a retriever's function `(queries, k)`, sync or async, for batches, and splits the result by question."""

    def __init__(
        self,
        name: str,
        retrieve_many: Callable[..., Any],
        loop: BackgroundEventLoop,
        read: Callable[[Any], Any],
    ) -> None:
        self._name = name
        self._read = read
        self._user = UserCallable(name, retrieve_many, loop, read=self._read_results)
        self._waiting: defaultdict[int | None, list[tuple[str, asyncio.Future[Any]]]] = defaultdict(list)
        self._expected: dict[Key, None] = {}
        self._fetched: dict[Key, Any] = {}
        self._loop = loop
        self._running: tuple[int, InFlight] = loop.runs, {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def completion_counts(self) -> Counter[str]:
        return self._user.completion_counts

    def expect(self, questions: Iterable[str], k: int | None) -> None:
        """Announce the questions that follow, in this order, in place of an earlier announcement."""
        self._expected = dict.fromkeys((question, k) for question in questions)
        self._fetched.clear()

    @property
    def _in_flight(self) -> InFlight:
        # Those of an earlier run were interrupted.
        if self._running[0] != self._loop.runs:
            self._running = self._loop.runs, {}
        return self._running[1]

    async def result(self, question: str, k: int | None) -> Any:
        """Return the function's converted result for a question; raise its own error, or that of its batch."""
        if self._user.is_async or self._in_flight:
            await require_loop()
        key = question, k
        if key in self._fetched:
            result = self._fetched.pop(key)
        elif key in self._in_flight or not is_inline():
            result = await self._add_waiting(key)
        else:
            result = await self._call_with_expected(key)
        if isinstance(result, Exception):
            raise result.with_traceback(None)
        return result

    def _add_waiting(self, key: Key) -> "asyncio.Future[Any]":
        """Return a future of the result: of the call in flight, or of a call for all questions that wait."""
        question, k = key
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if key in self._in_flight:
            self._in_flight[key].append(future)
            return future
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._call_for_waiting)
        self._waiting[k].append((question, future))
        return future

    async def _call_with_expected(self, key: Key) -> Any:
        """Call the function for a question and the announced questions; store their results, and return its own.

        If the function returns an awaitable, the call continues in an event loop, where the announced questions wait.
        """
        self._expected.pop(key, None)
        following = [other for other in islice(self._expected, MAX_BATCH - 1) if other[1] == key[1]]
        for other in following:
            del self._expected[other]
        batch, in_flight = [key, *following], self._in_flight
        in_flight |= {other: [] for other in batch}
        try:
            results = await self._results_by_key(batch)
        except BaseException:
            # The run was interrupted.
            for other in batch:
                for future in in_flight.pop(other):
                    future.cancel()
            raise
        for other, result in results.items():
            futures = in_flight.pop(other)
            for future in futures:
                if not future.done():
                    future.set_result(result)
            if not futures and other != key:
                self._fetched[other] = result
        return results[key]

    async def _results_by_key(self, batch: Sequence[Key]) -> dict[Key, Any]:
        try:
            results = await self._results([question for question, _ in batch], batch[0][1])
        except (RagevalError, Unscored) as error:
            return dict.fromkeys(batch, error)
        return dict(zip(batch, results, strict=True))

    def _call_for_waiting(self) -> None:
        """Start calls for all questions that are waiting in this iteration of the event loop."""
        for k, waiting in self._waiting.items():
            for first in range(0, len(waiting), MAX_BATCH):
                batch = waiting[first : first + MAX_BATCH]
                task = asyncio.get_running_loop().create_task(self._resolve(batch, k))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._waiting.clear()

    async def _resolve(self, waiting: Sequence[tuple[str, asyncio.Future[Any]]], k: int | None) -> None:
        try:
            results = await self._results([question for question, _ in waiting], k)
        except BaseException as error:  # noqa: BLE001 - raised in every waiting call
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def _results(self, questions: list[str], k: int | None) -> list[Any]:
        returned = await self._user.call(questions, k)
        is_list = isinstance(returned, list | tuple)
        if is_list and len(returned) == len(questions):
            return list(returned)
        what = f"{len(returned)} results" if is_list else type(returned).__name__
        raise CallableError(
            f"{self._name} returned {what} for {len(questions)} questions in one call.\n"
            "Return a list with one result for each question, in their order; [] is the result where nothing is found."
        )

    def _read_results(self, returned: Any) -> Any:
        """Convert the result of each question where the user's code may run; another value than a list is unchanged.

        An error concerns its question: it replaces the result.
        """
        return list(map(self._read_result, returned)) if isinstance(returned, list | tuple) else returned

    def _read_result(self, result: Any) -> Any:
        try:
            return self._read(result)
        except (InvalidResult, RagevalError, Unscored) as error:
            return error.with_traceback(None)
        except call_errors() as error:
            return error_result(error)
