"""Spans of OpenTelemetry, with the attributes of OpenInference or of the GenAI conventions.

- As Phoenix exports them: `openinference.span.kind`, `input.value`, `output.value`,
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

from pytest_rageval.datatypes import Document
from pytest_rageval.evalsets.traces.extraction import answer_in, asked_in
from pytest_rageval.evalsets.traces.records import (
    KINDS,
    LEVELS,
    Kind,
    Span,
    TraceRecord,
    at_path,
    documents_in,
    feedback_in,
    first_field,
    first_of,
    items_of,
    nested,
    objects_in,
    seconds,
)

__all__ = ["is_phoenix", "read_otlp", "read_phoenix"]


def is_phoenix(record: Mapping[str, Any]) -> bool:
    """Whether a record is a span of Phoenix or of the console exporter."""
    context = record.get("context")
    return (
        any(str(name).startswith(("attributes.", "context.")) for name in record)
        or (isinstance(context, Mapping) and "trace_id" in context)
        or isinstance(record.get("attributes"), Mapping)
    )


def read_phoenix(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield such a span, and the annotations of it."""
    named = nested(record)
    context, attributes = (
        value if isinstance(value := named.get(name), dict) else {} for name in ("context", "attributes")
    )
    span = Span(
        place=place,
        trace=str(first_field(context, "trace_id") or first_field(named, "trace_id", "traceId") or ""),
        id=str(first_field(context, "span_id") or first_field(named, "span_id", "spanId") or place),
        parent=str(first_field(named, "parent_id", "parentId", "parent_span_id") or ""),
        kind=KINDS.get(str(named.get("span_kind")).lower(), Kind.OTHER),
        # OpenTelemetry's own exporter to the console has it within `status`.
        failed="ERROR" in (named.get("status_code"), at_path(named, "status", "status_code")),
        start=seconds(named.get("start_time")),
        end=seconds(named.get("end_time")),
    )
    yield from _with_attributes(span, attributes)
    yield from feedback_in(span.id, named.get("annotations", named.get("span_annotations")))


def read_otlp(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the spans of an export in OTLP, and the evaluations among their events."""
    found = (
        span
        for resource in objects_in(first_field(record, "resourceSpans", "resource_spans"))
        for scope in objects_in(first_field(resource, "scopeSpans", "scope_spans"))
        for span in objects_in(scope.get("spans"))
    )
    for number, each in enumerate(found, 1):
        status = each.get("status")
        where = f"{place}, span {number}"
        span = Span(
            place=where,
            trace=str(first_field(each, "traceId", "trace_id") or ""),
            id=str(first_field(each, "spanId", "span_id") or where),
            parent=str(first_field(each, "parentSpanId", "parent_span_id") or ""),
            kind=Kind.OTHER,
            failed=isinstance(status, Mapping) and status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
            start=seconds(first_field(each, "startTimeUnixNano", "start_time_unix_nano")),
            end=seconds(first_field(each, "endTimeUnixNano", "end_time_unix_nano")),
        )
        yield from _with_attributes(span, nested(_keyed(each.get("attributes"))))
        for event in objects_in(each.get("events")):
            if event.get("name") == "gen_ai.evaluation.result":
                said = at_path(nested(_keyed(event.get("attributes"))), "gen_ai", "evaluation")
                yield from feedback_in(span.id, [said])


def _keyed(attributes: Any) -> dict[str, Any]:
    """OTLP's list of keys and typed values as an object."""
    return {str(each.get("key")): _any_value(each.get("value")) for each in objects_in(attributes)}


def _any_value(value: Any, levels: int = LEVELS) -> Any:
    if not isinstance(value, Mapping) or not levels:
        return value
    for name, held in value.items():
        if name == "intValue":
            with suppress(TypeError, ValueError):
                return int(held)
        if name == "arrayValue":
            return [_any_value(each, levels - 1) for each in objects_in(held.get("values"))]
        if name == "kvlistValue":
            return {
                str(each.get("key")): _any_value(each.get("value"), levels - 1)
                for each in objects_in(held.get("values"))
            }
        return held
    return None


def _with_attributes(span: Span, at: Mapping[str, Any]) -> Iterator[TraceRecord]:
    """A span with what the attributes of OpenInference or of the GenAI conventions say, and the feedback on it."""
    kind = first_of(at_path(at, "openinference", "span", "kind"), at_path(at, "gen_ai", "operation", "name"))
    span.kind = span.kind if kind is None else KINDS.get(str(kind).lower(), Kind.OTHER)
    output = at_path(at, "output", "value")
    span.asked = asked_in(
        first_of(
            at_path(at, "gen_ai", "retrieval", "query", "text"),
            at_path(at, "reranker", "query"),
            at_path(at, "input", "value"),
            items_of(at_path(at, "llm", "input_messages")),
            at_path(at, "gen_ai", "input", "messages"),
        )
    )
    said = items_of(
        first_of(at_path(at, "llm", "output_messages"), at_path(at, "gen_ai", "output", "messages"))
    )
    # The output of a model may be the whole reply of its server.
    span.answer = answer_in(first_of(said, output) if span.kind is Kind.MODEL else first_of(output, said))
    if span.kind is Kind.SEARCH:
        listed = first_of(
            at_path(at, "retrieval", "documents"), at_path(at, "gen_ai", "retrieval", "documents"), output
        )
        span.documents = _with_ids(documents_in(listed), output)
    elif span.kind is Kind.RERANKING:
        span.documents = documents_in(at_path(at, "reranker", "output_documents"))
    yield span
    for about, within in ((span.id, at), (span.trace, at_path(at, "trace"))):
        for name in ("annotation", "evaluation"):
            yield from feedback_in(
                about, [each.get(name) for each in objects_in(items_of(at_path(within, f"{name}s")))]
            )


def _with_ids(documents: tuple[Document, ...] | None, output: Any) -> tuple[Document, ...] | None:
    """The documents with the ids in the output, which instrumentations may leave out of the attributes.

    The output is compared with them: it may hold other documents.
    """
    if documents is None or all(each.id is not None for each in documents):
        return documents
    others = documents_in(output) or ()
    if [each.text for each in others] != [each.text for each in documents]:
        return documents
    return tuple(
        replace(each, id=other.id if each.id is None else each.id)
        for each, other in zip(documents, others, strict=True)
    )
