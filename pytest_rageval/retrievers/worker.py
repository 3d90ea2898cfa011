"""Runs in the processes of `rageval_executor`: loads the retriever once, and answers chunks of questions."""

import inspect
import pickle  # nosec B403 # between processes of this run
import threading
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

from pytest_rageval.errors import CallableError, Cause, RagevalError, Unscored, raised_in_package
from pytest_rageval.retrievers.adapters import ADAPTERS, search_of
from pytest_rageval.retrievers.adapters.callables import Search
from pytest_rageval.retrievers.documents import retrieval_from
from pytest_rageval.user_code import InvalidResult, RemoteResult, error_result, is_async, read_to_end

__all__ = ["Call", "ChunkResult", "PickledRetriever", "Signature", "answer_chunk", "read_signature"]

Call = tuple[str, int | None, Mapping[str, Any]]
"""Query, k and context."""


class PickledRetriever(NamedTuple):
    """A retriever that is sent to a process.

    Attributes:
        token: identifies it.
        content: the pickled retriever or its factory, and the adapters of other plugins.
        name: of its fixture.
        cause: of questions at which it fails.
    """

    token: str
    content: bytes
    name: str
    cause: Cause


class Signature(NamedTuple):
    """The signature of a retriever: see `Search`."""

    context: Mapping[str, bool]
    own_k: int | None
    asynchronous: bool


class ChunkResult(NamedTuple):
    """The pickled `RemoteResult` of each call, and the mean of their seconds; None where that is not known."""

    replies: list[bytes]
    seconds: float | None


_loaded: Final[dict[str, Search]] = {}
_called: Final[set[str]] = set()
_loading: Final = threading.Lock()


def read_signature(pickled: PickledRetriever) -> Signature | str:
    """Load a retriever and return how it is asked, or why it cannot be loaded."""
    try:
        search = _search(pickled)
    except CallableError as error:
        return str(error)
    return Signature(dict(search.context), search.own_k, is_async(search.ask))


def answer_chunk(
    pickled: PickledRetriever,
    calls: Sequence[Call],
    number: int,  # noqa: ARG001
    *,
    alone: bool,
) -> ChunkResult | str:
    """Return the answers to the calls, or why the retriever cannot be loaded.

    The first call of a process opens connections and loads models, so it is not timed. If it is `alone`, it may be
    for a latency score, and is made twice. `number` differs from chunk to chunk, so that a cluster does not take two
    chunks for the same task.
    """
    try:
        search = _search(pickled)
    except CallableError as error:
        return str(error)
    replies: list[bytes] = []
    times: list[float] = []
    for call in calls:
        first = pickled.token not in _called
        _called.add(pickled.token)
        reply = _reply(search, pickled, call)
        if first and alone and not isinstance(reply.value, Exception):
            reply = _reply(search, pickled, call)
        elif first:
            reply = RemoteResult(reply.value, None)
        replies.append(_pickled(reply))
        times += [] if reply.seconds is None else [reply.seconds]
    return ChunkResult(replies, sum(times) / len(times) if times else None)


def _search(pickled: PickledRetriever) -> Search:
    with _loading:
        if pickled.token not in _loaded:
            try:
                retriever, adapters = pickle.loads(pickled.content)  # noqa: S301 # nosec B301 - of the process that runs the tests
                _loaded[pickled.token] = search_of(retriever, [*adapters, *ADAPTERS], pickled.name)
            except RagevalError as error:
                raise CallableError(str(error)) from None
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                what = f"{pickled.name} could not be made in a process of rageval_executor"
                message = f"{CallableError.from_exception(what, error)}{_advice(error)}"
                raise CallableError(message) from None
        return _loaded[pickled.token]


def _advice(error: Exception) -> str:
    if not isinstance(error, ImportError | AttributeError):
        return ""
    return (
        "\nThe processes import it by its name: define it in a module of your package that they can import."
    )


def _reply(search: Search, pickled: PickledRetriever, call: Call) -> RemoteResult:
    query, k, context = call
    began = perf_counter()
    seconds = None
    value: Any
    try:
        found = read_to_end(search(query, k, **context))
        seconds = perf_counter() - began
        if inspect.iscoroutine(found):
            found.close()
        value = retrieval_from(found)
    except InvalidResult as unusable:
        value = unusable
    except (RagevalError, Unscored) as error:
        if isinstance(error, Unscored) and not raised_in_package(error):
            error.cause = pickled.cause
        value = error.with_traceback(None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the error of this question
        value = error_result(error)
    return RemoteResult(value, seconds)


def _pickled(reply: RemoteResult) -> bytes:
    try:
        return pickle.dumps(reply)
    except Exception as error:  # noqa: BLE001 - the user's classes may raise anything
        found = "returned what cannot be pickled"
        message = f"returned for {{question}} what cannot be pickled: {type(error).__name__}: {error}"
        advice = "Return texts and plain metadata: they are sent from a process of rageval_executor."
        return pickle.dumps(RemoteResult(InvalidResult(found, f"{message}\n{advice}"), None))
