"""The user's retriever as a callable that may fail at a query and is asked the others."""

import inspect
from collections.abc import Callable
from typing import Any, Final

from pytest_rageval.errors import CallableError, QueryError, Unscored, ours
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.usercode import UserCallable

__all__ = ["PATIENCE", "PatientCallable"]

PATIENCE: Final = 5
"""At how many queries of a run it may fail before it answered one; then it is called no more in that run.

A server that is down is not waited for 400 times.
"""


class PatientCallable(UserCallable):
    """As `UserCallable`, but an error is that of its query; in the same run it stands for that query alone.

    Args:
        name: as there.
        function: likewise.
        loop: likewise.
        usable: whether a result is an answer.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        loop: PrivateLoop,
        *,
        usable: Callable[[object], bool],
    ) -> None:
        super().__init__(name, function, loop)
        self._usable = usable
        self._run = loop.runs
        self._answers = False
        self._failed: dict[tuple[Any, ...], QueryError] = {}

    async def call(self, *args: Any, **named: Any) -> Any:
        """As there.

        Raises:
            QueryError: it raised for this query.
            CallableError: it raised for the first queries of this run, and is asked no more.
            Unscored: it did; if it was not for a model that this package asks for it, it failed at this query.
        """
        try:
            return await super().call(*args, **named)
        except Unscored as unscored:
            if not ours(unscored):
                unscored.cause = "retriever"
            raise

    def answered(self) -> None:
        """Take note that a result was usable."""
        self._answers = True

    def fail_at(self, args: tuple[Any, ...], message: str, reason: str) -> QueryError:
        """The error for an unusable result.

        Args:
            args: of the call, the query first.
            message: what it did, for which query, and what it should do.
            reason: what it did, in a line.
        """
        return self._remember(args, QueryError(f"{self.name} {message}", f"{self.name} {reason}"))

    def _known(self, args: tuple[Any, ...]) -> CallableError | None:
        if self._run != self._loop.runs:
            self._run, self._answers, self._failed = self._loop.runs, False, {}
        return super()._known(args) or self._failed.get(args)

    def _guarded(self, *args: Any, **named: Any) -> Any:
        result = super()._guarded(*args, **named)
        # Noted where it was called, for the next calls may fail there before the loop has seen this result.
        if not self._answers and not inspect.isawaitable(result):
            self._answers = self._usable(result)
        return result

    def _raised(self, args: tuple[Any, ...], error: BaseException) -> CallableError:
        raised = QueryError.raised(f"{self.name} raised for {args[0]!r}", error)
        return self._remember(args, QueryError(str(raised), f"{self.name} raised {_line(error)}"))

    def _remember(self, args: tuple[Any, ...], error: QueryError) -> QueryError:
        self._failed[args] = error
        queries = {query for query, *_ in self._failed}
        if not self._answers and len(queries) >= PATIENCE:
            self._end(next(iter(self._failed.values())))
        return error


def _line(error: BaseException) -> str:
    """An exception in a line: reports show it among others."""
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return first
