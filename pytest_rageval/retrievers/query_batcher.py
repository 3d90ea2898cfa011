"""Groups questions into batches for a retriever that takes many at once: those waiting now, or known to come next."""

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

MOST: Final = 100
"""The largest batch. Between two batches the progress line is updated."""


class QueryBatcher:
    """The results of a retriever's function `(queries, k)`, sync or async, by question.

    Args:
        name: of the fixture, for errors.
        many: the function.
        loop: the run's event loop.
    """

    def __init__(self, name: str, many: Callable[..., Any], loop: BackgroundEventLoop) -> None:
        self._name = name
        self._user = UserCallable(name, many, loop)
        self._waiting: defaultdict[int | None, list[tuple[str, CallbackFuture[Any]]]] = defaultdict(list)
        self._next: dict[Key, None] = {}
        self._found: dict[Key, Any] = {}
        self._asking = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def completion_counts(self) -> Counter[str]:
        """The number of completions that the function requested, by model."""
        return self._user.completion_counts

    def expect(self, questions: Iterable[str], k: int | None) -> None:
        """Note the questions that will be asked next, in this order, instead of those noted before."""
        self._next = dict.fromkeys((question, k) for question in questions)
        self._found.clear()
        self._asking = False

    async def of(self, question: str, k: int | None) -> Any:
        """What the function returns for a question.

        Raises:
            QueryError: the function raised, for this question or for another one of the batch.
            CallableError: it returned no list, or another number of results than of questions.
        """
        if self._user.is_async or self._asking:
            await require_loop()
        key = question, k
        if key not in self._found and not is_inline():
            promise: CallbackFuture[Any] = CallbackFuture()
            if not self._waiting:
                asyncio.get_running_loop().call_soon(self._ask_waiting)
            self._waiting[k].append((question, promise))
            return await promise
        if key not in self._found:
            self._next.pop(key, None)
            following = [each for each, _ in zip(self._next, range(MOST - 1), strict=False) if each[1] == k]
            for each in following:
                del self._next[each]
            # A function that returns an awaitable continues in a loop: the next question waits for it there.
            self._asking = True
            self._found |= await self._results_of([key, *following])
            self._asking = False
        found = self._found.pop(key)
        if isinstance(found, CallableError):
            raise found
        return found

    async def _results_of(self, batch: Sequence[Key]) -> dict[Key, Any]:
        """The results of a batch; if it failed, its error for each question."""
        try:
            results = await self._results([question for question, _ in batch], batch[0][1])
        except CallableError as error:
            return dict.fromkeys(batch, error)
        return dict(zip(batch, results, strict=True))

    def _ask_waiting(self) -> None:
        """Call the function for all questions that wait in this turn of the loop."""
        for k, waiting in self._waiting.items():
            for first in range(0, len(waiting), MOST):
                task = asyncio.get_running_loop().create_task(self._answer(waiting[first : first + MOST], k))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._waiting.clear()

    async def _answer(self, waiting: Sequence[tuple[str, CallbackFuture[Any]]], k: int | None) -> None:
        try:
            results = await self._results([question for question, _ in waiting], k)
        except BaseException as error:  # noqa: BLE001 - raised to all that wait
            for _, promise in waiting:
                if not promise.done():
                    promise.set_exception(error)
            return
        for (_, promise), result in zip(waiting, results, strict=True):
            if not promise.done():
                promise.set_result(result)

    async def _results(self, questions: list[str], k: int | None) -> list[Any]:
        """One result for each question."""
        found = await self._user.call(questions, k)
        if isinstance(found, list | tuple) and len(found) == len(questions):
            return list(found)
        what = f"{len(found)} results" if isinstance(found, list | tuple) else type(found).__name__
        raise CallableError(
            f"{self._name} returned {what} for {len(questions)} questions that it was asked at once.\n"
            "Return a list with one result for each question, in their order; [] is the result where nothing is found."
        )
