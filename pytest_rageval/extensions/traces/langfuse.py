"""Reads traces of Langfuse: JSON with `observations` and `scores`, or one observation per record.

Keys may be in camel case or snake case, as Langfuse's tables and its blob storage export them (langfuse.com/docs:
"Export data from the UI", "Blob storage export field reference", "Observation types").
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_rageval.extensions.traces.records import (
    SPAN_KINDS,
    Span,
    SpanKind,
    TraceRecord,
    decode_json,
    extract_answer,
    extract_documents,
    extract_feedback,
    extract_objects,
    extract_question,
    first_field,
    parse_time,
)


def read_trace(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the span of a trace, the spans of its observations, and its scores as feedback."""
    trace = str(record.get("id") or "")
    start = parse_time(first_field(record, "timestamp", "createdAt", "created_at"))
    yield Span(
        place=place,
        trace=trace,
        id=trace or place,
        parent="",
        kind=SpanKind.OTHER,
        failed=False,
        start=start,
        end=start,
        question=extract_question(record.get("input")),
        answer=extract_answer(record.get("output")),
        documents=None,
    )
    for number, observation in enumerate(extract_objects(decode_json(record.get("observations"))), 1):
        yield from read_observation({"traceId": trace, **observation}, f"{place}, observation {number}")
    scores = decode_json(record.get("scores"))
    if isinstance(scores, Mapping):
        scores = [{"name": name, "value": value} for name, value in scores.items()]
    yield from extract_feedback(trace, scores)


def read_observation(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the span of an observation."""
    kind = SPAN_KINDS.get(str(record.get("type")).lower(), SpanKind.OTHER)
    trace = str(first_field(record, "traceId", "trace_id") or "")
    yield Span(
        place=place,
        trace=trace,
        id=str(record.get("id") or place),
        # The parent of an outermost observation is the trace itself.
        parent=str(first_field(record, "parentObservationId", "parent_observation_id") or trace),
        kind=kind,
        failed=record.get("level") == "ERROR",
        start=parse_time(first_field(record, "startTime", "start_time")),
        end=parse_time(first_field(record, "endTime", "end_time")),
        question=extract_question(record.get("input")),
        answer=extract_answer(record.get("output")),
        documents=extract_documents(record.get("output")) if kind is SpanKind.SEARCH else None,
    )


def read_download(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the spans and feedback of a trace as Langfuse's page of a trace downloads it.

    This form has the keys `trace` and `observations` side by side.
    """
    return read_trace({**record["trace"], "observations": record["observations"]}, place)
