"""Runs a sync retriever in any `concurrent.futures.Executor`: sends chunks of questions to a pool or a cluster."""

import asyncio
import itertools
import pickle  # nosec B403 # between processes of this run
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.datatypes import Retrieval
from pytest_rageval.errors import CallableError, Cause, InputError, RagevalError, Unscored
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter
from pytest_rageval.retrievers.adapters.callables import Search
from pytest_rageval.retrievers.documents import retrieval_from
from pytest_rageval.retrievers.worker import Call, PickledRetriever, Signature, answer_chunk, read_signature
from pytest_rageval.user_code import InvalidResult, RemoteResult, qualified_name

__all__ = ["in_executor", "read_reply"]

CHUNK_S: Final = 0.2  # what a chunk takes: long beside its transport, short beside the run
MOST_QUESTIONS: Final = 256  # in a chunk
MOST_CHUNKS: Final = 256  # sent and not back: more than the processes of a large cluster
MOST_BYTES: Final = 8_000_000  # of a pickled retriever, which goes with each chunk
DEPTH: Final = 4  # how deep the part that cannot be pickled is searched


def in_executor(  # noqa: PLR0913 - see adapt_retriever
    retriever: object,
    executor: object,
    loop: BackgroundEventLoop,
    *,
    adapters: Sequence[Adapter],
    name: str,
    cause: Cause,
) -> Search:
    """Return the search of a retriever that runs in the processes of an executor.

    Raises:
        InputError: it is not an executor; the retriever is async, cannot be pickled, or is too large to be sent.
        CallableError: the retriever cannot be made in one of the processes, or the executor fails.
    """
    if not isinstance(executor, Executor):
        raise InputError(
            f"rageval_executor is {type(executor).__name__}, which is not a concurrent.futures.Executor.\n"
            "Yield a ProcessPoolExecutor, or client.get_executor() of a Dask client."
        )
    added = [each for each in adapters if each not in ADAPTERS]
    pickled = PickledRetriever(uuid.uuid4().hex, _pickled((retriever, added), name), name, cause)
    try:
        signature = executor.submit(read_signature, pickled).result()
    except (Exception, CancelledError) as error:
        raise _broken(executor, name, "was loaded", error) from error
    if isinstance(signature, str):
        raise CallableError(signature)
    if signature.asynchronous:
        raise InputError(
            f"{name} is async, and is called for all questions at once in this process: rageval_executor is for a sync "
            "one.\nLeave rageval_executor out, or return the sync form of the retriever."
        )
    return _search(signature, _Chunks(executor, pickled, loop))


def _search(signature: Signature, chunks: "_Chunks") -> Search:
    return Search(chunks.ask, signature.context, signature.own_k)


def read_reply(value: Any) -> Retrieval:
    """Return the retriever's result from another process; Unusable if it failed there."""
    reply = value.value if isinstance(value, RemoteResult) else value
    if isinstance(reply, InvalidResult):
        raise reply
    return retrieval_from(reply)


@dataclass(eq=False, slots=True)
class _Waiting:
    call: Call
    reply: "asyncio.Future[bytes]"


