"""The records of an export (`Span`, `RecordedQuestion`, `Feedback`), and how their fields are read in all tools.

An input or output is a text, JSON in a text, a list of messages, or an object with one of the usual keys. The forms of
messages are those of OpenAI (`role`, `content`), of the GenAI conventions (`role`, `parts`), of OpenInference
(`message.role`, `message.content`) and of LangChain (`type`, `content`, also within `kwargs` or `data`).
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from pytest_rageval.core.ranking import Document, Step
from pytest_rageval.lib.foreign_values import JsonObject, as_identifier

TEXT_KEYS: Final = ("content", "page_content", "text", "document")
ID_KEYS: Final = ("id", "_id", "id_", "document_id", "doc_id", "chunk_id")
SCORE_KEYS: Final = ("score", "similarity", "relevance_score")
LIST_KEYS: Final = ("documents", "output", "results", "nodes", "source_nodes", "matches")
MAX_LEVELS: Final = 8  # in which dotted keys are expanded
QUESTION_KEYS: Final = (
    "question", "query", "user_input", "user_question", "input", "prompt", "message", "text",
)  # fmt: skip
ANSWER_KEYS: Final = (
    "answer", "output", "result", "response", "expected_response", "reply", "output_text", "text", "content",
    "completion", "messages", "message", "generations", "choices", "kwargs", "data",
)  # fmt: skip
HISTORY_KEYS: Final = ("chat_history", "history")
ROLES: Final = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "model"), "assistant"),
}
"""The role of a message ("user", "assistant") by its names in the tools.

