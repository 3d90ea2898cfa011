"""Calls of the user's own functions, sync or async, and checks of what they return."""

import asyncio
import contextlib
import inspect
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

from pytest_rageval.errors import (
    CallableError,
    Cause,
    Planned,
    QueryError,
    RagevalError,
    Unscored,
    in_a_line,
    ours,
)
from pytest_rageval.event_loop import PrivateLoop

__all__ = [
    "FIRST",
    "Uncalled",
    "Unusable",
    "UserCallable",
    "as_number",
    "as_share",
    "is_async",
    "is_ours",
    "takes",
]


def as_number(given: Any) -> float | None:
    """A number of any kind, numpy's and truth values among them; None where it is none, as a text is none.

    >>> as_number(True), as_number("1")
    (1.0, None)
    """
    if isinstance(given, str | bytes):
        return None
    try:
        return float(given)
    except (TypeError, ValueError):
        return None


def as_share(given: Any) -> float | None:
    """A number in [0, 1]; None where it is none."""
    value = as_number(given)
    return value if value is not None and 0 <= value <= 1 else None


FIRST: Final = 5
"""At how many questions of a run a callable may fail before it has answered one; then it is called no more.

A server that is down is not waited for 400 times, and a wrong line of code does not cost 400 replies.
"""


class Unusable(Exception):  # noqa: N818 - what a result is, not an error of ours
    """What a callable returned cannot be used.

    Attributes:
        found: what it returned, in a line and without the question.
        message: the same in full, from the name of the callable on; `{question}` stands for the question.
    """

    def __init__(self, found: str, message: str) -> None:
        super().__init__(found)
        self.found = found
        self.message = message


