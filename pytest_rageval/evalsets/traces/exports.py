"""Exports of traces and data sets, record by record, in one form.

Each record is recognized by its keys. The names of the fields are those of:

- OpenInference spans as Phoenix exports them: `openinference.span.kind`, `input.value`, `output.value`,
  `retrieval.documents.0.document.content`, flat or nested (OpenInference specification, "Semantic Conventions";
  Phoenix's REST API `GET /v1/projects/{project}/spans`, `get_spans_dataframe` and span annotations).
- OTLP JSON, `resourceSpans[].scopeSpans[].spans[]` (opentelemetry-proto, `trace.proto`), with OpenInference's
  attributes or those of the GenAI conventions: `gen_ai.operation.name` = `retrieval`, `gen_ai.retrieval.query.text`,
  `gen_ai.retrieval.documents`, `gen_ai.input.messages`, `gen_ai.output.messages`, and the event
  `gen_ai.evaluation.result` (repository open-telemetry/semantic-conventions-genai, `docs/gen-ai/gen-ai-spans.md`).
- Langfuse: a trace as JSON with `observations` and `scores`, or rows of these as its tables and its blob storage
  export them, in camel or snake case; data set items with `input` and `expectedOutput` (langfuse.com/docs: "Export
  data from the UI", "Blob storage export field reference", "Observation types").
- LangSmith: runs with `run_type`, `inputs`, `outputs` (docs.langchain.com/langsmith: "Run data format"), and examples
  with `inputs` and `outputs` ("Example data format"), as JSON lines or CSV.
- Data sets of Phoenix, with `input` and `output`, and the eval sets that are made of all these.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_elements, json_records, not_utf8, opened, parse
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.table import delimiter_of, rows
from pytest_rageval.evalsets.traces.texts import Asked, answer_in, asked_in, unpacked
from pytest_rageval.model import Document, Step

__all__ = ["NOT_ASKED", "Feedback", "Item", "Kind", "Span", "read_export"]

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
TEXT: Final = ("content", "page_content", "text", "document")
ID: Final = ("id", "_id", "id_", "document_id", "doc_id", "chunk_id")
SCORE: Final = ("score", "similarity", "relevance_score")
LISTS: Final = ("documents", "output", "results", "nodes", "source_nodes", "matches")
LEVELS: Final = 8
"""Levels of objects within which dotted keys are read."""


NOT_ASKED: Final = Asked(None)


class Kind(Enum):
    """What a span did."""

    SEARCH = "search"
    RERANKING = "reranking"
    MODEL = "model"
    OTHER = "other"


KINDS: Final = {
    **dict.fromkeys(("retriever", "retrieval"), Kind.SEARCH),
    "reranker": Kind.RERANKING,
    **dict.fromkeys(("llm", "generation", "chat", "generate_content", "text_completion"), Kind.MODEL),
}


@dataclass(slots=True)
class Span:
    """One operation of a trace.

    Attributes:
        place: in the file, for messages.
        trace: the id of its trace; empty if it has none.
        id: its own.
        parent: the id of the span that it is a part of; empty for the outermost one.
        kind: what it did.
        failed: whether it ended with an error.
        start: in seconds since 1970; 0 if unknown.
        end: likewise.
        asked: the question in its input.
        answer: in its output.
        documents: that it found; None if they were not recorded, or cannot be read.
    """

    place: str
    trace: str
    id: str
    parent: str
    kind: Kind
    failed: bool
    start: float
    end: float
    asked: Asked = NOT_ASKED
    answer: str | None = None
    documents: tuple[Document, ...] | None = None


@dataclass(slots=True)
class Item:
    """A question of a data set, or of an eval set that was made of traces.

    Attributes:
        place: in the file, for messages.
        id: its own; empty if it has none.
        time: of its last change, in seconds since 1970; 0 if unknown.
        asked: the question.
        reference: the answer that is expected.
        documents: that were retrieved for it, as an eval set keeps them.
        steps: the searches behind them, likewise.
        metadata: of the data set.
        of_evalset: whether it is an example of an eval set.
    """

    place: str
    id: str
    time: float
    asked: Asked
    reference: str | None
    documents: tuple[Document, ...] | None = None
    steps: Sequence[Step] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    of_evalset: bool = False


@dataclass(slots=True)
class Feedback:
    """What somebody said about a span or a trace, by its id."""

    about: str
    name: str
    value: str | float | bool


Part = Span | Item | Feedback


def read_export(path: Path) -> Iterator[Part]:
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


def _parts(record: Any, place: str) -> Iterator[Part]:
    """The parts of one record, by its keys."""
    if not isinstance(record, Mapping):
        raise InputError(f"{place}: a record is an object, found {record!r:.40}.\n{ALLOWED}")
    read = next((read for recognises, read in READERS if recognises(record)), None)
    if read is None:
        found = ", ".join(str(name)[:40] for name in list(record)[:12]) or "nothing"
        raise InputError(f"{place} is no trace, span or data set item. Found: {found}.\n{ALLOWED}")
    yield from read(record, place)


def _is_phoenix(record: Mapping[str, Any]) -> bool:
    context = record.get("context")
    return (
        any(str(name).startswith(("attributes.", "context.")) for name in record)
        or (isinstance(context, Mapping) and "trace_id" in context)
        or isinstance(record.get("attributes"), Mapping)
    )


def _phoenix(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    named = _nested(record)
    context, attributes = (
        value if isinstance(value := named.get(name), dict) else {} for name in ("context", "attributes")
    )
    span = Span(
        place=place,
        trace=str(_first(context, "trace_id") or _first(named, "trace_id", "traceId") or ""),
        id=str(_first(context, "span_id") or _first(named, "span_id", "spanId") or place),
        parent=str(_first(named, "parent_id", "parentId", "parent_span_id") or ""),
        kind=KINDS.get(str(named.get("span_kind")).lower(), Kind.OTHER),
        # OpenTelemetry's own exporter to the console has it within `status`.
        failed="ERROR" in (named.get("status_code"), _at(named, "status", "status_code")),
        start=_seconds(named.get("start_time")),
        end=_seconds(named.get("end_time")),
    )
    yield from _with_attributes(span, attributes)
    yield from _feedback(span.id, named.get("annotations", named.get("span_annotations")))


def _otlp(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    found = (
        span
        for resource in _each(_first(record, "resourceSpans", "resource_spans"))
        for scope in _each(_first(resource, "scopeSpans", "scope_spans"))
        for span in _each(scope.get("spans"))
    )
    for number, each in enumerate(found, 1):
        status = each.get("status")
        where = f"{place}, span {number}"
        span = Span(
            place=where,
            trace=str(_first(each, "traceId", "trace_id") or ""),
            id=str(_first(each, "spanId", "span_id") or where),
            parent=str(_first(each, "parentSpanId", "parent_span_id") or ""),
            kind=Kind.OTHER,
            failed=isinstance(status, Mapping) and status.get("code") in (2, "2", "STATUS_CODE_ERROR"),
            start=_seconds(_first(each, "startTimeUnixNano", "start_time_unix_nano")),
            end=_seconds(_first(each, "endTimeUnixNano", "end_time_unix_nano")),
        )
        yield from _with_attributes(span, _nested(_keyed(each.get("attributes"))))
        for event in _each(each.get("events")):
            if event.get("name") == "gen_ai.evaluation.result":
                said = _at(_nested(_keyed(event.get("attributes"))), "gen_ai", "evaluation")
                yield from _feedback(span.id, [said])


def _keyed(attributes: Any) -> dict[str, Any]:
    """OTLP's list of keys and typed values as an object."""
    return {str(each.get("key")): _any_value(each.get("value")) for each in _each(attributes)}


