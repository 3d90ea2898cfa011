"""Exports of traces and data sets, record by record: each is recognized by its keys.

Items of data sets are read here: those of Langfuse (`input`, `expectedOutput`), of LangSmith (`inputs`, `outputs`; its
docs: "Example data format") and of Phoenix (`input`, `output`), and eval sets that were made of traces.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.datatypes import Step
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_elements, json_records, not_utf8, opened, parse
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.table import delimiter_of, rows
from pytest_rageval.evalsets.traces.extraction import ExtractedQuestion, answer_in, asked_in, unpacked
from pytest_rageval.evalsets.traces.langfuse import read_download, read_observation, read_trace
from pytest_rageval.evalsets.traces.langsmith import read_run
from pytest_rageval.evalsets.traces.opentelemetry import is_phoenix, read_otlp, read_phoenix
from pytest_rageval.evalsets.traces.records import (
    Item,
    TraceRecord,
    documents_in,
    feedback_in,
    first_field,
    objects_in,
    seconds,
)

__all__ = ["read_export"]

ALLOWED: Final = (
    "Allowed are spans of Phoenix (attributes, context), OTLP JSON (resourceSpans), traces, observations, scores and "
    "data set items of Langfuse, runs and examples of LangSmith, and data sets of Phoenix, as JSON, JSON lines or CSV."
)


PREFIXES: Final = {
    prefix: name
    for name, spellings in {
        "inputs": ("inputs.", "inputs_"),
        "outputs": ("outputs.", "outputs_"),
        "input": ("input.", "input_"),
        "output": ("output.", "output_"),
    }.items()
    for prefix in spellings
}
"""How columns of a CSV file that hold parts of an object begin."""


def read_export(path: Path) -> Iterator[TraceRecord]:
    """Yield what a file holds; InputError if it cannot be read, or a record is of no known kind."""
    if not path.exists():
        raise InputError(f"The traces {path} cannot be read: there is no such file.")
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected a file of traces.\nName its files.")
    for place, record in _records(path):
        yield from _parts(record, place)


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    shape = Shape(path)
    if shape.is_table:
        for place, row in rows(path, delimiter_of(path))[1]:
            yield place, _of_row(row)
    elif shape.head.lstrip()[:1] == "[":
        yield from json_elements(path)
    elif shape.record or not shape.is_json:
        yield from json_records(path)
    else:
        # One object over several lines.
        with opened(path) as reading:
            raw = reading.stream.read()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise not_utf8(path.name, error) from None
        yield path.name, parse(text, path.name, "Give one JSON document, or one JSON object a line.")


def _of_row(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of CSV: JSON in cells is read, parts of inputs and outputs are put together, empty cells left out."""
    record: dict[str, Any] = {}
    for name, cell in row.items():
        if cell:
            prefix = next((each for each in PREFIXES if name.startswith(each) and name != each), None)
            if prefix is None:
                record[name] = unpacked(cell) if cell[0] in "[{" else cell
            else:
                record.setdefault(PREFIXES[prefix], {})[name.removeprefix(prefix)] = unpacked(cell)
    return record


def _parts(record: Any, place: str) -> Iterator[TraceRecord]:
    """The parts of one record, by its keys."""
    if not isinstance(record, Mapping):
        raise InputError(f"{place}: a record is an object, found {record!r:.40}.\n{ALLOWED}")
    read = next((read for recognises, read in READERS if recognises(record)), None)
    if read is None:
        found = ", ".join(str(name)[:40] for name in list(record)[:12]) or "nothing"
        raise InputError(f"{place} is not a trace, span or data set item. Found: {found}.\n{ALLOWED}")
    yield from read(record, place)


def _item(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    """An item of a data set; what it expects is a reference, unlike what a trace answered."""
    asked = asked_in(first_field(record, "question", "inputs", "input"))
    if "question" in record and isinstance(record.get("history"), list):
        asked = ExtractedQuestion(
            asked.question, asked_in({"messages": [*record["history"], ["user", "?"]]}).history
        )
    expected = first_field(record, "reference", "expectedOutput", "expected_output", "outputs", "output")
    metadata = unpacked(record.get("metadata"))
    yield Item(
        place=place,
        id=str(first_field(record, "id", "example_id", "exampleId") or ""),
        time=seconds(
            first_field(record, "updatedAt", "updated_at", "modified_at", "createdAt", "created_at")
        ),
        asked=asked,
        reference=answer_in(expected),
        documents=documents_in(record["retrieved"]) if "retrieved" in record else None,
        steps=[
            Step(str(step.get("query")), documents_in(step.get("documents")) or ())
            for step in objects_in(record.get("steps"))
        ],
        metadata=metadata if isinstance(metadata, dict) else {},
        of_evalset="question" in record,
    )


def _alone(record: Mapping[str, Any], _: str) -> Iterator[TraceRecord]:
    """A score of Langfuse or an annotation of Phoenix, as a row of its own."""
    about = first_field(record, "observationId", "observation_id", "span_id", "traceId", "trace_id")
    yield from feedback_in(str(about), [record])


WRAPPERS: Final = ("data", "spans", "runs", "items", "examples", "traces", "observations")
"""Keys under which servers answer with a list of records."""


def _wrapped(record: Mapping[str, Any]) -> Any:
    return next((record[name] for name in WRAPPERS if isinstance(record.get(name), list | dict)), None)


def _each_wrapped(record: Mapping[str, Any], place: str) -> Iterator[TraceRecord]:
    inner = _wrapped(record)
    for number, each in enumerate(inner if isinstance(inner, list) else [inner], 1):
        yield from _parts(each, f"{place}, record {number}")


READERS: Final[
    tuple[tuple[Callable[[Mapping[str, Any]], Any], Callable[..., Iterator[TraceRecord]]], ...]
] = (
    (lambda record: record.keys() & {"resourceSpans", "resource_spans"}, read_otlp),
    (lambda record: isinstance(record.get("trace"), Mapping) and "observations" in record, read_download),
    (lambda record: "run_type" in record, read_run),
    (is_phoenix, read_phoenix),
    (lambda record: "annotator_kind" in record, _alone),
    (
        lambda record: (
            "name" in record
            and record.keys() & {"traceId", "trace_id"}
            and record.keys() & {"value", "stringValue", "string_value"}
        ),
        _alone,
    ),
    (lambda record: "type" in record and record.keys() & {"traceId", "trace_id"}, read_observation),
    (
        lambda record: (
            {"id", "observations"} <= record.keys()
            or ("input" in record and record.keys() & {"timestamp", "sessionId", "session_id"})
        ),
        read_trace,
    ),
    (lambda record: record.keys() & {"input", "inputs", "question"}, _item),
    (_wrapped, _each_wrapped),
)
"""How each kind of record is recognized, the first that fits counts, and what reads it."""
