"""Runs of LangSmith, with `run_type`, `inputs` and `outputs` (docs.langchain.com/langsmith: "Run data format")."""

from collections import Counter
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

__all__ = ["read_run"]


def read_run(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """Yield the span of a run, those of its children, and the feedback on them."""
    identifier = str(first_field(record, "id", "run_id") or place)
    trace = str(record.get("trace_id") or identifier)
    kind = KINDS.get(str(record.get("run_type")).lower(), Kind.OTHER)
    yield Span(
        place=place,
        trace=trace,
        id=identifier,
        parent=str(record.get("parent_run_id") or ""),
        kind=kind,
        failed=bool(record.get("error")) or record.get("status") == "error",
        start=seconds(record.get("start_time")),
        end=seconds(record.get("end_time")),
        asked=asked_in(record.get("inputs")),
        answer=answer_in(record.get("outputs")),
        documents=documents_in(record.get("outputs")) if kind is Kind.SEARCH else None,
    )
    for number, child in enumerate(objects_in(unpacked(record.get("child_runs"))), 1):
        within = {"parent_run_id": identifier, **child, "trace_id": trace}
        yield from read_run(within, f"{place}, run {number}")
    stats = unpacked(record.get("feedback_stats"))
    for name, each in stats.items() if isinstance(stats, Mapping) else ():
        values = each.get("values") if isinstance(each, Mapping) else None
        if isinstance(values, Mapping) and values:
            yield from feedback_in(
                identifier, [{"name": name, "label": Counter(values).most_common(1)[0][0]}]
            )
        elif isinstance(each, Mapping):
            yield from feedback_in(identifier, [{"name": name, "score": each.get("avg")}])
