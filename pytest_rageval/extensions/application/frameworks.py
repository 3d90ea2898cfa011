"""Records the searches of frameworks, by their own callbacks and instrumentation, for `capture`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final
from uuid import UUID

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.lazy import Lazy

Record = Callable[[object, object], None]
"""A function that records a search: its query, and the documents that it found."""

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
def capture_langchain(record: Record) -> Iterator[None]:
    """Record what retrievers of LangChain return; of one that calls others, the outer one's documents."""
    callbacks = _require("langchain_core.callbacks", "langchain")
    context = _require("langchain_core.tracers.context", "langchain")

    class Handler(callbacks.BaseCallbackHandler):  # type: ignore[misc, name-defined]
        """Receives the calls of all retrievers."""

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
            """Remember the query, unless it is of a retriever within another."""
            if self.is_active and parent_run_id not in self.queries:
                self.queries[run_id] = query

        def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
            """Record the documents."""
            if run_id in self.queries:
                record(self.queries.pop(run_id), documents)

        def on_retriever_error(self, _error: BaseException, *, run_id: UUID, **_: Any) -> None:
            """Forget the query."""
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
def capture_llama_index(record: Record) -> Iterator[None]:
    """Record what retrievers of LlamaIndex return, by the events of its instrumentation."""
    instrumentation = _require("llama_index.core.instrumentation", "llama_index")
    handlers = _require("llama_index.core.instrumentation.event_handlers", "llama_index")

    class Handler(handlers.BaseEventHandler):  # type: ignore[misc, name-defined]
        """Receives all events."""

        @classmethod
        def class_name(cls) -> str:
            return "RagevalEventHandler"

        def handle(self, event: Any, **_: Any) -> None:
            """Record the nodes of a retrieval that ended."""
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
def capture_haystack(record: Record) -> Iterator[None]:
    """Record the documents that retrievers, rankers and joiners of Haystack's pipelines give, by its tracing."""
    tracing = _require("haystack.tracing", "haystack")
    proxy = tracing.tracer

    class Span(tracing.Span):  # type: ignore[misc, name-defined]
        """Passes tags on to the span of another tracer."""

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
        """Wraps the spans of another tracer."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @contextmanager
        def trace(
            self, operation_name: str, tags: dict[str, Any] | None = None, parent_span: Any = None
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
def capture_opentelemetry(record: Record) -> Iterator[None]:
    """Record the documents in spans of retrievers, by the conventions of OpenInference or of GenAI."""
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
            """Record the documents of a retriever's span."""
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
