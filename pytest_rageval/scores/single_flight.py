"""`SingleFlight`: computes a result once, although several scores need it at the same time."""

import asyncio
import marshal
from collections.abc import Callable, Coroutine, Hashable
from hashlib import blake2b
from types import TracebackType
from typing import Any, TypeVar

from pytest_rageval.core.conversation import QuestionWithHistory
from pytest_rageval.core.errors import CallableError, RagevalError, Unscored
from pytest_rageval.core.gathering import CallbackFuture, is_fatal, is_inline, require_loop

T = TypeVar("T")


class SingleFlight:
    """Computes the result of each key once; later callers with the same key wait for the first or get its result.

    For use in one event loop. An error is stored like a result, except errors of the user's own code. If the first
    caller is cancelled, a waiting caller computes the result.

    Args:
        compact: converts a caller's key to the key that is stored with the result. The default is `digest_key`, so that
            long texts in keys are not stored.
    """

    def __init__(self, compact: "Callable[[Any], Hashable] | None" = None) -> None:
        self._compact = digest_key if compact is None else compact
        # The waiting callers of each key whose result is being computed.
        self._waiters: dict[Hashable, list[CallbackFuture[BaseException | None]]] = {}
        self._results: dict[Hashable, Any] = {}
        self._errors: dict[Hashable, tuple[BaseException, TracebackType | None]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of a key; if there is none yet, compute it or wait until another caller has computed it."""
        stored_key = self._compact(key)
        while stored_key not in self._results:
            if stored_key in self._errors:
                error, traceback = self._errors[stored_key]
                # One error may be raised by many scores. Without the reset, its traceback would grow each time.
                raise error.with_traceback(traceback)
            if stored_key in self._waiters:
                await self._wait(stored_key)
            else:
                await self._run(stored_key, compute)
        result: T = self._results[stored_key]
        return result

    async def _wait(self, stored_key: Hashable) -> None:
        """Wait until the computation has ended or was cancelled; raise its error, if any."""
        await require_loop()
        if stored_key not in self._waiters:
            return
        waiter: CallbackFuture[BaseException | None] = CallbackFuture()
        self._waiters[stored_key].append(waiter)
        error = await waiter
        if error is not None:
            raise error

    async def _run(self, stored_key: Hashable, compute: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        failure: BaseException | None = None
        waiters = self._waiters[stored_key] = []
        try:
            self._results[stored_key] = await compute()
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if is_fatal(error):
                raise
            failure = error
            # Errors of the user's code are not stored, because the code may work in a later test. Without an event loop
            # other errors are not stored either, because a signal handler may raise any exception here.
            is_ours = isinstance(error, RagevalError | Unscored)
            if (is_ours or not is_inline()) and not isinstance(error, CallableError):
                # Our errors are shown without a traceback. Thousands of tracebacks would keep coroutine frames alive.
                self._errors[stored_key] = error, None if is_ours else error.__traceback__
            raise
        finally:
            del self._waiters[stored_key]
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(failure)

    def has_started(self, key: Hashable) -> bool:
        """Whether the result of a key is computed or being computed, or its error is stored."""
        stored_key = self._compact(key)
        return stored_key in self._results or stored_key in self._errors or stored_key in self._waiters

    def get_if_done(self, key: Hashable) -> Any:
        """Return the result of a key, or None if there is no result yet."""
        return self._results.get(self._compact(key))


def digest_key(key: Any) -> bytes:
    """Return a digest of a key, which may contain long texts."""
    try:
        # Version 2 of the format has no references, so equal keys have equal bytes.
        data = marshal.dumps(key, 2)
    except ValueError:
        data = repr(_plain_key(key)).encode(errors="surrogatepass")
    # A bytes object of 15 bytes takes 48 bytes of memory, one of 16 bytes takes 64.
    return blake2b(data, digest_size=15).digest()


def _plain_key(key: Hashable) -> Hashable:
    """Return a key whose texts are plain strings; a question with a history becomes a tuple with its messages."""
    if isinstance(key, tuple):
        return tuple(map(_plain_key, key))
    if isinstance(key, QuestionWithHistory) and key.history:
        return "after", tuple(tuple(sorted(message.items())) for message in key.history), str(key)
    return str(key) if isinstance(key, str) else key
