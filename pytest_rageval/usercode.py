"""The user's own callables: sync or async, called where they may be, and not again once they failed."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NoReturn

from pytest_rageval.errors import CallableError, Planned, RagevalError, Unscored
from pytest_rageval.loop import PrivateLoop

__all__ = ["Uncalled", "UserCallable", "is_async", "is_ours", "takes"]


class UserCallable:
    """A retriever, generator or judge as the user's fixture gave it.

    A sync one is called from the test's own thread, one call at a time: many
    are not thread-safe, and some may be used only where they were made. An
    async one is called in the event loop of the run, for all examples at once.

    Args:
        name: of the fixture, and of the method if it is one, for errors.
        function: the callable, or the method of an object.
        loop: of the run.
        question: the place of the question among the arguments, for errors.
    """

    def __init__(self, name: str, function: Callable[..., Any], loop: PrivateLoop, question: int = 0) -> None:
        self.name = name
        self._question = question
        self._function = function
        self._loop = loop
        self._async = is_async(function)
        self._ended: tuple[int, CallableError] | None = None
        self.calls = 0
        """How often it was called."""

    async def call(self, *args: Any, **named: Any) -> Any:
        """Call it, and return what it returns.

        Raises:
            CallableError: it raised, now or in an earlier call of this run: 400 examples are one error.
        """
        self._raise_if_failed(args)
        self.calls += 1
        guarded = partial(self._guarded, *args, **named)
        result = guarded() if self._async else await self._loop.call(guarded)
        if inspect.isawaitable(result):
            try:
                result = _read(await result)
            except (RagevalError, Unscored):
                raise
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise self._raised(args, error) from error
            except (Exception, SystemExit) as error:
                # SystemExit would end the thread of the loop and leave everybody waiting.
                raise self._raised(args, error) from error
        return result

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

    def fail(self, message: str) -> CallableError:
        """The error for an unusable result, after which it is called no more: that of the first in a run."""
        return self._known(()) or self._end(CallableError(f"{self.name} {message}"))

    def _known(self, _args: tuple[Any, ...]) -> CallableError | None:
        """The error of an earlier call that stands for this one too."""
        # Only in the same run: a later test may find that the trouble has passed.
        return self._ended[1] if self._ended is not None and self._ended[0] == self._loop.runs else None

    def _raised(self, args: tuple[Any, ...], error: BaseException) -> CallableError:
        return self._end(CallableError.raised(f"{self.name} raised for {args[self._question]!r}", error))

    def _end(self, error: CallableError) -> CallableError:
        self._ended = self._loop.runs, error
        return error

    def _raise_if_failed(self, args: tuple[Any, ...]) -> None:
        known = self._known(args)
        if known is not None:
            raise known

    def _guarded(self, *args: Any, **named: Any) -> Any:
        # Looked at again where it is called: while a sync call waited for its turn, another may have failed.
        self._raise_if_failed(args)
        try:
            return _read(self._function(*args, **named))
        except (RagevalError, Unscored):
            raise
        except (Exception, SystemExit) as error:
            # After a SystemExit pytest would not tear the fixtures down, and later tests would suffer for it.
            raise self._raised(args, error) from error


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


def _read(result: Any) -> Any:
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
