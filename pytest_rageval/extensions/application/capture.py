"""`capture`: records what searches returned while the application answered a question."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, Final
from uuid import UUID

from pytest_rageval.calls import qualified_name
from pytest_rageval.core.errors import InputError, Unscored, did_you_mean
from pytest_rageval.core.ranking import Step
from pytest_rageval.lib.foreign_values import is_async
from pytest_rageval.lib.lazy import Lazy


@dataclass(eq=False, slots=True)
class Recorder:
    """The searches that ran while one question was answered."""

    # In the order of their ends, with the documents as returned.
    steps: list[Step] = field(default_factory=list)
    mixed: bool = False  # whether a search ran in a thread beside other questions: it is unknown whose it was

    def searches(self) -> list[Step]:
        if self.mixed:
            raise Unscored(
                "a captured search ran in a thread beside other questions, and whose it was is not known; make the "
                "application a sync function, or pass the context on (asyncio.to_thread does)"
            )
        return self.steps


_CURRENT: Final[ContextVar[Recorder | None]] = ContextVar("rageval_recorder", default=None)
_ACTIVE: Final[set[Recorder]] = set()
_LOCK: Final = threading.Lock()
_CAPTURED: Final[list[str]] = []


def captured() -> tuple[str, ...]:
    return tuple(_CAPTURED)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record the searches of the code in the `with` block, and of tasks and threads to which it passes its context."""
    recorder = Recorder()
    token = _CURRENT.set(recorder)
    with _LOCK:
        _ACTIVE.add(recorder)
    try:
        yield recorder
    finally:
        _CURRENT.reset(token)
        with _LOCK:
            _ACTIVE.discard(recorder)


def record(query: object, documents: Any) -> None:
    """Record a search for the question that is being answered; nothing if there is none."""
    recorder = _CURRENT.get()
    with _LOCK:
        if recorder is None:
            # A thread without the context of its question: known only if no other question is answered now.
            if len(_ACTIVE) != 1:
                for other in _ACTIVE:
                    other.mixed = True
                return
            recorder = next(iter(_ACTIVE))
        # A list is copied, since the application may go on to change it.
        recorder.steps.append(Step(str(query), list(documents) if isinstance(documents, list) else documents))


read_attributes: Final = Lazy("extensions.traces.opentelemetry", "read_attributes")

HAYSTACK_SEARCHES: Final = ("Retriever", "Ranker", "Joiner")
"""Parts of the names of Haystack's components whose output is what was found."""


def _require(module: str, framework: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise InputError(
            f"capture({framework!r}) needs {module.partition('.')[0]}, which is not installed."
        ) from None


@contextmanager
def _langchain() -> Iterator[None]:
    """Record what retrievers of LangChain return; of one that calls others, the outer one's documents."""
    callbacks = _require("langchain_core.callbacks", "langchain")
    context = _require("langchain_core.tracers.context", "langchain")

    class Handler(callbacks.BaseCallbackHandler):  # type: ignore[misc, name-defined]
        run_inline = True
        is_active = True

        def __init__(self) -> None:
            self.queries: dict[UUID, str] = {}

        def on_retriever_start(
            self,
            _serialized: object,
            query: str,
            *,
            run_id: UUID,
            parent_run_id: UUID | None = None,
            **_: Any,
        ) -> None:
            # Not of a retriever within another.
            if self.is_active and parent_run_id not in self.queries:
                self.queries[run_id] = query

        def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
            if run_id in self.queries:
                record(self.queries.pop(run_id), documents)

        def on_retriever_error(self, _error: BaseException, *, run_id: UUID, **_: Any) -> None:
            self.queries.pop(run_id, None)

    handler = Handler()
    # It is the default of the variable, since threads and the event loop of the run have contexts of their own.
    variable: ContextVar[Any] = ContextVar("rageval_langchain_handler", default=handler)
    context.register_configure_hook(variable, inheritable=True)
    try:
        yield
    finally:
        handler.is_active = False  # LangChain never lets go of a hook


@contextmanager
def _llama_index() -> Iterator[None]:
    instrumentation = _require("llama_index.core.instrumentation", "llama_index")
    handlers = _require("llama_index.core.instrumentation.event_handlers", "llama_index")

    class Handler(handlers.BaseEventHandler):  # type: ignore[misc, name-defined]
        @classmethod
        def class_name(cls) -> str:
            return "RagevalEventHandler"

        def handle(self, event: Any, **_: Any) -> None:
            if event.class_name() == "RetrievalEndEvent":
                query = event.str_or_query_bundle
                record(getattr(query, "query_str", query), event.nodes)

    dispatcher, handler = instrumentation.get_dispatcher(), Handler()
    dispatcher.add_event_handler(handler)
    try:
        yield
    finally:
        dispatcher.event_handlers.remove(handler)


@contextmanager
def _haystack() -> Iterator[None]:
    tracing = _require("haystack.tracing", "haystack")
    proxy = tracing.tracer

    class Span(tracing.Span):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any, component: str) -> None:
            self.inner = inner
            self.component = component
            self.query = ""

        def set_tag(self, key: str, value: Any) -> None:
            self.inner.set_tag(key, value)

        def set_content_tag(self, key: str, value: Any) -> None:
            """Record the documents in the output; Haystack itself sets such tags only if it is asked to."""
            self.inner.set_content_tag(key, value)
            if key == "haystack.component.input" and isinstance(value, dict):
                self.query = next(
                    (value[name] for name in ("query", "text") if isinstance(value.get(name), str)), ""
                )
            is_search = any(part in self.component for part in HAYSTACK_SEARCHES)
            if key == "haystack.component.output" and is_search and "documents" in value:
                record(self.query, value["documents"])

    class Tracer(tracing.Tracer):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @contextmanager
        def trace(
            self, operation_name: str, tags: dict[str, object] | None = None, parent_span: Any = None
        ) -> Iterator[Any]:
            parent = parent_span.inner if isinstance(parent_span, Span) else parent_span
            with self.inner.trace(operation_name, tags=tags, parent_span=parent) as span:
                yield Span(span, str((tags or {}).get("haystack.component.type", "")))

        def current_span(self) -> Any:
            return self.inner.current_span()

    before = proxy.actual_tracer
    proxy.actual_tracer = Tracer(before)
    try:
        yield
    finally:
        proxy.actual_tracer = before