Messages with other roles, such as system prompts and replies of tools, belong to the application and are ignored.
"""
MAX_DEPTH: Final = 6  # levels in which a text is searched

Message = dict[str, str]


class ExtractedQuestion(NamedTuple):
    """A question and the messages before it; `text` is None if no question was found."""

    text: str | None
    history: tuple[Message, ...] = ()


NO_QUESTION: Final = ExtractedQuestion(None)


class SpanKind(Enum):
    SEARCH = "search"
    RERANKING = "reranking"
    MODEL = "model"
    OTHER = "other"


SPAN_KINDS: Final = {
    **dict.fromkeys(("retriever", "retrieval"), SpanKind.SEARCH),
    "reranker": SpanKind.RERANKING,
    **dict.fromkeys(("llm", "generation", "chat", "generate_content", "text_completion"), SpanKind.MODEL),
}


@dataclass(slots=True)
class Span:
    place: str
    trace: str  # empty without one
    id: str
    parent: str  # empty for an outermost span
    kind: SpanKind
    failed: bool
    start: float  # in seconds since 1970; 0 if unknown
    end: float
    question: ExtractedQuestion = NO_QUESTION
    answer: str | None = None
    documents: tuple[Document, ...] | None = None  # None if they cannot be read


@dataclass(slots=True)
class RecordedQuestion:
    place: str
    id: str
    question: ExtractedQuestion
    time: float  # the start of the trace or last change of the item, in seconds since 1970; 0 if unknown
    retrieved: tuple[Document, ...] | None = None  # by the last search or reranking
    missing_reason: str = "without a retrieval"  # of `retrieved`
    steps: Sequence[Step] = ()
    answer: str | None = None
    reference: str | None = None  # the expected answer of a data set
    tags: dict[str, object] = field(default_factory=dict)  # labels and scores of people and judges
    metadata: Mapping[str, object] = field(default_factory=dict)
    of_evalset: bool = False  # an example of an eval set that was written from traces
    gold: Sequence[Mapping[str, object]] = ()
    extra: JsonObject = field(default_factory=dict)  # other values of an item

    def record(self, *, answer_is_reference: bool = False) -> dict[str, Any]:
        """Return the question as a record of an eval set. Retrieved passages are not gold."""
        reference = self.reference or (self.answer if answer_is_reference else None)
        steps = [{"query": step.query, "documents": _document_records(step.documents)} for step in self.steps]
        fields = {
            "id": self.id,
            "question": self.question.text,
            "gold": list(self.gold),
            "reference": reference,
            "tags": self.tags,
            "history": list(self.question.history),
            "metadata": self.metadata,
            "answer_given": self.answer,
        }
        record = {name: value for name, value in fields.items() if value not in (None, [], {})}
        record |= {name: value for name, value in self.extra.items() if name not in record}
        if self.retrieved is not None:
            record["retrieved"] = _document_records(self.retrieved)
        return {**record, "steps": steps} if len(steps) > 1 else record


@dataclass(slots=True)
class Feedback:
    about: str  # the id of the span or trace that was rated
    name: str
    value: str | float | bool


TraceRecord = Span | RecordedQuestion | Feedback


def _document_records(documents: Iterable[Document]) -> list[Mapping[str, object]]:
    return [
        {
            name: value
            for name, value in (("id", document.id), ("text", document.text), ("score", document.score))
            if value not in (None, "")
        }
        for document in documents
    ]


def extract_feedback(about: str, annotations: Any) -> Iterator[Feedback]:
    for annotation in map(nest_dotted_keys, extract_objects(decode_json(annotations))):
        name, result = first_field(annotation, "name", "annotation_name"), annotation
        for inner in ("result", "score"):
            held = result.get(inner)
            result = held if isinstance(held, dict) else result
        # Labels come first: for a categorical score, Langfuse has a label and a number.
        keys = ("label", "stringValue", "string_value", "score", "value")
        value = next((result[key] for key in keys if result.get(key) not in (None, "")), None)
        for item in value if isinstance(value, list) else [value]:
            if name and isinstance(item, str | int | float) and item != "":
                yield Feedback(about, str(name), item)


def extract_documents(value: Any) -> tuple[Document, ...] | None:
    """Return the documents in an output; None if it is no list of documents, or a document has no text and no id."""
    value = decode_json(value)
    if isinstance(value, Mapping) and not all(str(name).isdigit() for name in value):
        value = next((decode_json(value[name]) for name in LIST_KEYS if name in value), None)
    items = unwrap_list(value)
    if not isinstance(items, list):
        return None
    documents = [_parse_document(item) for item in items]
    return None if None in documents else tuple(document for document in documents if document is not None)


def _parse_document(item: Any) -> Document | None:
    item = decode_json(item)
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], Mapping):  # noqa: PLR2004 - with a score
        document = _parse_document(item[0])
        if document is None:
            return None
        return Document(document.text, document.id, _parse_number(item[1]), document.metadata)
    if isinstance(item, str):
        return Document(item) if item.strip() else None
    if not isinstance(item, Mapping):
        return None
    fields = nest_dotted_keys(item)
    for name in ("document", "kwargs", "node"):
        inner = fields.get(name)
        if isinstance(inner, dict):
            fields = {**fields, **inner}
    metadata = decode_json(fields.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    text = next((fields[name] for name in TEXT_KEYS if isinstance(fields.get(name), str)), "")
    ids = (_identifier(source.get(name)) for source in (fields, metadata) for name in ID_KEYS)
    identifier = next((name for name in ids if name is not None), None)
    if not text.strip() and identifier is None:
        return None
    return Document(text, identifier, _parse_number(first_field(fields, *SCORE_KEYS)), metadata)


def _identifier(value: Any) -> str | None:
    try:
        return as_identifier(value)
    except TypeError:
        return None


def nest_dotted_keys(flat: JsonObject, levels: int = MAX_LEVELS) -> dict[str, Any]:
    """Convert dotted keys to nested dicts: {"a.b": 1} becomes {"a": {"b": 1}}."""
    result: dict[str, object] = {}
    for key, held in flat.items():
        *parents, last = str(key).split(".")
        place: Any = result
        for parent in parents:
            place = place.setdefault(parent, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            value = nest_dotted_keys(held, levels - 1) if isinstance(held, Mapping) and levels else held
            known = place.get(last)
            place[last] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def get_path(value: Any, *paths: str) -> Any:
    """Return what is at the first of the paths, such as "input.value", that leads to a value; None if none does."""
    for path in paths:
        found = value
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return found
    return None


def unwrap_list(value: Any) -> Any:
    """Return the list in a JSON text, or the values of an object with the keys "0", "1" …; other values unchanged."""
    value = decode_json(value)
    if isinstance(value, Mapping) and value and all(str(name).isdigit() for name in value):
        return [value[name] for name in sorted(value, key=int)]
    return value


def extract_objects(value: Any) -> Iterator[Mapping[str, object]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def first_field(record: Mapping[str, object], *names: str) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def first_not_none(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _parse_number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def parse_time(value: Any) -> float:
    """Return a time in seconds since 1970 from a number in s, ms, µs or ns, or an ISO 8601 text; 0 for other values."""
    number = _parse_number(value)
    if number is not None:
        while number >= 1e11:  # noqa: PLR2004 - seconds up to the year 5138
            number /= 1000
        return number
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return 0.0
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def decode_json(value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def extract_question(value: Any, depth: int = MAX_DEPTH) -> ExtractedQuestion:
    """Return the question in an input: the last message of the user, or the text under a usual key."""
    value = decode_json(value)
    if isinstance(value, str):
        return ExtractedQuestion(_stripped_text(value))
    messages = list(_parse_messages(value))
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=None)
    if last is not None:
        return ExtractedQuestion(messages[last]["content"], tuple(messages[:last]))
    if not isinstance(value, Mapping):
        return ExtractedQuestion(None)
    candidates = [decode_json(value[name]) for name in QUESTION_KEYS if name in value]
    question = next((text for candidate in candidates if (text := _stripped_text(candidate))), None)
    if question is None:
        inner = next((candidate for candidate in candidates if isinstance(candidate, Mapping | list)), None)
        if inner is not None:
            return extract_question(inner, depth - 1) if depth else ExtractedQuestion(None)
        texts = [text for item in value.values() if (text := _stripped_text(item))]
        question = texts[0] if len(texts) == 1 else None
    history: list[Any] = next((value[name] for name in HISTORY_KEYS if isinstance(value.get(name), list)), [])
    return ExtractedQuestion(question, tuple(_parse_messages(history)))


def extract_answer(value: Any, depth: int = MAX_DEPTH) -> str | None:
    """Return the answer in an output: the last message of the assistant, or the text under a usual key."""
    value = decode_json(value)
    if isinstance(value, str):
        return _stripped_text(value)
    replies = [message["content"] for message in _parse_messages(value) if message["role"] == "assistant"]
    if replies:
        return replies[-1]
    if not depth:
        return None
    if isinstance(value, list):
        return extract_answer(value[0], depth - 1) if value else None
    if not isinstance(value, Mapping):
        return None
    answers = (extract_answer(value[name], depth - 1) for name in ANSWER_KEYS if name in value)
    texts = [text for item in value.values() if (text := _stripped_text(item))]
    return next((answer for answer in answers if answer), texts[0] if len(texts) == 1 else None)


def _parse_messages(value: Any) -> Iterator[Message]:
    if isinstance(value, Mapping):
        value = decode_json(value.get("messages"))
    items = value if isinstance(value, list) else []
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]  # LangChain records a batch, here of one conversation
    for item in items:
        message = _parse_message(item)
        if message is not None:
            yield message


def _parse_message(item: Any) -> Message | None:
    if isinstance(item, Mapping):
        inner = next(
            (item[key] for key in ("message", "kwargs", "data") if isinstance(item.get(key), Mapping)), item
        )
        names = [source.get(key) for source in (inner, item) for key in ("role", "message.role", "type")]
        if isinstance(item.get("id"), list):
            names += item["id"][-1:]  # LangChain's path of a class, which ends with its name
        contents = (inner.get(key) for key in ("content", "message.content", "parts", "contents"))
        content = next((content for content in contents if content), None)
    elif isinstance(item, list) and len(item) == 2:  # noqa: PLR2004 - role and content
        names, content = item[:1], item[1]
    else:
        return None
    role, text = (
        next((ROLES[str(name)] for name in names if str(name) in ROLES), None),
        _content_text(content),
    )
    return None if role is None or text is None else {"role": role, "content": text}


def _content_text(content: Any) -> str | None:
    if not isinstance(content, list):
        return _stripped_text(content)
    parts = [
        part if isinstance(part, str) else part.get("text", part.get("content"))
        for part in content
        if isinstance(part, str | Mapping)
    ]
    return "\n".join(text for part in parts if (text := _stripped_text(part))) or None


def _stripped_text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
