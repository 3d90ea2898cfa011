"""What an export consists of (spans, items of data sets, feedback), and how their fields are read."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from pytest_rageval.datatypes import Document, Step
from pytest_rageval.evalsets.traces.extraction import ExtractedQuestion, unpacked

__all__ = [
    "KINDS",
    "LEVELS",
    "NOT_ASKED",
    "Feedback",
    "Item",
    "Kind",
    "Span",
    "TraceRecord",
    "at_path",
    "documents_in",
    "feedback_in",
    "first_field",
    "first_of",
    "items_of",
    "nested",
    "objects_in",
    "seconds",
]

TEXT: Final = ("content", "page_content", "text", "document")
ID: Final = ("id", "_id", "id_", "document_id", "doc_id", "chunk_id")
SCORE: Final = ("score", "similarity", "relevance_score")
LISTS: Final = ("documents", "output", "results", "nodes", "source_nodes", "matches")
LEVELS: Final = 8
"""Levels of objects within which dotted keys are read."""


NOT_ASKED: Final = ExtractedQuestion(None)


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
    asked: ExtractedQuestion = NOT_ASKED
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
    asked: ExtractedQuestion
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


TraceRecord = Span | Item | Feedback


def feedback_in(about: str, annotations: Any) -> Iterator[Feedback]:
    """Labels and scores by their names; comments are no tags."""
    for each in map(nested, objects_in(unpacked(annotations))):
        name, result = first_field(each, "name", "annotation_name"), each
        for inner in ("result", "score"):
            held = result.get(inner)
            result = held if isinstance(held, dict) else result
        # Of a category, Langfuse keeps a number too.
        names = ("label", "stringValue", "string_value", "score", "value")
        value = next((result[each] for each in names if result.get(each) not in (None, "")), None)
        for one in value if isinstance(value, list) else [value]:
            if name and isinstance(one, str | int | float) and one != "":
                yield Feedback(about, str(name), one)


def documents_in(value: Any) -> tuple[Document, ...] | None:
    """The documents in an output; None if it is not a list of them, or one has neither text nor id."""
    value = unpacked(value)
    if isinstance(value, Mapping) and not all(str(name).isdigit() for name in value):
        value = next((unpacked(value[name]) for name in LISTS if name in value), None)
    items = items_of(value)
    if not isinstance(items, list):
        return None
    documents = [_document(item) for item in items]
    return None if None in documents else tuple(document for document in documents if document is not None)


def _document(item: Any) -> Document | None:
    item = unpacked(item)
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], Mapping):  # noqa: PLR2004 - with a score
        found = _document(item[0])
        return None if found is None else Document(found.text, found.id, _number(item[1]), found.metadata)
    if isinstance(item, str):
        return Document(item) if item.strip() else None
    if not isinstance(item, Mapping):
        return None
    fields = nested(item)
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
    return Document(text, named, _number(first_field(fields, *SCORE)), metadata)


def nested(flat: Mapping[str, Any], levels: int = LEVELS) -> dict[str, Any]:
    """An object whose dotted keys became objects within it."""
    result: dict[str, Any] = {}
    for key, held in flat.items():
        *parents, last = str(key).split(".")
        place: Any = result
        for parent in parents:
            place = place.setdefault(parent, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            value = nested(held, levels - 1) if isinstance(held, Mapping) and levels else held
            known = place.get(last)
            place[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def at_path(value: Any, *names: str) -> Any:
    """Return the value at a path of keys; None where nothing does."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def items_of(value: Any) -> Any:
    """The values of an object whose keys are 0, 1 and so on, or the list that a text holds; others as they are."""
    value = unpacked(value)
    if isinstance(value, Mapping) and value and all(str(name).isdigit() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value


def objects_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a list."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, Mapping))


def first_field(record: Mapping[str, Any], *names: str) -> Any:
    """Return the first of these fields that has a value."""
    return next((record[name] for name in names if record.get(name) is not None), None)


def first_of(*values: Any) -> Any:
    """Return the first of these values that is not None."""
    return next((value for value in values if value is not None), None)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def seconds(value: Any) -> float:
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