def _any_value(value: Any, levels: int = LEVELS) -> Any:
    if not isinstance(value, Mapping) or not levels:
        return value
    for name, held in value.items():
        if name == "intValue":
            with suppress(TypeError, ValueError):
                return int(held)
        if name == "arrayValue":
            return [_any_value(each, levels - 1) for each in _each(held.get("values"))]
        if name == "kvlistValue":
            return {
                str(each.get("key")): _any_value(each.get("value"), levels - 1)
                for each in _each(held.get("values"))
            }
        return held
    return None


def _with_attributes(span: Span, at: Mapping[str, Any]) -> Iterator[Part]:
    """A span with what the attributes of OpenInference or of the GenAI conventions say, and the feedback on it."""
    kind = _first_of(_at(at, "openinference", "span", "kind"), _at(at, "gen_ai", "operation", "name"))
    span.kind = span.kind if kind is None else KINDS.get(str(kind).lower(), Kind.OTHER)
    output = _at(at, "output", "value")
    span.asked = asked_in(
        _first_of(
            _at(at, "gen_ai", "retrieval", "query", "text"),
            _at(at, "reranker", "query"),
            _at(at, "input", "value"),
            _items(_at(at, "llm", "input_messages")),
            _at(at, "gen_ai", "input", "messages"),
        )
    )
    said = _items(_first_of(_at(at, "llm", "output_messages"), _at(at, "gen_ai", "output", "messages")))
    # The output of a model may be the whole reply of its server.
    span.answer = answer_in(_first_of(said, output) if span.kind is Kind.MODEL else _first_of(output, said))
    if span.kind is Kind.SEARCH:
        listed = _first_of(
            _at(at, "retrieval", "documents"), _at(at, "gen_ai", "retrieval", "documents"), output
        )
        span.documents = _with_ids(_documents(listed), output)
    elif span.kind is Kind.RERANKING:
        span.documents = _documents(_at(at, "reranker", "output_documents"))
    yield span
    for about, within in ((span.id, at), (span.trace, _at(at, "trace"))):
        for name in ("annotation", "evaluation"):
            yield from _feedback(about, [each.get(name) for each in _each(_items(_at(within, f"{name}s")))])


