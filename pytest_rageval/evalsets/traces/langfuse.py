"""Traces of Langfuse: as JSON with `observations` and `scores`, or observations in rows of their own.

In camel or snake case, as its tables and its blob storage export them (langfuse.com/docs: "Export data from the UI",
"Blob storage export field reference", "Observation types").
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_rageval.evalsets.traces.extraction import answer_in, asked_in, unpacked
from pytest_rageval.evalsets.traces.records import (
    KINDS,
    Kind,
    Span,
    TraceRecord,
    documents_in,
    feedback_in,
    first_field,
    objects_in,
    seconds,
)

__all__ = ["read_download", "read_observation", "read_trace"]


def read_trace(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the parts of a trace with its observations and scores."""
    trace = str(record.get("id") or "")
    start = seconds(first_field(record, "timestamp", "createdAt", "created_at"))
    yield Span(
        place=place,
        trace=trace,
        id=trace or place,
        parent="",
        kind=Kind.OTHER,
        failed=False,
        start=start,
        end=start,
        asked=asked_in(record.get("input")),
        answer=answer_in(record.get("output")),
        documents=None,
    )
    for number, each in enumerate(objects_in(unpacked(record.get("observations"))), 1):
        yield from read_observation({"traceId": trace, **each}, f"{place}, observation {number}")
    scores = unpacked(record.get("scores"))
    if isinstance(scores, Mapping):
        scores = [{"name": name, "value": value} for name, value in scores.items()]
    yield from feedback_in(trace, scores)


def read_observation(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the span of an observation."""
    kind = KINDS.get(str(record.get("type")).lower(), Kind.OTHER)
    trace = str(first_field(record, "traceId", "trace_id") or "")
    yield Span(
        place=place,
        trace=trace,
        id=str(record.get("id") or place),
        # The outermost is the trace itself.
        parent=str(first_field(record, "parentObservationId", "parent_observation_id") or trace),
        kind=kind,
        failed=record.get("level") == "ERROR",
        start=seconds(first_field(record, "startTime", "start_time")),
        end=seconds(first_field(record, "endTime", "end_time")),
        asked=asked_in(record.get("input")),
        answer=answer_in(record.get("output")),
        documents=documents_in(record.get("output")) if kind is Kind.SEARCH else None,
    )


def read_download(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the parts of a trace as the page of one downloads it: its observations are next to it."""
    return read_trace({**record["trace"], "observations": record["observations"]}, place)
