"""Code that runs in the processes of `rageval_executor`: loads the retriever once, and answers chunks of questions."""

import inspect
import pickle  # nosec B403 # between processes of this run
import threading
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

from pytest_rageval.core.errors import (
    CallableError,
    Cause,
    RagevalError,
    Unscored,
    exception_text,
    raised_in_package,
)
from pytest_rageval.core.user_code import (
    CALL_ERRORS,
    InvalidResult,
    RemoteResult,
    error_result,
    is_async,
    read_to_end,
)
from pytest_rageval.retrievers.adapters import ADAPTERS, search_of
from pytest_rageval.retrievers.adapters.callables import Search
from pytest_rageval.retrievers.documents import retrieval_from

Call = tuple[str, int | None, Mapping[str, Any]]
"""The query, k and the context of a call."""


class PickledRetriever(NamedTuple):
    """A pickled retriever, which is sent to the processes.

    Attributes:
        token: identifies the retriever.
        content: the pickled retriever or its factory, and the adapters of other plugins.
        name: the name of its fixture.
        cause: the cause of examples for which it fails.
        id_path: see `document_from`.
    """

    token: str
    content: bytes
    name: str
    cause: Cause
    id_path: str


class Signature(NamedTuple):
    """How a retriever is called: see `Search`; `asynchronous` if it is async."""

    context: Mapping[str, bool]
    own_k: int | None
    asynchronous: bool
    description: str


class ChunkResult(NamedTuple):
    """The pickled `RemoteResult` of each call, and their mean duration in seconds; None if it is unknown."""

    results: list[bytes]
    seconds: float | None


_loaded: Final[dict[str, Search]] = {}
_called: Final[set[str]] = set()
_loading: Final = threading.Lock()


def read_signature(pickled: PickledRetriever) -> Signature | str:
    """Load a retriever and return how it is called, or the error message if it cannot be loaded."""
    try:
        search = _load_search(pickled)
    except CallableError as error:
        return str(error)
    return Signature(dict(search.context), search.own_k, is_async(search.retrieve), search.description)


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
        results.append(_pickle(result))
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
                message = f"{CallableError.from_exception(what, error)}{_import_hint(error)}"
                raise CallableError(message) from None
        return _loaded[pickled.token]


def _import_hint(error: Exception) -> str:
    if not isinstance(error, ImportError | AttributeError):
        return ""
    return (
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
    except CALL_ERRORS as error:
        value = error_result(error)
    return RemoteResult(value, seconds)


def _pickle(result: RemoteResult) -> bytes:
    try:
        return pickle.dumps(result)
    except Exception as error:  # noqa: BLE001 - the user's classes may raise anything
        found = "returned what cannot be pickled"
        message = f"returned for {{question}} what cannot be pickled: {exception_text(error)}"
        advice = "Return texts and plain metadata: they are sent from a process of rageval_executor."
        return pickle.dumps(RemoteResult(InvalidResult(found, f"{message}\n{advice}"), None))
