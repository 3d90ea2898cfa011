"""Reads spans of OpenTelemetry with the attributes of OpenInference or of the GenAI conventions.

- Spans that Phoenix exports: `openinference.span.kind`, `input.value`, `output.value`,
  `retrieval.documents.0.document.content`, flat or nested (OpenInference specification, "Semantic Conventions";
  Phoenix's REST API `GET /v1/projects/{project}/spans`, `get_spans_dataframe` and span annotations).
- OTLP JSON, `resourceSpans[].scopeSpans[].spans[]` (opentelemetry-proto, `trace.proto`); the GenAI conventions name
  `gen_ai.operation.name` = `retrieval`, `gen_ai.retrieval.query.text`, `gen_ai.retrieval.documents`,
  `gen_ai.input.messages`, `gen_ai.output.messages`, and the event `gen_ai.evaluation.result` (repository
  open-telemetry/semantic-conventions-genai, `docs/gen-ai/gen-ai-spans.md`).
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pytest_rageval.core.ranking import Document
from pytest_rageval.extensions.traces.records import (
    MAX_LEVELS,
    SPAN_KINDS,
    Span,
    SpanKind,
    TraceRecord,
    extract_answer,
    extract_documents,
    extract_feedback,
    extract_objects,
    extract_question,
    first_field,
    first_not_none,
    get_path,
    nest_dotted_keys,
    parse_time,
    unwrap_list,
)


def is_phoenix(record: Mapping[str, object]) -> bool:
    """Return True if a record is a span of Phoenix or of OpenTelemetry's console exporter."""
    context = record.get("context")
    return (
        any(str(name).startswith(("attributes.", "context.")) for name in record)
        or (isinstance(context, Mapping) and "trace_id" in context)
        or isinstance(record.get("attributes"), Mapping)
    )