@contextmanager
def _opentelemetry() -> Iterator[None]:
    sdk = _require("opentelemetry.sdk.trace", "opentelemetry")
    provider = _require("opentelemetry.trace", "opentelemetry").get_tracer_provider()
    if not isinstance(provider, sdk.TracerProvider):
        raise InputError(
            "capture('opentelemetry'): no TracerProvider of its SDK is set, so that no span is recorded.\n"
            "Instrument the application first: opentelemetry.trace.set_tracer_provider(TracerProvider())."
        )

    class Processor(sdk.SpanProcessor):  # type: ignore[misc, name-defined]
        """Receives the spans that ended. A provider never lets go of a processor."""

        is_active = True

        def on_end(self, span: Any) -> None:
            if not self.is_active:
                return
            for query, documents in read_attributes(span.attributes or {}):
                record(query, documents)

    processor = Processor()
    provider.add_span_processor(processor)
    try:
        yield
    finally:
        processor.is_active = False


FRAMEWORKS: Final = {
    "langchain": _langchain,
    "llama_index": _llama_index,
    "haystack": _haystack,
    "opentelemetry": _opentelemetry,
}


@contextmanager
def capture(owner: object, method: str = "") -> Iterator[None]:
    """Record what a method returns while the application answers; within the `with` block, and for all threads.

    Args:
        owner: the object or class with the method; or the name of a framework whose searches are recorded, without a
            method: "langchain", "llama_index", "haystack", or "opentelemetry" for spans of retrievers.
        method: the name of the method, sync or async. Its first argument, or the one named `query`, is the query.

    Raises:
        InputError: there is no such method or framework.
    """
    if isinstance(owner, str):
        if owner not in FRAMEWORKS or method:
            raise InputError(
                f"capture({owner!r}): there is no such framework.{did_you_mean(owner, FRAMEWORKS)}\n"
                f'There are: {", ".join(FRAMEWORKS)}. For a method, give its object: capture(store, "search").'
            )
        manager, name = FRAMEWORKS[owner](), owner
    else:
        manager, name = _patched(owner, method), f"{_name(owner)}.{method}"
    with manager:
        _CAPTURED.append(name)
        try:
            yield
        finally:
            _CAPTURED.remove(name)


@contextmanager
def _patched(owner: Any, method: str) -> Iterator[None]:
    original = getattr(owner, method, None)
    if not callable(original):
        raise InputError(
            f"capture: {_name(owner)}.{method} is no function or method.{did_you_mean(method, dir(owner))}"
        )
    of = type if isinstance(owner, type) else object
    own_names = getattr(owner, "__dict__", {})
    is_own, own = method in own_names, own_names.get(method)
    replacement: Any = _recorded(original)
    if isinstance(own, staticmethod | classmethod):
        replacement = staticmethod(replacement)  # the original is bound already
    try:
        # Some objects, such as models of pydantic, refuse a new attribute in any other way.
        of.__setattr__(owner, method, replacement)
    except (AttributeError, TypeError):
        raise InputError(
            f"capture: {_name(owner)}.{method} cannot be replaced.\n"
            f"Give the class: capture({type(owner).__name__}, {method!r}); or a method of your own that calls it."
        ) from None
    try:
        yield
    finally:
        if is_own:
            of.__setattr__(owner, method, own)
        else:
            of.__delattr__(owner, method)


def _name(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else qualified_name(owner)


def _recorded(original: Callable[..., Any]) -> Callable[..., Any]:
    def query_of(args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        texts = [argument for argument in args if isinstance(argument, str)]
        return kwargs.get("query", texts[0] if texts else "")

    if is_async(original):

        @wraps(original)
        async def awaiting(*args: Any, **kwargs: Any) -> Any:
            returned = await original(*args, **kwargs)
            record(query_of(args, kwargs), returned)
            return returned

        return awaiting

    @wraps(original)
    def calling(*args: Any, **kwargs: Any) -> Any:
        returned = original(*args, **kwargs)
        record(query_of(args, kwargs), returned)
        return returned

    return calling
