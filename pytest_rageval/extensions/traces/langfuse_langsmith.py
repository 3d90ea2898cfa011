"""Reads traces of Langfuse and runs of LangSmith: trees of records, each with an input, an output and feedback.

Langfuse has JSON with `observations` and `scores`, or one observation per record. Keys may be in camel case or snake
case, as its tables and its blob storage export them (langfuse.com/docs: "Export data from the UI", "Blob storage
export field reference", "Observation types"). LangSmith has `run_type`, `inputs`, `outputs`
(docs.langchain.com/langsmith: "Run data format").
"""

from collections import Counter
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
    """Yield the span of a trace of Langfuse, the spans of its observations, and its scores as feedback."""
    trace = str(record.get("id") or "")
    yield _span(record, place, trace=trace, id=trace or place, parent="", kind="", failed=False)
    for number, observation in enumerate(extract_objects(decode_json(record.get("observations"))), 1):
        yield from read_observation({"traceId": trace, **observation}, f"{place}, observation {number}")
    scores = decode_json(record.get("scores"))
    if isinstance(scores, Mapping):
        scores = [{"name": name, "value": value} for name, value in scores.items()]
    yield from extract_feedback(trace, scores)


def read_observation(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    trace = str(first_field(record, "traceId", "trace_id") or "")
    yield _span(
        record,
        place,
        trace=trace,
        id=str(record.get("id") or place),
        # The parent of an outermost observation is the trace itself.
        parent=str(first_field(record, "parentObservationId", "parent_observation_id") or trace),
        kind=record.get("type"),
        failed=record.get("level") == "ERROR",
    )


def read_download(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the spans and feedback of a trace as Langfuse's page of a trace downloads it.

    This form has the keys `trace` and `observations` side by side.
    """
    return read_trace({**record["trace"], "observations": record["observations"]}, place)


def read_run(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the span of a run of LangSmith, the spans of its child runs, and the feedback on all of them."""
    identifier = str(first_field(record, "id", "run_id") or place)
    trace = str(record.get("trace_id") or identifier)
    yield _span(
        record,
        place,
        trace=trace,
        id=identifier,
        parent=str(record.get("parent_run_id") or ""),
        kind=record.get("run_type"),
        failed=bool(record.get("error")) or record.get("status") == "error",
    )
    for number, child in enumerate(extract_objects(decode_json(record.get("child_runs"))), 1):
        child_run = {"parent_run_id": identifier, **child, "trace_id": trace}
        yield from read_run(child_run, f"{place}, run {number}")
    stats = decode_json(record.get("feedback_stats"))
    for name, entry in stats.items() if isinstance(stats, Mapping) else ():
        values = entry.get("values") if isinstance(entry, Mapping) else None
        if isinstance(values, Mapping) and values:
            yield from extract_feedback(
                identifier, [{"name": name, "label": Counter(values).most_common(1)[0][0]}]
            )
        elif isinstance(entry, Mapping):
            yield from extract_feedback(identifier, [{"name": name, "score": entry.get("avg")}])


def _span(record: Mapping[str, Any], place: str, *, kind: object, **fields: Any) -> Span:
    """Return the span of a record, whose times, input and output have one of the names of the two tools."""
    span_kind = SPAN_KINDS.get(str(kind).lower(), SpanKind.OTHER)
    output = first_field(record, "output", "outputs")
    return Span(
        place=place,
        kind=span_kind,
        start=parse_time(
            first_field(record, "startTime", "start_time", "timestamp", "createdAt", "created_at")
        ),
        end=parse_time(first_field(record, "endTime", "end_time")),
        question=extract_question(first_field(record, "input", "inputs")),
        answer=extract_answer(output),
        documents=extract_documents(output) if span_kind is SpanKind.SEARCH else None,
        **fields,
    )