class _Chunks:
    """Sends questions to an executor, as many at a time as take about `CHUNK_S`. For one event loop."""

    def __init__(self, executor: Executor, pickled: PickledRetriever, loop: BackgroundEventLoop) -> None:
        self._executor = executor
        self._retriever = pickled
        self._loop = loop
        self._waiting: deque[_Waiting] = deque()
        self._sent: dict[Future[Any], list[_Waiting]] = {}
        self._numbers = itertools.count()
        self._seconds: float | None = None  # of a question
        self._planned = False
        self._failed: tuple[int, str] | None = None  # in this run
        loop.on_cancel(self._drop)

    async def ask(self, query: str, k: int | None, **context: Any) -> RemoteResult:
        """Return the retriever's result for a query, which is sent with the next chunk."""
        running = asyncio.get_running_loop()
        waiting = _Waiting((query, k, context), running.create_future())
        self._waiting.append(waiting)
        if not self._planned:
            # After all that ask in this turn of the loop.
            self._planned = True
            running.call_soon(self._send)
        reply: RemoteResult = pickle.loads(await waiting.reply)  # noqa: S301 # nosec B301 - of a process of this run
        if isinstance(reply.value, RagevalError | Unscored):
            raise reply.value
        return reply

    def _send(self) -> None:
        self._planned = False
        while self._waiting and len(self._sent) < MOST_CHUNKS:
            chunk = list(itertools.islice(self._next(), self._size))
            if not chunk:
                return
            if self._failed and self._failed[0] == self._loop.runs:
                _fail(chunk, self._failed[1])
                continue
            alone = len(chunk) == 1 and not self._sent
            calls = [each.call for each in chunk]
            try:
                job = self._executor.submit(
                    answer_chunk, self._retriever, calls, next(self._numbers), alone=alone
                )
            except Exception as error:  # noqa: BLE001 - each executor has its own
                self._fail(chunk, error)
                continue
            self._sent[job] = chunk
            job.add_done_callback(_InLoop(asyncio.get_running_loop(), self._received))

    def _next(self) -> Iterator[_Waiting]:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.reply.done():
                yield waiting

    @property
    def _size(self) -> int:
        if self._seconds is None:
            return 1 if self._sent else MOST_QUESTIONS
        return max(1, min(MOST_QUESTIONS, round(CHUNK_S / max(self._seconds, 1e-6))))

    def _received(self, job: "Future[Any]") -> None:
        chunk = self._sent.pop(job, None)
        if chunk is None:
            return  # of a cancelled run
        try:
            answers = job.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - each executor has its own
            self._fail(chunk, error)
        else:
            if isinstance(answers, str):
                self._failed = self._loop.runs, answers
                _fail(chunk, answers)
            else:
                self._learn(answers.seconds)
                for each, reply in zip(chunk, answers.replies, strict=True):
                    if not each.reply.done():
                        each.reply.set_result(reply)
        self._send()

    def _learn(self, seconds: float | None) -> None:
        if seconds is not None:
            self._seconds = seconds if self._seconds is None else (self._seconds + seconds) / 2

    def _fail(self, chunk: list[_Waiting], error: BaseException) -> None:
        asked = "" if not chunk else f" for {chunk[0].call[0]!r:.80}"
        asked += f" and {len(chunk) - 1} more" if len(chunk) > 1 else ""
        message = str(_broken(self._executor, self._retriever.name, f"ran{asked}", error))
        self._failed = self._loop.runs, message
        _fail(chunk, message)

    def _drop(self) -> None:
        """The run was cancelled: no part of it may run in a later test."""
        dropped = f"The run was cancelled before {self._retriever.name} had answered."
        _fail(list(self._waiting), dropped)
        self._waiting.clear()
        sent, self._sent = self._sent, {}
        for job, chunk in sent.items():
            job.cancel()
            _fail(chunk, dropped)


class _InLoop:
    """Passes a finished job to the event loop, unless the loop was closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, received: Callable[[Future[Any]], None]) -> None:
        self._loop = loop
        self._received = received

    def __call__(self, job: Future[Any]) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._received, job)


def _fail(chunk: Sequence[_Waiting], message: str) -> None:
    for each in chunk:
        if not each.reply.done():
            each.reply.set_exception(CallableError(message))


def _broken(executor: Executor, name: str, when: str, error: BaseException) -> CallableError:
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return CallableError(
        f"rageval_executor, {type(executor).__name__}, failed while {name} {when}: {text}\n"
        "One of its processes may have been killed, for instance because memory ran out. Model replies that arrived "
        "are kept. Run again with fewer processes, or without rageval_executor to see which question causes it."
    )


def _pickled(parts: tuple[object, Sequence[Adapter]], name: str) -> bytes:
    try:
        pickled = pickle.dumps(parts)
    except Exception as error:  # noqa: BLE001 - the user's classes may raise anything
        where = _unpicklable(parts[0], name) or "an adapter of another plugin"
        raise InputError(
            f"{where} cannot be pickled, so that {name} cannot be sent to the processes of rageval_executor: "
            f"{type(error).__name__}: {error}\n"
            f"{ADVICE}"
        ) from None
    if len(pickled) > MOST_BYTES:
        raise InputError(
            f"{name} is {len(pickled) / 1e6:.0f} MB when it is pickled, and would be sent to the processes of "
            f"rageval_executor with each chunk of questions: at most {MOST_BYTES / 1e6:.0f} MB are.\n{ADVICE}"
        )
    return pickled


ADVICE: Final = (
    "Let the processes build it: return RetrieverFactory(make, …) from the fixture, with a function at the top level "
    "of a module that opens connections and loads the index, and returns the retriever."
)


def _unpicklable(thing: object, name: str, depth: int = DEPTH) -> str:
    """The name of the innermost part of an object that cannot be pickled; empty if all can be."""
    try:
        pickle.dumps(thing)
    except Exception:  # noqa: BLE001 - the user's classes may raise anything
        parts = _parts(thing) if depth else ()
        inner = (_unpicklable(value, f"{name}{place}", depth - 1) for place, value in parts)
        return next(filter(None, inner), f"{name} ({qualified_name(thing)})")
    return ""


def _parts(thing: object) -> list[tuple[str, object]]:
    if isinstance(thing, Mapping):
        return [(f"[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [(f"[{at}]", value) for at, value in enumerate(thing)]
    parts = [(f".{key}", value) for key, value in getattr(thing, "__dict__", {}).items()]
    owner = getattr(thing, "__self__", None)
    return parts if owner is None else [*parts, (".__self__", owner)]
