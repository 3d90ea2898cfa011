"""Groups questions into batches for a retriever that accepts several in one call: waiting and announced questions."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.concurrency.gathering import CallbackFuture
from pytest_rageval.concurrency.inline import is_inline, require_loop
from pytest_rageval.errors import CallableError
from pytest_rageval.user_code import UserCallable

__all__ = ["QueryBatcher"]

Key = tuple[str, int | None]

MAX_BATCH: Final = 100
"""The most questions in a batch. Between two batches the progress line is updated."""


class QueryBatcher:
    """Calls a retriever's function `(queries, k)`, sync or async, for batches, and returns the result of each question.

    Args:
        name: the name of the fixture, for messages.
        retrieve_many: the function.
        loop: the run's event loop.
    """

    def __init__(self, name: str, retrieve_many: Callable[..., Any], loop: BackgroundEventLoop) -> None:
        self._name = name
        self._user = UserCallable(name, retrieve_many, loop)
        self._waiting: defaultdict[int | None, list[tuple[str, CallbackFuture[Any]]]] = defaultdict(list)
        self._expected: dict[Key, None] = {}
        self._fetched: dict[Key, Any] = {}
        self._is_calling = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def completion_counts(self) -> Counter[str]:
        """The number of completions that the function requested, by model."""
        return self._user.completion_counts

    def expect(self, questions: Iterable[str], k: int | None) -> None:
        """Announce the questions that follow, in this order. This replaces an earlier announcement."""
        self._expected = dict.fromkeys((question, k) for question in questions)
        self._fetched.clear()
        self._is_calling = False

    async def result(self, question: str, k: int | None) -> Any:
        """Return the function's result for a question.

        Raises:
            QueryError: the function raised for the batch of this question.
            CallableError: the function did not return a list with one result per question.
        """
        if self._user.is_async or self._is_calling:
            await require_loop()
        key = question, k
        if key not in self._fetched and not is_inline():
            future: CallbackFuture[Any] = CallbackFuture()
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._call_for_waiting)
            self._waiting[k].append((question, future))
            return await future
        if key not in self._fetched:
            self._expected.pop(key, None)
            following = [
                other for other, _ in zip(self._expected, range(MAX_BATCH - 1), strict=False) if other[1] == k
            ]
            for other in following:
                del self._expected[other]
            # If the function returns an awaitable, the call continues in an event loop, where other questions wait.
            self._is_calling = True
            self._fetched |= await self._results_by_key([key, *following])
            self._is_calling = False
        result = self._fetched.pop(key)
        if isinstance(result, CallableError):
            raise result
        return result

    async def _results_by_key(self, batch: Sequence[Key]) -> dict[Key, Any]:
        """Return the results of a batch by key; if the batch failed, its error for each key."""
        try:
            results = await self._results([question for question, _ in batch], batch[0][1])
        except CallableError as error:
            return dict.fromkeys(batch, error)
        return dict(zip(batch, results, strict=True))

    def _call_for_waiting(self) -> None:
        """Start calls for all questions that are waiting in this iteration of the event loop."""
        for k, waiting in self._waiting.items():
            for first in range(0, len(waiting), MAX_BATCH):
                task = asyncio.get_running_loop().create_task(
                    self._resolve(waiting[first : first + MAX_BATCH], k)
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._waiting.clear()

    async def _resolve(self, waiting: Sequence[tuple[str, CallbackFuture[Any]]], k: int | None) -> None:
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
        """Call the function, and return one result for each question."""
        returned = await self._user.call(questions, k)
        if isinstance(returned, list | tuple) and len(returned) == len(questions):
            return list(returned)
        what = f"{len(returned)} results" if isinstance(returned, list | tuple) else type(returned).__name__
        raise CallableError(
            f"{self._name} returned {what} for {len(questions)} questions in one call.\n"
            "Return a list with one result for each question, in their order; [] is the result where nothing is found."
        )
