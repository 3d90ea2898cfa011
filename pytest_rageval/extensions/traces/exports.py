"""Reads exports of traces and data sets record by record; the keys of a record determine the tool that wrote it.

This module itself reads items of data sets: of Langfuse (`input`, `expectedOutput`), of LangSmith (`inputs`, `outputs`;
its docs: "Example data format") and of Phoenix (`input`, `output`), goldens of DeepEval, and eval sets that were
written from traces. What it does not read of an item is kept under the same key. And it reads trees of records, each
with an input, an output and feedback, of two tools:

- Langfuse has JSON with `observations` and `scores`, or one observation per record. Keys may be in camel case or snake
  case, as its tables and its blob storage export them (langfuse.com/docs: "Export data from the UI", "Blob storage
  export field reference", "Observation types").
- LangSmith has `run_type`, `inputs`, `outputs` (docs.langchain.com/langsmith: "Run data format").
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.ranking import Step
from pytest_rageval.evalsets.files import json_elements, json_records, not_utf8_error, open_file, parse_json
from pytest_rageval.evalsets.formats import Shape, is_golden, is_test_case
from pytest_rageval.evalsets.formats.peers import read_golden
from pytest_rageval.evalsets.formats.table import find_delimiter, read_rows
from pytest_rageval.evalsets.loading import missing_file_error
from pytest_rageval.evalsets.records import FIELDS, Check
from pytest_rageval.extensions.traces.opentelemetry import is_phoenix, read_otlp, read_phoenix
from pytest_rageval.extensions.traces.records import (
    SPAN_KINDS,
    ExtractedQuestion,
    RecordedQuestion,
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
from pytest_rageval.lib.foreign_values import JsonObject

ALLOWED_KINDS: Final = (
    "Allowed are spans of Phoenix (attributes, context), OTLP JSON (resourceSpans), traces, observations, scores and "
    "data set items of Langfuse, runs and examples of LangSmith, data sets of Phoenix, and goldens of DeepEval, as "
    "JSON, JSON lines or CSV."
)
REFERENCE_KEYS: Final = (
    "reference", "expectedOutput", "expected_output", "expected_response", "expected", "expectations", "outputs",
    "output",
)  # fmt: skip
TIME_KEYS: Final = ("updatedAt", "updated_at", "modified_at", "createdAt", "created_at")
ITEM_KEYS: Final = frozenset((
    "id", "example_id", "exampleId", "question", "inputs", "input", "history", "metadata", "retrieved", "steps",
    "status", "datasetId", "dataset_id", "datasetName", "dataset_name", "source_run_id", "sourceTraceId",
    "source_trace_id", "sourceObservationId", "source_observation_id", *REFERENCE_KEYS, *TIME_KEYS,
))  # fmt: skip
"""The keys of an item that are read, or that only a tool uses."""


COLUMN_PREFIXES: Final = {
    f"{name}{mark}": name for name in ("inputs", "outputs", "input", "output") for mark in "._"
}
"""Prefixes of CSV columns that contain one key of an object, such as "inputs.question", and the key of the object."""


def read_export(path: Path) -> Iterator[TraceRecord]:
    if not path.exists():
        raise missing_file_error("file of traces", path)
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected a file of traces.\nName its files.")
    for place, record in _records(path):
        yield from _read_record(record, place)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    shape = Shape(path)
    if shape.is_table:
        for place, row in read_rows(path, find_delimiter(path))[1]:
            yield place, _row_to_record(row)
    elif shape.head.lstrip()[:1] == "[":
        yield from json_elements(path)
    elif shape.record or not shape.is_json:
        yield from json_records(path)
    else:
        # The file is one JSON object over several lines.
        with open_file(path) as file:
            raw = file.stream.read()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise not_utf8_error(path.name, error) from None
        yield path.name, parse_json(text, path.name, "Give one JSON document, or one JSON object a line.")


def _row_to_record(row: Mapping[str, str]) -> dict[str, object]:
    """Convert a CSV row to a record: parse JSON cells, group columns by `COLUMN_PREFIXES`, leave out empty cells."""
    record: dict[str, Any] = {}
    for name, cell in row.items():
        if cell:
            # A column `input_token_count` beside a column `input` is no part of it.
            prefix = next(
                (
                    p
                    for p, key in COLUMN_PREFIXES.items()
                    if name.startswith(p) and name != p and key not in row
                ),
                None,
            )
            if prefix is None:
                record[name] = decode_json(cell) if cell[0] in "[{" else cell
            else:
                record.setdefault(COLUMN_PREFIXES[prefix], {})[name.removeprefix(prefix)] = decode_json(cell)
    return record


def _read_record(record: Any, place: str) -> Iterator[TraceRecord]:
    if not isinstance(record, Mapping):
        raise InputError(f"{place}: a record is an object, found {record!r:.40}.\n{ALLOWED_KINDS}")
    if is_test_case(record):
        raise InputError(
            f"{place} is a test case of promptfoo, and no trace.\n"
            'The file is an eval set as it is: rageval_evalset("FILE"), or `rageval evalset check FILE`.'
        )
    read = next((read for recognises, read in READERS if recognises(record)), None)
    if read is None:
        found = ", ".join(str(name)[:40] for name in list(record)[:12]) or "nothing"
        raise InputError(f"{place} is not a trace, span or data set item. Found: {found}.\n{ALLOWED_KINDS}")
    yield from read(record, place)


def _read_item(record: JsonObject, place: str) -> Iterator[TraceRecord]:
    question = extract_question(first_field(record, "question", "inputs", "input"))
    if "question" in record and isinstance(record.get("history"), list):
        question = ExtractedQuestion(
            question.text, extract_question({"messages": [*record["history"], ["user", "?"]]}).history
        )
    expected = first_field(record, *REFERENCE_KEYS)
    metadata = decode_json(record.get("metadata"))
    yield RecordedQuestion(
        place=place,
        id=str(first_field(record, "id", "example_id", "exampleId") or ""),
        time=parse_time(first_field(record, *TIME_KEYS)),
        question=question,
        reference=extract_answer(expected),
        retrieved=extract_documents(record["retrieved"]) if "retrieved" in record else None,
        steps=[
            Step(str(step.get("query")), extract_documents(step.get("documents")) or ())
            for step in extract_objects(record.get("steps"))
        ],
        metadata=metadata if isinstance(metadata, dict) else {},
        of_evalset="question" in record,
        extra=_extra({name: value for name, value in record.items() if name not in ITEM_KEYS}),
    )


def _read_golden(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
    fields = read_golden(record, Check(place))
    yield RecordedQuestion(
        place=place,
        id=str(first_field(fields, "id") or ""),
        time=0.0,
        question=ExtractedQuestion(fields.pop("question")),
        reference=fields.pop("reference", None),
        retrieved=extract_documents(fields.pop("retrieved", None)),
        metadata=fields.pop("metadata", {}),
        answer=fields.pop("answer_given", None),
        gold=fields.pop("gold", ()),
        extra=_extra({name: value for name, value in fields.items() if name != "id"}),
    )


def _extra(given: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are not empty; a key that would be a field of an example gets the prefix `item_`."""
    return {
        f"item_{name}" if name in FIELDS else name: value
        for name, value in given.items()
        if value not in (None, "", [], {})
    }


