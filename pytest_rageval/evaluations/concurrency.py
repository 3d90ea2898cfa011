"""Work in the event loop of a run: each piece once for all that need it, and a bounded number at a time."""

import asyncio
import marshal
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from hashlib import blake2b
from typing import Any, TypeVar, cast

from pytest_rageval.answers import judge_protocol as judges
from pytest_rageval.conversation import Question
from pytest_rageval.errors import CallableError
from pytest_rageval.stats.agreement import Tally

__all__ = ["SingleFlight", "gather_all", "gather_two"]

T = TypeVar("T")
U = TypeVar("U")


class SingleFlight:
    """Does each piece of work when the first asks for it; the others wait for the same result.

    For one event loop. An error is kept like a result, except one of the user's own code. The
    votes behind a verdict count for each score that uses it.
    """

    def __init__(self) -> None:
        self._tasks: dict[bytes, asyncio.Future[tuple[Any, Tally]]] = {}
        # Of tasks that have ended: a task takes 1 kB beside its result.
        self._results: dict[bytes, tuple[Any, Tally]] = {}

    async def of(self, work: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work that `make` begins and `work` identifies."""
        key = _digest(work)
        if key not in self._results:
            if key not in self._tasks or _may_be_tried_again(self._tasks[key]):
                self._tasks[key] = asyncio.ensure_future(judges.with_tally(make()))
            # Shielded: a waiter that is cancelled must not cancel the work that others wait for.
            self._results[key] = await asyncio.shield(self._tasks[key])
            self._tasks.pop(key, None)
        result, votes = self._results[key]
        judges.add_tally(key, votes)
        return cast("T", result)

    def has(self, work: Hashable) -> bool:
        """Whether work has begun, and is not to be tried again."""
        key = _digest(work)
        return key in self._results or (key in self._tasks and not _may_be_tried_again(self._tasks[key]))

    def known(self, work: Hashable) -> Any:
        """The result of work that is done; None where there is none."""
        key = _digest(work)
        if key in self._results:
            return self._results[key][0]
        task = self._tasks.get(key)
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()[0]


def _digest(work: Hashable) -> bytes:
    """What identifies work, without the texts that it names."""
    try:
        # In this version without references, so that what is equal has equal bytes.
        data = marshal.dumps(cast("Any", work), 2)
    except ValueError:
        data = repr(_parts(work)).encode(errors="surrogatepass")
    return blake2b(data, digest_size=16).digest()


def _parts(work: Hashable) -> Hashable:
    """The parts by which two pieces of work differ; a question does so by the messages before it, too."""
    if isinstance(work, tuple):
        return tuple(map(_parts, work))
    if isinstance(work, Question) and work.history:
        return "after", tuple(tuple(sorted(message.items())) for message in work.history), str(work)
    return str(work) if isinstance(work, str) else work


def _may_be_tried_again(task: "asyncio.Future[Any]") -> bool:
    """Whether the work was interrupted, or failed in the user's own code, which may work in a later test."""
    return task.done() and (task.cancelled() or isinstance(task.exception(), CallableError))


async def gather_all(awaitables: Iterable[Awaitable[T]], *, at_once: int | None = None) -> list[T]:
    """Await all at once, or so many at a time; an exception is raised when all have ended."""
    if at_once is None:
        results: list[Any] = await asyncio.gather(*awaitables, return_exceptions=True)
    else:
        results = await _in_turn(awaitables, at_once)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("list[T]", results)


async def _in_turn(awaitables: Iterable[Awaitable[Any]], at_once: int) -> list[Any]:
    """The results, or the exceptions, in order. The next one is taken when another has ended."""
    results: list[Any] = []
    waiting = enumerate(awaitables)

    async def work() -> None:
        for number, each in waiting:
            results.append(None)
            try:
                results[number] = await each
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                results[number] = error
            # What needs no waiting must not keep the loop from others.
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(at_once)))
    return results


async def gather_two(one: Awaitable[T], other: Awaitable[U]) -> tuple[T, U]:
    """`gather_all` for two of different types."""
    first, second = await gather_all([cast("Awaitable[Any]", one), cast("Awaitable[Any]", other)])
    return first, second