def _langfuse_trace(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    trace = str(record.get("id") or "")
    start = _seconds(_first(record, "timestamp", "createdAt", "created_at"))
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
    for number, each in enumerate(_each(unpacked(record.get("observations"))), 1):
        yield from _langfuse({"traceId": trace, **each}, f"{place}, observation {number}")
    scores = unpacked(record.get("scores"))
    if isinstance(scores, Mapping):
        scores = [{"name": name, "value": value} for name, value in scores.items()]
    yield from _feedback(trace, scores)


def _langfuse(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    kind = KINDS.get(str(record.get("type")).lower(), Kind.OTHER)
    trace = str(_first(record, "traceId", "trace_id") or "")
    yield Span(
        place=place,
        trace=trace,
        id=str(record.get("id") or place),
        # The outermost is the trace itself.
        parent=str(_first(record, "parentObservationId", "parent_observation_id") or trace),
        kind=kind,
        failed=record.get("level") == "ERROR",
        start=_seconds(_first(record, "startTime", "start_time")),
        end=_seconds(_first(record, "endTime", "end_time")),
        asked=asked_in(record.get("input")),
        answer=answer_in(record.get("output")),
        documents=_documents(record.get("output")) if kind is Kind.SEARCH else None,
    )


def _langsmith(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    identifier = str(_first(record, "id", "run_id") or place)
    trace = str(record.get("trace_id") or identifier)
    kind = KINDS.get(str(record.get("run_type")).lower(), Kind.OTHER)
    yield Span(
        place=place,
        trace=trace,
        id=identifier,
        parent=str(record.get("parent_run_id") or ""),
        kind=kind,
        failed=bool(record.get("error")) or record.get("status") == "error",
        start=_seconds(record.get("start_time")),
        end=_seconds(record.get("end_time")),
        asked=asked_in(record.get("inputs")),
        answer=answer_in(record.get("outputs")),
        documents=_documents(record.get("outputs")) if kind is Kind.SEARCH else None,
    )
    for number, child in enumerate(_each(unpacked(record.get("child_runs"))), 1):
        within = {"parent_run_id": identifier, **child, "trace_id": trace}
        yield from _langsmith(within, f"{place}, run {number}")
    stats = unpacked(record.get("feedback_stats"))
    for name, each in stats.items() if isinstance(stats, Mapping) else ():
        values = each.get("values") if isinstance(each, Mapping) else None
        if isinstance(values, Mapping) and values:
            yield from _feedback(identifier, [{"name": name, "label": Counter(values).most_common(1)[0][0]}])
        elif isinstance(each, Mapping):
            yield from _feedback(identifier, [{"name": name, "score": each.get("avg")}])


def _item(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    """An item of a data set; what it expects is a reference, unlike what a trace answered."""
    asked = asked_in(_first(record, "question", "inputs", "input"))
    if "question" in record and isinstance(record.get("history"), list):
        asked = Asked(asked.question, asked_in({"messages": [*record["history"], ["user", "?"]]}).history)
    expected = _first(record, "reference", "expectedOutput", "expected_output", "outputs", "output")
    metadata = unpacked(record.get("metadata"))
    yield Item(
        place=place,
        id=str(_first(record, "id", "example_id", "exampleId") or ""),
        time=_seconds(_first(record, "updatedAt", "updated_at", "modified_at", "createdAt", "created_at")),
        asked=asked,
        reference=answer_in(expected),
        documents=_documents(record["retrieved"]) if "retrieved" in record else None,
        steps=[
            Step(str(step.get("query")), _documents(step.get("documents")) or ())
            for step in _each(record.get("steps"))
        ],
        metadata=metadata if isinstance(metadata, dict) else {},
        of_evalset="question" in record,
    )


def _feedback(about: str, annotations: Any) -> Iterator[Feedback]:
    """Labels and scores by their names; comments are no tags."""
    for each in map(_nested, _each(unpacked(annotations))):
        name, result = _first(each, "name", "annotation_name"), each
        for inner in ("result", "score"):
            held = result.get(inner)
            result = held if isinstance(held, dict) else result
        # Of a category, Langfuse keeps a number too.
        names = ("label", "stringValue", "string_value", "score", "value")
        value = next((result[each] for each in names if result.get(each) not in (None, "")), None)
        for one in value if isinstance(value, list) else [value]:
            if name and isinstance(one, str | int | float) and one != "":
                yield Feedback(about, str(name), one)


def _alone(record: Mapping[str, Any], _: str) -> Iterator[Part]:
    """A score of Langfuse or an annotation of Phoenix, as a row of its own."""
    about = _first(record, "observationId", "observation_id", "span_id", "traceId", "trace_id")
    yield from _feedback(str(about), [record])


def _documents(value: Any) -> tuple[Document, ...] | None:
    """The documents in an output; None if it is no list of them, or one has neither text nor id."""
    value = unpacked(value)
    if isinstance(value, Mapping) and not all(str(name).isdigit() for name in value):
        value = next((unpacked(value[name]) for name in LISTS if name in value), None)
    items = _items(value)
    if not isinstance(items, list):
        return None
    documents = [_document(item) for item in items]
    return None if None in documents else tuple(document for document in documents if document is not None)


def _with_ids(documents: tuple[Document, ...] | None, output: Any) -> tuple[Document, ...] | None:
    """The documents with the ids in the output, which instrumentations may leave out of the attributes.

    The output is compared with them: it may hold other documents.
    """
    if documents is None or all(each.id is not None for each in documents):
        return documents
    others = _documents(output) or ()
    if [each.text for each in others] != [each.text for each in documents]:
        return documents
    return tuple(
        replace(each, id=other.id if each.id is None else each.id)
        for each, other in zip(documents, others, strict=True)
    )


def _document(item: Any) -> Document | None:
    item = unpacked(item)
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], Mapping):  # noqa: PLR2004 - with a score
        found = _document(item[0])
        return None if found is None else Document(found.text, found.id, _number(item[1]), found.metadata)
    if isinstance(item, str):
        return Document(item) if item.strip() else None
    if not isinstance(item, Mapping):
        return None
    fields = _nested(item)
    for name in ("document", "kwargs", "node"):
        inner = fields.get(name)
        if isinstance(inner, dict):
            fields = {**fields, **inner}
    metadata = unpacked(fields.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    text = next((fields[name] for name in TEXT if isinstance(fields.get(name), str)), "")
    identifier = next(
        (
            each[name]
            for each in (fields, metadata)
            for name in ID
            if isinstance(each.get(name), str | int) and each[name] != ""
        ),
        None,
    )
    if not text.strip() and identifier is None:
        return None
    named = None if identifier is None else str(identifier)
    return Document(text, named, _number(_first(fields, *SCORE)), metadata)


def _nested(flat: Mapping[str, Any], levels: int = LEVELS) -> dict[str, Any]:
    """An object whose dotted keys became objects within it."""
    result: dict[str, Any] = {}
    for key, held in flat.items():
        *parents, last = str(key).split(".")
        place: Any = result
        for parent in parents:
            place = place.setdefault(parent, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            value = _nested(held, levels - 1) if isinstance(held, Mapping) and levels else held
            known = place.get(last)
            place[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def _at(nested: Any, *names: str) -> Any:
    for name in names:
        nested = nested.get(name) if isinstance(nested, Mapping) else None
    return nested


def _items(value: Any) -> Any:
    """The values of an object whose keys are 0, 1 and so on, or the list that a text holds; others as they are."""
    value = unpacked(value)
    if isinstance(value, Mapping) and value and all(str(name).isdigit() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value


def _each(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a list."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, Mapping))


def _first(record: Mapping[str, Any], *names: str) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _first_of(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _seconds(value: Any) -> float:
    """A time in seconds since 1970, of a number in s, ms, µs or ns, or of an ISO text; 0 if it is neither."""
    number = _number(value)
    if number is not None:
        while number >= 1e11:  # noqa: PLR2004 - seconds up to the year 5138
            number /= 1000
        return number
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return 0.0
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


WRAPPERS: Final = ("data", "spans", "runs", "items", "examples", "traces", "observations")
"""Keys under which servers answer with a list of records."""


def _wrapped(record: Mapping[str, Any]) -> Any:
    return next((record[name] for name in WRAPPERS if isinstance(record.get(name), list | dict)), None)


def _each_wrapped(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    inner = _wrapped(record)
    for number, each in enumerate(inner if isinstance(inner, list) else [inner], 1):
        yield from _parts(each, f"{place}, record {number}")


def _downloaded(record: Mapping[str, Any], place: str) -> Iterator[Part]:
    return _langfuse_trace({**record["trace"], "observations": record["observations"]}, place)


READERS: Final[tuple[tuple[Callable[[Mapping[str, Any]], Any], Callable[..., Iterator[Part]]], ...]] = (
    (lambda record: record.keys() & {"resourceSpans", "resource_spans"}, _otlp),
    (lambda record: isinstance(record.get("trace"), Mapping) and "observations" in record, _downloaded),
    (lambda record: "run_type" in record, _langsmith),
    (_is_phoenix, _phoenix),
    (lambda record: "annotator_kind" in record, _alone),
    (
        lambda record: (
            "name" in record
            and record.keys() & {"traceId", "trace_id"}
            and record.keys() & {"value", "stringValue", "string_value"}
        ),
        _alone,
    ),
    (lambda record: "type" in record and record.keys() & {"traceId", "trace_id"}, _langfuse),
    (
        lambda record: (
            {"id", "observations"} <= record.keys()
            or ("input" in record and record.keys() & {"timestamp", "sessionId", "session_id"})
        ),
        _langfuse_trace,
    ),
    (lambda record: record.keys() & {"input", "inputs", "question"}, _item),
    (_wrapped, _each_wrapped),
)
"""How each kind of record is recognized, the first that fits counts, and what reads it."""