def _read_feedback(record: Mapping[str, object], _: str) -> Iterator[TraceRecord]:
    about = first_field(record, "observationId", "observation_id", "span_id", "traceId", "trace_id")
    yield from extract_feedback(str(about), [record])


WRAPPER_KEYS: Final = ("data", "spans", "runs", "items", "examples", "traces", "observations")


def _wrapped_records(record: Mapping[str, object]) -> Any:
    return next((record[name] for name in WRAPPER_KEYS if isinstance(record.get(name), list | dict)), None)


def _read_wrapped(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
    inner = _wrapped_records(record)
    for number, item in enumerate(inner if isinstance(inner, list) else [inner], 1):
        yield from _read_record(item, f"{place}, record {number}")


def read_trace(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
    trace = str(record.get("id") or "")
    yield _span(record, place, trace=trace, id=trace or place, parent="", kind="", failed=False)
    for number, observation in enumerate(extract_objects(decode_json(record.get("observations"))), 1):
        yield from read_observation({"traceId": trace, **observation}, f"{place}, observation {number}")
    scores = decode_json(record.get("scores"))
    if isinstance(scores, Mapping):
        scores = [{"name": name, "value": value} for name, value in scores.items()]
    yield from extract_feedback(trace, scores)


def read_observation(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
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


def read_download(record: JsonObject, place: str) -> Iterator[TraceRecord]:
    """Yield the records of a trace as Langfuse's page downloads it: `trace` and `observations` side by side."""
    return read_trace({**record["trace"], "observations": record["observations"]}, place)


def read_run(record: Mapping[str, object], place: str) -> Iterator[TraceRecord]:
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


def _span(record: Mapping[str, object], place: str, *, kind: object, **fields: Any) -> Span:
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


READERS: Final[
    tuple[tuple[Callable[[Mapping[str, object]], Any], Callable[..., Iterator[TraceRecord]]], ...]
] = (
    (lambda record: record.keys() & {"resourceSpans", "resource_spans"}, read_otlp),
    (lambda record: isinstance(record.get("trace"), Mapping) and "observations" in record, read_download),
    (lambda record: "run_type" in record, read_run),
    (is_phoenix, read_phoenix),
    (
        lambda record: (
            "annotator_kind" in record
            or (
                "name" in record
                and record.keys() & {"traceId", "trace_id"}
                and record.keys() & {"value", "stringValue", "string_value"}
            )
        ),
        _read_feedback,
    ),
    (lambda record: "type" in record and record.keys() & {"traceId", "trace_id"}, read_observation),
    (
        lambda record: (
            {"id", "observations"} <= record.keys()
            or ("input" in record and record.keys() & {"timestamp", "sessionId", "session_id"})
        ),
        read_trace,
    ),
    (is_golden, _read_golden),
    (lambda record: record.keys() & {"input", "inputs", "question"}, _read_item),
    (_wrapped_records, _read_wrapped),
)
"""Pairs of a function that recognises a kind of record and a function that reads it; the first match is used."""
