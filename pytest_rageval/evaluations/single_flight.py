"""Work that several scores need is done once."""

import asyncio
import marshal
from collections.abc import Callable, Coroutine, Hashable
from hashlib import blake2b
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

from pytest_rageval.answers import judge_protocol as judges
from pytest_rageval.conversation import Question
from pytest_rageval.errors import CallableError
from pytest_rageval.gathering import Promise
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stepping import ends_all, in_loop

__all__ = ["SingleFlight"]

T = TypeVar("T")


class SingleFlight:
    """Does each piece of work when the first asks for it; the others wait for the same result.

    For one event loop. An error is kept like a result, except one of the user's own code. The
    votes behind a verdict count for each score that uses it. Where the first is cancelled, another does the work.
    """

    def __init__(self) -> None:
        # Of work that has begun: those who wait for it.
        self._begun: dict[bytes, list[Promise[_Ended | None]]] = {}
        self._ended: dict[bytes, _Ended] = {}

    async def of(self, work: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work that `make` begins and `work` identifies."""
        key = _digest(work)
        ended = self._ended.get(key)
        while ended is None:
            ended = await (self._wait(key) if key in self._begun else self._do(key, make))
        if ended.error is not None:
            # One error may end many scores: its traceback would grow with each.
            raise ended.error.with_traceback(ended.traceback)
        judges.add_tally(key, ended.votes)
        return cast("T", ended.result)

    async def _wait(self, key: bytes) -> "_Ended | None":
        """What others' work came to; None where they were cancelled."""
        await in_loop()
        if key not in self._begun:
            return self._ended.get(key)
        waiter: Promise[_Ended | None] = Promise()
        self._begun[key].append(waiter)
        return await waiter

    async def _do(self, key: bytes, make: Callable[[], Coroutine[Any, Any, Any]]) -> "_Ended":
        """Do the work in the task that asks first: most of it is done at once, and a task costs more."""
        self._begun[key] = []
        ended = None
        try:
            ended = _Ended(*await judges.with_tally(make()))
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if ends_all(error):
                raise
            ended = _Ended(None, Tally(), error, error.__traceback__)
        finally:
            # The user's own code may work in a later test.
            if ended is not None and not isinstance(ended.error, CallableError):
                self._ended[key] = ended
            for waiter in self._begun.pop(key):
                if not waiter.done():
                    waiter.set_result(ended)
        return ended

    def has(self, work: Hashable) -> bool:
        """Whether work has begun, and is not to be tried again."""
        key = _digest(work)
        return key in self._ended or key in self._begun

    def known(self, work: Hashable) -> Any:
        """The result of work that is done; None where there is none."""
        ended = self._ended.get(_digest(work))
        return None if ended is None else ended.result


class _Ended(NamedTuple):
    """Work that has ended: its result with the votes behind it, or its error."""

    result: Any
    votes: Tally
    error: BaseException | None = None
    traceback: TracebackType | None = None


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
