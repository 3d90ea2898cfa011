"""Reads runs of LangSmith: `run_type`, `inputs`, `outputs` (docs.langchain.com/langsmith: "Run data format")."""

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


def read_run(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the span of a run, the spans of its child runs, and the feedback on all of them."""
    identifier = str(first_field(record, "id", "run_id") or place)
    trace = str(record.get("trace_id") or identifier)
    kind = SPAN_KINDS.get(str(record.get("run_type")).lower(), SpanKind.OTHER)
    yield Span(
        place=place,
        trace=trace,
        id=identifier,
        parent=str(record.get("parent_run_id") or ""),
        kind=kind,
        failed=bool(record.get("error")) or record.get("status") == "error",
        start=parse_time(record.get("start_time")),
        end=parse_time(record.get("end_time")),
        question=extract_question(record.get("inputs")),
        answer=extract_answer(record.get("outputs")),
        documents=extract_documents(record.get("outputs")) if kind is SpanKind.SEARCH else None,
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
