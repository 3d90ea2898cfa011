"""Runs a sync retriever in a `concurrent.futures.Executor`.

The process of the run sends chunks of questions to its processes (`_ChunkSender`). They load the retriever once, and
answer (`answer_chunk`).
"""

import asyncio
import inspect
import itertools
import pickle  # nosec B403 # between processes of this run
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

from pytest_rageval.calls import qualified_name
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import InvalidResult, RemoteResult, call_errors, error_result, read_to_end
from pytest_rageval.core.errors import (
    CallableError,
    Cause,
    InputError,
    RagevalError,
    Unscored,
    exception_text,
    raised_in_package,
)
from pytest_rageval.core.ranking import Retrieval
from pytest_rageval.lib.foreign_values import is_async
from pytest_rageval.retrievers import FIXTURE, Retriever, failure_cause
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter, search_of
from pytest_rageval.retrievers.adapters.callables import Search
from pytest_rageval.retrievers.fields import FieldSample
from pytest_rageval.retrievers.results import retrieval_from

Call = tuple[str, int | None, Mapping[str, object]]  # the query, k and the context of a call


class PickledRetriever(NamedTuple):
    token: str  # identifies the retriever
    content: bytes  # the pickled retriever or its factory, and the adapters of other plugins
    name: str  # the name of its fixture
    cause: Cause  # of examples for which it fails
    id_path: str  # see `document_from`


SIGNATURE: Final = ("context", "own_k", "default_k", "description")  # the fields of `Search` that are sent


class ChunkResult(NamedTuple):
    """The pickled `RemoteResult` of each call, and their mean duration in seconds; None if it is unknown."""

    results: list[bytes]
    seconds: float | None


_loaded: Final[dict[str, Search]] = {}
_called: Final[set[str]] = set()
_loading: Final = threading.Lock()


def read_signature(pickled: PickledRetriever) -> tuple[bool, dict[str, Any]] | str:
    """Return whether the retriever is async, and its `SIGNATURE`; or the error message if it cannot be loaded."""
    try:
        search = _load_search(pickled)
    except CallableError as error:
        return str(error)
    return is_async(search.retrieve), {name: getattr(search, name) for name in SIGNATURE}


def answer_chunk(
    pickled: PickledRetriever,
    calls: Sequence[Call],
    number: int,  # noqa: ARG001
    *,
    alone: bool,
) -> ChunkResult | str:
    """Return the results of the calls, or the error message if the retriever cannot be loaded.

    The first call of a process opens connections and loads models, so it is not timed. If the chunk has this call
    `alone`, the call may be for a latency score, and is made twice. `number` is different for each chunk, so that a
    cluster does not take two chunks for the same task.
    """
    try:
        search = _load_search(pickled)
    except CallableError as error:
        return str(error)
    results: list[bytes] = []
    durations: list[float] = []
    for call in calls:
        is_first = pickled.token not in _called
        _called.add(pickled.token)
        result = _answer_call(search, pickled, call)
        if is_first and alone and not isinstance(result.value, Exception):
            result = _answer_call(search, pickled, call)
        elif is_first:
            result = RemoteResult(result.value, None)
        results.append(_pickle_result(result))
        durations += [] if result.seconds is None else [result.seconds]
    return ChunkResult(results, sum(durations) / len(durations) if durations else None)


def _load_search(pickled: PickledRetriever) -> Search:
    with _loading:
        if pickled.token not in _loaded:
            try:
                retriever, adapters = pickle.loads(pickled.content)  # noqa: S301 # nosec B301 - from the process that runs the tests
                _loaded[pickled.token] = search_of(retriever, [*adapters, *ADAPTERS], pickled.name)
            except RagevalError as error:
                raise CallableError(str(error)) from None
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                what = f"{pickled.name} could not be made in a process of rageval_executor"
                hint = IMPORT_HINT if isinstance(error, ImportError | AttributeError) else ""
                raise CallableError(f"{CallableError.from_exception(what, error)}{hint}") from None
        return _loaded[pickled.token]


IMPORT_HINT: Final = (
    "\nThe processes import it by its name: define it in a module of your package that they can import."
)


def _answer_call(search: Search, pickled: PickledRetriever, call: Call) -> RemoteResult:
    query, k, context = call
    began = perf_counter()
    seconds = None
    value: Any
    try:
        returned = read_to_end(search(query, k, **context))
        seconds = perf_counter() - began
        if inspect.iscoroutine(returned):
            returned.close()
        value = retrieval_from(returned, pickled.id_path)
    except InvalidResult as unusable:
        value = unusable
    except (RagevalError, Unscored) as error:
        if isinstance(error, Unscored) and not raised_in_package(error):
            error.cause = pickled.cause
        value = error.with_traceback(None)
    except call_errors() as error:
        value = error_result(error)
    return RemoteResult(value, seconds)