def read_phoenix(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
    fields = nest_dotted_keys(record)
    context, attributes = (
        value if isinstance(value := fields.get(name), dict) else {} for name in ("context", "attributes")
    )
    span = Span(
        place=place,
        trace=str(first_field(context, "trace_id") or first_field(fields, "trace_id", "traceId") or ""),
        id=str(first_field(context, "span_id") or first_field(fields, "span_id", "spanId") or place),
        parent=str(first_field(fields, "parent_id", "parentId", "parent_span_id") or ""),
        kind=SPAN_KINDS.get(str(fields.get("span_kind")).lower(), SpanKind.OTHER),
        # OpenTelemetry's console exporter has the status code within `status`.
        failed="ERROR" in (fields.get("status_code"), get_path(fields, "status.status_code")),
        start=parse_time(fields.get("start_time")),
        end=parse_time(fields.get("end_time")),
    )
    yield from _read_attributes(span, attributes)
    yield from extract_feedback(span.id, fields.get("annotations", fields.get("span_annotations")))


def read_otlp(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
    otlp_spans = (
        span
        for resource in extract_objects(first_field(record, "resourceSpans", "resource_spans"))
        for scope in extract_objects(first_field(resource, "scopeSpans", "scope_spans"))
        for span in extract_objects(scope.get("spans"))
    )
    for number, otlp_span in enumerate(otlp_spans, 1):
        status = otlp_span.get("status")
        location = f"{place}, span {number}"
        span = Span(
            place=location,
            trace=str(first_field(otlp_span, "traceId", "trace_id") or ""),
            id=str(first_field(otlp_span, "spanId", "span_id") or location),
            parent=str(first_field(otlp_span, "parentSpanId", "parent_span_id") or ""),
            kind=SpanKind.OTHER,
            failed=isinstance(status, Mapping) and status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
            start=parse_time(first_field(otlp_span, "startTimeUnixNano", "start_time_unix_nano")),
            end=parse_time(first_field(otlp_span, "endTimeUnixNano", "end_time_unix_nano")),
        )
        yield from _read_attributes(span, nest_dotted_keys(_attributes_by_key(otlp_span.get("attributes"))))
        for event in extract_objects(otlp_span.get("events")):
            if event.get("name") == "gen_ai.evaluation.result":
                attributes = nest_dotted_keys(_attributes_by_key(event.get("attributes")))
                yield from extract_feedback(span.id, [get_path(attributes, "gen_ai.evaluation")])


def read_attributes(attributes: Mapping[str, object]) -> Iterator[tuple[str, tuple[Document, ...]]]:
    """Yield the query and the documents of a span that is a search or a reranking, from its attributes."""
    span = Span(place="", trace="", id="", parent="", kind=SpanKind.OTHER, failed=False, start=0.0, end=0.0)
    for _ in _read_attributes(span, nest_dotted_keys(attributes)):
        pass
    if span.documents is not None:
        yield span.question.text or "", span.documents


def _attributes_by_key(attributes: Any) -> dict[str, object]:
    return {str(item.get("key")): _plain_value(item.get("value")) for item in extract_objects(attributes)}


def _plain_value(value: Any, levels: int = MAX_LEVELS) -> Any:
    """Convert a typed value of OTLP (`AnyValue`, such as {"intValue": "3"}) to a plain value."""
    if not isinstance(value, Mapping) or not levels:
        return value
    for name, held in value.items():
        if name == "intValue":
            with suppress(TypeError, ValueError):
                return int(held)
        if name == "arrayValue":
            return [_plain_value(item, levels - 1) for item in extract_objects(held.get("values"))]
        if name == "kvlistValue":
            return {
                str(item.get("key")): _plain_value(item.get("value"), levels - 1)
                for item in extract_objects(held.get("values"))
            }
        return held
    return None


def _read_attributes(span: Span, attributes: Mapping[str, object]) -> Iterator[TraceRecord]:
    """Set the fields of a span from its attributes (OpenInference or GenAI conventions); yield it and its feedback."""
    kind = get_path(attributes, "openinference.span.kind", "gen_ai.operation.name")
    span.kind = span.kind if kind is None else SPAN_KINDS.get(str(kind).lower(), SpanKind.OTHER)
    output = get_path(attributes, "output.value")
    span.question = extract_question(
        first_not_none(
            get_path(attributes, "gen_ai.retrieval.query.text", "reranker.query", "input.value"),
            unwrap_list(get_path(attributes, "llm.input_messages")),
            get_path(attributes, "gen_ai.input.messages"),
        )
    )
    messages = unwrap_list(get_path(attributes, "llm.output_messages", "gen_ai.output.messages"))
    # For a model, `output.value` may be the whole response of its server: prefer the messages.
    span.answer = extract_answer(
        first_not_none(messages, output) if span.kind is SpanKind.MODEL else first_not_none(output, messages)
    )
    if span.kind is SpanKind.SEARCH:
        listed = get_path(attributes, "retrieval.documents", "gen_ai.retrieval.documents", "output.value")
        span.documents = _add_ids(extract_documents(listed), output)
    elif span.kind is SpanKind.RERANKING:
        span.documents = extract_documents(get_path(attributes, "reranker.output_documents"))
    yield span
    for about, parent in ((span.id, attributes), (span.trace, get_path(attributes, "trace"))):
        for name in ("annotation", "evaluation"):
            entries = extract_objects(unwrap_list(get_path(parent, f"{name}s")))
            yield from extract_feedback(about, [entry.get(name) for entry in entries])


def _add_ids(documents: tuple[Document, ...] | None, output: Any) -> tuple[Document, ...] | None:
    """Add ids from an output with the same texts: an instrumentation may leave them out of attributes."""
    if documents is None or all(document.id is not None for document in documents):
        return documents
    others = extract_documents(output) or ()
    if [other.text for other in others] != [document.text for document in documents]:
        return documents
    return tuple(
        replace(document, id=other.id if document.id is None else document.id)
        for document, other in zip(documents, others, strict=True)
    )
