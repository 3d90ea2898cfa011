"""Computes once what several scores need at the same time."""

import asyncio
import marshal
from collections.abc import Callable, Coroutine, Hashable
from hashlib import blake2b
from types import TracebackType
from typing import Any, TypeVar

from pytest_rageval.concurrency.gathering import CallbackFuture
from pytest_rageval.concurrency.inline import is_fatal, is_inline, require_loop
from pytest_rageval.conversation import QuestionWithHistory
from pytest_rageval.errors import CallableError, RagevalError, Unscored

__all__ = ["SingleFlight", "digest"]

T = TypeVar("T")


class SingleFlight:
    """Does each piece of work for its first caller; later callers wait for the same result.

    For one event loop. An error is stored like a result, except one of the user's own code. If the first caller is
    cancelled, another one does the work.

    Args:
        identify: makes a key of what identifies work; it is kept with the result. By default without long texts.
    """

    def __init__(self, identify: "Callable[[Any], Hashable] | None" = None) -> None:
        self._identify = digest if identify is None else identify
        # Of work that has begun: those who wait for it.
        self._begun: dict[Hashable, list[CallbackFuture[BaseException | None]]] = {}
        self._results: dict[Hashable, Any] = {}
        self._errors: dict[Hashable, tuple[BaseException, TracebackType | None]] = {}

    async def of(self, work: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work that `make` begins and `work` identifies."""
        key = self._identify(work)
        while key not in self._results:
            if key in self._errors:
                error, traceback = self._errors[key]
                # One error may end many scores: its traceback would grow with each.
                raise error.with_traceback(traceback)
            if key in self._begun:
                await self._wait(key)
            else:
                await self._do(key, make)
        result: T = self._results[key]
        return result

    async def _wait(self, key: Hashable) -> None:
        """Wait until the work has ended, or was cancelled."""
        await require_loop()
        if key not in self._begun:
            return
        waiter: CallbackFuture[BaseException | None] = CallbackFuture()
        self._begun[key].append(waiter)
        error = await waiter
        if error is not None:
            raise error

    async def _do(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        failed: BaseException | None = None
        waiters = self._begun[key] = []
        try:
            self._results[key] = await make()
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if is_fatal(error):
                raise
            failed = error
            # The user's own code may work in a later test; and a signal may raise anything here.
            is_ours = isinstance(error, RagevalError | Unscored)
            if (is_ours or not is_inline()) and not isinstance(error, CallableError):
                # Ours are shown without a traceback; thousands of them would keep the frames of their coroutines.
                self._errors[key] = error, None if is_ours else error.__traceback__
            raise
        finally:
            del self._begun[key]
            for each in waiters:
                if not each.done():
                    each.set_result(failed)

    def has(self, work: Hashable) -> bool:
        """Whether work has begun, and is not to be tried again."""
        key = self._identify(work)
        return key in self._results or key in self._errors or key in self._begun

    def known(self, work: Hashable) -> Any:
        """The result of work that is done; None where there is none."""
        return self._results.get(self._identify(work))


def digest(work: Any) -> bytes:
    """What identifies work, without the texts that it names."""
    try:
        # In this version without references, so that what is equal has equal bytes.
        data = marshal.dumps(work, 2)
    except ValueError:
        data = repr(_parts(work)).encode(errors="surrogatepass")
    # With 15 bytes the object has 48; with 16 it would have 64.
    return blake2b(data, digest_size=15).digest()


def _parts(work: Hashable) -> Hashable:
    """The parts by which two pieces of work differ; a question does so by the messages before it, too."""
    if isinstance(work, tuple):
        return tuple(map(_parts, work))
    if isinstance(work, QuestionWithHistory) and work.history:
        return "after", tuple(tuple(sorted(message.items())) for message in work.history), str(work)
    return str(work) if isinstance(work, str) else work