def _pickle_result(result: RemoteResult) -> bytes:
    try:
        return pickle.dumps(result)
    except Exception as error:  # noqa: BLE001 - the user's classes may raise anything
        found = "returned what cannot be pickled"
        message = f"returned for {{question}} what cannot be pickled: {exception_text(error)}"
        advice = "Return texts and plain metadata: they are sent from a process of rageval_executor."
        return pickle.dumps(RemoteResult(InvalidResult(found, f"{message}\n{advice}"), None))


CHUNK_S: Final = 0.2  # of a chunk: long compared with its transport, short compared with the run
MAX_CONCURRENCY: Final = 16_000
"""The most questions of a score in flight: more than in this process, since each process receives them in chunks."""

MAX_CHUNK_QUESTIONS: Final = 256  # the most questions in a chunk
MAX_CHUNKS: Final = 256  # the most chunks in flight: more than a large cluster has processes
MAX_PICKLE_BYTES: Final = 8_000_000  # the largest pickled retriever, which is sent with each chunk
MAX_SEARCH_DEPTH: Final = 4  # levels of attributes in which the part that cannot be pickled is searched


def retriever_in_executor(  # noqa: PLR0913 - see adapt_retriever
    retriever: object,
    executor: object,
    loop: BackgroundEventLoop,
    adapters: Sequence[Adapter] = ADAPTERS,
    *,
    name: str = FIXTURE,
    id_path: str = "",
) -> Retriever:
    if not isinstance(executor, Executor):
        raise InputError(
            f"rageval_executor is {type(executor).__name__}, which is not a concurrent.futures.Executor.\n"
            "Yield a ProcessPoolExecutor, or client.get_executor() of a Dask client."
        )
    plugin_adapters = [adapter for adapter in adapters if adapter not in ADAPTERS]
    content = _pickle_retriever((retriever, plugin_adapters), name)
    pickled = PickledRetriever(uuid.uuid4().hex, content, name, failure_cause(name), id_path)
    try:
        signature = executor.submit(read_signature, pickled).result()
    except (Exception, CancelledError) as error:
        raise _executor_error(executor, name, "was loaded", error) from error
    if isinstance(signature, str):
        raise CallableError(signature)
    asynchronous, fields = signature
    if asynchronous:
        raise InputError(
            f"{name} is async, and is called for all questions at once in this process: rageval_executor is for a sync "
            "one.\nLeave rageval_executor out, or return the sync form of the retriever."
        )
    search = Search(_ChunkSender(executor, pickled, loop).retrieve, **fields)
    return Retriever(search, loop, name=name, read=read_remote_result, max_concurrency=MAX_CONCURRENCY)


def read_remote_result(value: Any, sample: FieldSample | None = None) -> Retrieval:
    """Return the result, in which ids are read; `sample` collects metadata. `InvalidResult` if it failed."""
    result = value.value if isinstance(value, RemoteResult) else value
    if isinstance(result, InvalidResult):
        raise result
    return retrieval_from(result, sample=sample)


@dataclass(eq=False, slots=True)
class _PendingCall:
    """A call that was not sent or not answered yet, and the future of its pickled `RemoteResult`."""

    call: Call
    result: "asyncio.Future[bytes]"