class UserCallable:
    """A retriever, generator or judge as the user's fixture gave it.

    A sync one is called from the test's own thread, one call at a time: many
    are not thread-safe, and some may be used only where they were made. An
    async one is called in the event loop of the run, for all examples at once.

    What it fails at is one question: it raised there, or returned what cannot be used. It is called for the
    others, and not again for the same arguments in the same run. But where it fails in one way at the first
    `FIRST` questions and has answered none, it is called no more in that run: it would fail at all of them. So
    an async one is called for that many at once until it has answered.

    Args:
        name: of the fixture, and of the method if it is one, for errors.
        function: the callable, or the method of an object.
        loop: of the run.
        question: the place of the question among the arguments, for errors.
        cause: of what is unscored when it fails.
        read: makes of what it returned what is used; raises `Unusable`.
    """

    def __init__(  # noqa: PLR0913 - what is to be said of a callable
        self,
        name: str,
        function: Callable[..., Any],
        loop: PrivateLoop,
        question: int = 0,
        *,
        cause: Cause = "run",
        read: Callable[[Any], Any] = lambda result: result,
    ) -> None:
        self.name = name
        self._question = question
        self._cause: Cause = cause
        self._function = function
        self._loop = loop
        self._read = read
        self._async = is_async(function)
        self._tries = _Tries(loop.runs)
        self.calls = 0
        """How often it was called."""

    async def call(self, *args: Any, **named: Any) -> Any:
        """Call it, and return what is read of its result.

        Raises:
            QueryError: it failed for these arguments, now or before in this run; or at all of the first.
            Unscored: it did; if it was not for a model that this package asks for it, it failed at this question.
        """
        try:
            return await self._result(args, named)
        except Unscored as unscored:
            if not ours(unscored):
                unscored.cause = self._cause
            raise

    async def _result(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        if not self._async:
            result = await self._loop.call(self._guarded, args, named)
            return await self._awaited(result, args, named) if inspect.isawaitable(result) else result
        async with self._current.turn():
            return await self._awaited(self._guarded(args, named), args, named)

    async def _awaited(self, result: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        try:
            return self._used(await result, args, named)
        except (RagevalError, Unscored):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._raised(args, named, error) from error
        except (Exception, SystemExit) as error:
            # SystemExit would end the thread of the loop and leave everybody waiting.
            raise self._raised(args, named, error) from error

    def _guarded(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        # Looked at where it is called: while a call waited for its turn, others may have failed.
        known = self._current.known(args, named)
        if known is not None:
            raise known
        self.calls += 1
        try:
            result = self._function(*args, **named)
            return result if inspect.isawaitable(result) else self._used(result, args, named)
        except (RagevalError, Unscored):
            raise
        except (Exception, SystemExit) as error:
            # After a SystemExit pytest would not tear the fixtures down, and later tests would suffer for it.
            raise self._raised(args, named, error) from error

    def _used(self, result: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """What is read of a result; noted at once, for other calls may fail before the loop has seen it."""
        try:
            value = self._read(_listed(result))
        except Unusable as unusable:
            message = unusable.message.replace("{question}", repr(args[self._question]))
            error = QueryError(
                f"{self.name} {message}", f"{self.name} {unusable.found}", part=self.name, cause=self._cause
            )
            raise self._failed("returned", args, named, error) from None
        except Unscored:
            self._current.answered = True
            raise
        self._current.answered = True
        return value

    def _raised(self, args: tuple[Any, ...], named: Mapping[str, Any], error: BaseException) -> QueryError:
        message = str(CallableError.raised(f"{self.name} raised for {args[self._question]!r}", error))
        reason = f"{self.name} raised {in_a_line(error)}"
        failed = QueryError(message, reason, part=self.name, cause=self._cause)
        return self._failed(type(error).__name__, args, named, failed)

    def _failed(
        self, kind: str, args: tuple[Any, ...], named: Mapping[str, Any], error: QueryError
    ) -> QueryError:
        self._current.remember(error, _key(args, named), kind, repr(args[self._question]))
        return error

    @property
    def _current(self) -> "_Tries":
        # Only of the same run: a later test may find that the trouble has passed.
        if self._tries.run != self._loop.runs:
            self._tries = _Tries(self._loop.runs)
        return self._tries

    @property
    def function(self) -> Callable[..., Any]:
        """What is called."""
        return self._function

    @property
    def identity(self) -> str:
        """What it is, for a baseline to tell it from others.

        Its attribute `fingerprint`, or that of its object, where it is a text: the user's to change with what
        the function does. Else its name in its module, which no edit changes; of a method with the class of
        its object, of a partial with what is filled in.
        """
        return _identity(self._function)


@dataclass
class _Tries:
    """What became of the calls in one run.

    Attributes:
        run: its number.
        answered: whether any call gave what can be used.
    """

    run: int
    answered: bool = False
    _failed: dict[str, QueryError] = field(default_factory=dict)
    _kinds: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _ended: QueryError | None = None
    _calls: int = 0
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def known(self, args: Sequence[Any], named: Mapping[str, Any]) -> QueryError | None:
        """The error that stands for another call with these arguments."""
        # Most runs have no errors, and texts of ten passages are long.
        return self._ended or (self._failed.get(_key(args, named)) if self._failed else None)

    def remember(self, error: QueryError, key: str, kind: str, question: str) -> None:
        """Take note of a failure: of which call, of which kind, at which question."""
        self._failed[key] = error
        self._kinds[kind].add(question)
        if not self.answered and len(self._kinds[kind]) >= FIRST:
            self._ended = self._ended or next(iter(self._failed.values()))

    @property
    def _alike(self) -> int:
        """At how many questions it failed in the most frequent way."""
        return max(map(len, self._kinds.values()), default=0)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """For one call; as long as none was answered, only as many have theirs as could end the calls."""
        while self._calls + self._alike >= FIRST and not self.answered and self._ended is None:
            await self._moved.wait()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._moved.set()
            self._moved = asyncio.Event()


def _key(args: Sequence[Any], named: Mapping[str, Any]) -> str:
    """What tells calls apart, of any arguments."""
    return repr((args, named))


class Uncalled:
    """Stands for the user's own generator or judge where nothing may be asked, and counts its calls.

    It has the methods that the part has, so that one it lacks is missed in a plan as in a run.

    Args:
        name: of the fixture.
        part: what the fixture gave.
        count: told each call.
    """

    def __init__(self, name: str, part: object, count: Callable[[str], None]) -> None:
        self._told = f"calls of {name}, your own function: what they ask is not counted"
        self._part = part
        self._count = count

    def __getattr__(self, method: str) -> Any:
        there = getattr(self._part, method)
        return self.__call__ if callable(there) else there

    async def __call__(self, *_: object, **__: object) -> NoReturn:
        """Count, and say that there is no answer and no verdict.

        Raises:
            Planned: always.
        """
        self._count(self._told)
        raise Planned("not called in a plan")


def _identity(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    for told in (getattr(function, "fingerprint", None), getattr(owner, "fingerprint", None)):
        if isinstance(told, str):
            return told
    if isinstance(function, partial):
        filled = [_shown(value) for value in function.args]
        filled += [f"{name}={_shown(value)}" for name, value in sorted(function.keywords.items())]
        return f"{_identity(function.func)}({', '.join(filled)})"
    if inspect.ismethod(function):
        # Where the method is written says little: of two judges of one base class it is the same place.
        return f"{_name(owner if isinstance(owner, type) else type(owner))}.{function.__name__}"
    return _name(function if hasattr(function, "__qualname__") else type(function))


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _shown(value: object) -> str:
    """A value as it is written, where that is the same in every process; else its kind."""
    return repr(value) if isinstance(value, str | int | float | bool | None) else _name(type(value))


def _listed(result: Any) -> Any:
    """The result, with a lazy series of documents read: it runs as it is read, here where it may."""
    lazy = isinstance(result, Iterable) and not isinstance(result, str | bytes | Mapping | list | tuple)
    return list(result) if lazy and not inspect.isawaitable(result) else result


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine: for functions and for objects with such a `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
    )


def is_ours(part: object) -> bool:
    """Whether a generator or judge is of this package, and asks through the session's door."""
    of_this_package = type(part).__module__.partition(".")[0] == __name__.partition(".")[0]
    return of_this_package and not isinstance(part, Uncalled)


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name that can be given by it."""
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):  # some built in have no signature
        return False
    return parameter is not None and parameter.kind in {
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
