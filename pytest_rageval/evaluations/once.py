"""Work that several ask for and one does."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar, cast

from pytest_rageval.answers.votes import rests_on, tallied
from pytest_rageval.errors import CallableError
from pytest_rageval.stats.votes import Tally

__all__ = ["Once"]

T = TypeVar("T")


class Once:
    """Does each piece of work when the first asks for it; the others wait, and get the same.

    For one event loop. An error is kept like a result, but for one of the user's own code. The
    votes behind a verdict count for everybody who gets it.
    """

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Future[tuple[Any, Tally]]] = {}

    async def of(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the work gives.

        Args:
            key: what sets it apart from all other work.
            make: begins it.
        """
        if key not in self._tasks or _may_be_tried_again(self._tasks[key]):
            self._tasks[key] = asyncio.ensure_future(tallied(make()))
        # Shielded: one who no longer waits must not cancel what others wait for.
        result, votes = await asyncio.shield(cast("asyncio.Future[tuple[T, Tally]]", self._tasks[key]))
        rests_on(key, votes)
        return result


def _may_be_tried_again(task: "asyncio.Future[Any]") -> bool:
    """What an interrupted run left, or what the user's own code failed at, which a later test may not."""
    return task.done() and (task.cancelled() or isinstance(task.exception(), CallableError))