class _ChunkSender:
    """Sends questions to an executor, in chunks that take about `CHUNK_S` seconds. For one event loop."""

    def __init__(self, executor: Executor, pickled: PickledRetriever, loop: BackgroundEventLoop) -> None:
        self._executor = executor
        self._retriever = pickled
        self._loop = loop
        self._pending: deque[_PendingCall] = deque()
        self._sent: dict[Future[Any], list[_PendingCall]] = {}
        self._numbers = itertools.count()
        self._seconds: float | None = None  # the mean duration of a question
        self._is_scheduled = False
        self._failed: tuple[int, str] | None = None  # the run and the error that ended its calls
        loop.cancel_callbacks.append(self._cancel)

    async def retrieve(self, query: str, k: int | None, **context: Any) -> RemoteResult:
        event_loop = asyncio.get_running_loop()
        call = _PendingCall((query, k, context), event_loop.create_future())
        self._pending.append(call)
        if not self._is_scheduled:
            # Sent after all other calls of this iteration of the event loop.
            self._is_scheduled = True
            event_loop.call_soon(self._send)
        result: RemoteResult = pickle.loads(await call.result)  # noqa: S301 # nosec B301 - of a process of this run
        if isinstance(result.value, RagevalError | Unscored):
            raise result.value
        return result

    def _send(self) -> None:
        self._is_scheduled = False
        while self._pending and len(self._sent) < MAX_CHUNKS:
            chunk = list(itertools.islice(self._pending_calls(), self._chunk_size))
            if not chunk:
                return
            if self._failed and self._failed[0] == self._loop.runs:
                _fail(chunk, self._failed[1])
                continue
            alone = len(chunk) == 1 and not self._sent
            calls = [pending.call for pending in chunk]
            try:
                job = self._executor.submit(
                    answer_chunk, self._retriever, calls, next(self._numbers), alone=alone
                )
            except Exception as error:  # noqa: BLE001 - each executor has its own exceptions
                self._fail(chunk, error)
                continue
            self._sent[job] = chunk
            job.add_done_callback(partial(_call_soon, asyncio.get_running_loop(), self._receive))

    def _pending_calls(self) -> Iterator[_PendingCall]:
        while self._pending:
            call = self._pending.popleft()
            if not call.result.done():
                yield call

    @property
    def _chunk_size(self) -> int:
        if self._seconds is None:
            return 1 if self._sent else MAX_CHUNK_QUESTIONS
        return max(1, min(MAX_CHUNK_QUESTIONS, round(CHUNK_S / max(self._seconds, 1e-6))))

    def _receive(self, job: "Future[Any]") -> None:
        chunk = self._sent.pop(job, None)
        if chunk is None:
            return  # the run of this chunk was cancelled
        try:
            answers = job.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - each executor has its own exceptions
            self._fail(chunk, error)
        else:
            if isinstance(answers, str):
                self._failed = self._loop.runs, answers
                _fail(chunk, answers)
            else:
                if (seconds := answers.seconds) is not None:
                    self._seconds = seconds if self._seconds is None else (self._seconds + seconds) / 2
                for call, result in zip(chunk, answers.results, strict=True):
                    if not call.result.done():
                        call.result.set_result(result)
        self._send()

    def _fail(self, chunk: list[_PendingCall], error: BaseException) -> None:
        more = f" and {len(chunk) - 1} more" if len(chunk) > 1 else ""
        when = f"ran for {chunk[0].call[0]!r:.80}{more}"
        message = str(_executor_error(self._executor, self._retriever.name, when, error))
        self._failed = self._loop.runs, message
        _fail(chunk, message)

    def _cancel(self) -> None:
        """Cancel all calls of a cancelled run, so that none of them runs in a later test."""
        message = f"The run was cancelled before {self._retriever.name} had answered."
        _fail(list(self._pending), message)
        self._pending.clear()
        sent, self._sent = self._sent, {}
        for job, chunk in sent.items():
            job.cancel()
            _fail(chunk, message)


def _call_soon(
    loop: asyncio.AbstractEventLoop, receive: Callable[["Future[Any]"], None], job: "Future[Any]"
) -> None:
    # The loop may be closed by now.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(receive, job)


def _fail(chunk: Sequence[_PendingCall], message: str) -> None:
    for call in chunk:
        if not call.result.done():
            call.result.set_exception(CallableError(message))


def _executor_error(executor: Executor, name: str, when: str, error: BaseException) -> CallableError:
    text = exception_text(error).rstrip(": ")
    return CallableError(
        f"rageval_executor, {type(executor).__name__}, failed while {name} {when}: {text}\n"
        "One of its processes may have been killed, for instance because memory ran out. Model replies that arrived "
        "are kept. Run again with fewer processes, or without rageval_executor to see which question causes it."
    )


def _pickle_retriever(parts: tuple[object, Sequence[Adapter]], name: str) -> bytes:
    try:
        pickled = pickle.dumps(parts)
    except Exception as error:  # noqa: BLE001 - the user's classes may raise anything
        where = _find_unpicklable(parts[0], name) or "an adapter of another plugin"
        raise InputError(
            f"{where} cannot be pickled, so that {name} cannot be sent to the processes of rageval_executor: "
            f"{exception_text(error)}\n"
            f"{FACTORY_HINT}"
        ) from None
    if len(pickled) > MAX_PICKLE_BYTES:
        raise InputError(
            f"{name} is {len(pickled) / 1e6:.0f} MB when it is pickled, and would be sent to the processes of "
            f"rageval_executor with each chunk of questions: at most {MAX_PICKLE_BYTES / 1e6:.0f} MB are.\n"
            f"{FACTORY_HINT}"
        )
    return pickled


FACTORY_HINT: Final = (
    "Let the processes build it: return RetrieverFactory(make, …) from the fixture, with a function at the top level "
    "of a module that opens connections and loads the index, and returns the retriever."
)


def _find_unpicklable(thing: object, name: str, depth: int = MAX_SEARCH_DEPTH) -> str:
    """Return the name of the innermost part of an object that cannot be pickled; "" if the object can be pickled."""
    try:
        pickle.dumps(thing)
    except Exception:  # noqa: BLE001 - the user's classes may raise anything
        parts = _parts(thing) if depth else ()
        inner = (_find_unpicklable(value, f"{name}{suffix}", depth - 1) for suffix, value in parts)
        return next(filter(None, inner), f"{name} ({qualified_name(thing)})")
    return ""


def _parts(thing: object) -> list[tuple[str, object]]:
    if isinstance(thing, Mapping):
        return [(f"[{key!r}]", value) for key, value in thing.items()]
    if isinstance(thing, list | tuple):
        return [(f"[{index}]", value) for index, value in enumerate(thing)]
    parts = [(f".{key}", value) for key, value in getattr(thing, "__dict__", {}).items()]
    owner = getattr(thing, "__self__", None)
    return parts if owner is None else [*parts, (".__self__", owner)]
