"""The user's own callables: sync or async, called where they may be, and not again once they failed."""

import inspect
from collections.abc import Callable
from typing import Any

from pytest_rageval.errors import CallableError, RagevalError, Unscored
from pytest_rageval.loop import PrivateLoop

__all__ = ["UserCallable"]


class UserCallable:
    """A retriever, generator or judge as the user's fixture gave it.

    A sync one is called from the test's own thread, one call at a time: many
    are not thread-safe, and some may be used only where they were made. An
    async one is called in the event loop of the run, for all examples at once.

    Args:
        name: of the fixture, for errors.
        function: the callable, or the method of an object.
        loop: of the run.
    """

    def __init__(self, name: str, function: Callable[..., Any], loop: PrivateLoop) -> None:
        self.name = name
        self._function = function
        self._loop = loop
        self._async = _is_async(function)
        self._failed: CallableError | None = None

    async def call(self, *args: Any) -> Any:
        """Call it with the question first, and return what it returns.

        Raises:
            CallableError: it raised, now or in an earlier call: 400 examples are one error.
        """
        if self._failed is not None:
            raise self._failed
        result = self._guarded(*args) if self._async else await self._loop.call(self._guarded, *args)
        if inspect.isawaitable(result):
            try:
                result = await result
            except (RagevalError, Unscored):
                raise
            except Exception as error:
                raise self._raised(args[0], error) from error
        return result

    def fail(self, message: str) -> CallableError:
        """The error for an unusable result, after which it is called no more."""
        self._failed = self._failed or CallableError(f"{self.name} {message}")
        return self._failed

    def _guarded(self, *args: Any) -> Any:
        # Looked at again where it is called: while a sync call waited for its turn, another may have failed.
        if self._failed is not None:
            raise self._failed
        try:
            result = self._function(*args)
            # A generator runs as it is read, so it is read here, where its function may be called.
            return list(result) if inspect.isgenerator(result) else result
        except (RagevalError, Unscored):
            raise
        except Exception as error:
            raise self._raised(args[0], error) from error

    def _raised(self, question: object, error: Exception) -> CallableError:
        self._failed = CallableError.raised(f"{self.name} raised for {question!r}", error)
        return self._failed


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine: for functions and for objects with such a `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
    )
