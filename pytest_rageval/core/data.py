"""The data types of the package: documents, gold passages, examples, eval sets, rankings."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast, overload

from pytest_rageval.lib.digests import digest, digest_of_all
from pytest_rageval.lib.foreign_values import as_identifier, id_key

Message = Mapping[str, str]
"""One message: a mapping with the keys `role` and `content`."""

ROLE_LABELS: Final = {"user": "User", "assistant": "Assistant", "system": "System"}
"""Labels of the usual roles in prompts. Any other role is its own label."""


class QuestionWithHistory(str):
    """A question that follows a conversation: the text is the question alone, `history` has the earlier messages.

    Two objects are equal if both text and history are equal. An object equals a plain `str` only if its history is
    empty, so that results cached by question are also cached by conversation. Without arguments it is an empty
    question.
    """

    __slots__ = ("history",)

    history: tuple[Message, ...]

    def __new__(cls, text: str = "", history: Iterable[Message] = ()) -> Self:
        question = super().__new__(cls, text)
        question.history = tuple(history)
        return question

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and self.history == history_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str(self), conversation_text(self.history)))

    def __getnewargs__(self) -> tuple[str, tuple[Message, ...]]:  # type: ignore[override]
        return str(self), self.history


def history_of(question: object) -> tuple[Message, ...]:
    """Return the messages before a question; an empty tuple for a plain `str`."""
    return question.history if isinstance(question, QuestionWithHistory) else ()


def conversation_text(history: Iterable[Message]) -> str:
    r"""Return messages as text for a prompt, one message per line.

    >>> conversation_text([{"role": "user", "content": "Do you\nship?"}, {"role": "assistant", "content": "Yes."}])
    'User: Do you ship?\nAssistant: Yes.'
    """
    return "\n".join(
        f"{ROLE_LABELS.get(message['role'], message['role'])}: {' '.join(message['content'].split())}"
        for message in history
    )


STORED_AS: Final = "pytest_rageval.datatypes"  # see core.user_code
RETRIEVER_CONTEXT: Final = ("history", "filters", "metadata")
"""The fields of an example that a retriever can receive in addition to the question."""

NOT_WRITTEN: Final = "not written"
"""The key of a field's metadata that leaves the field out of the record that a shard stores: no verdict needs it."""


class Span(NamedTuple):
    """A range of characters in a file, from 0. It does not depend on how the file is cut into passages."""

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A passage as a retriever returns it.

    Attributes:
        text: the text that the generator reads; also `str(document)`.
        id: the retriever's identifier of the passage, or None.
        score: the retriever's score of the passage, on the retriever's own scale, or None. Never used to rank.
        metadata: other data from the retriever.
        span: the passage's range of characters in a file, or None if unknown.
        chunk_id: the passage's own id if `id` is that of the document that it was cut from; else None. It tells the
            chunks of one document apart. A gold passage with either id is found.
    """

    text: str
    id: str | None = None
    score: float | None = field(default=None, metadata={NOT_WRITTEN: True})
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False, metadata={NOT_WRITTEN: True})
    span: Span | None = None
    chunk_id: str | None = None

    if TYPE_CHECKING:
        # `"kb-112" in ranking` compares an id with a document. mypy allows that if the class defines `__eq__`.
        def __eq__(self, other: object) -> bool: ...
        def __hash__(self) -> int: ...

    def __str__(self) -> str:
        return self.text

    @property
    def identity(self) -> str:
        """A key that equal documents share: the chunk's id, the id, or without ids the text and, if known, the span."""
        if self.chunk_id is not None:
            return f"chunk:{self.chunk_id}"
        if self.id is not None:
            return f"id:{self.id}"
        # The same sentence at two places in a file makes two documents.
        place = "" if self.span is None else f"{self.span.start}-{self.span.end} {self.span.source}\n"
        return f"text:{place}{self.text}"

    @property
    def label(self) -> str:
        """The name of the document in reports: the id, or the beginning of the text in quotes."""
        return self.id if self.id is not None else excerpt(self.text)


class CreatedDocuments(Sequence[Document]):
    """The documents of a ranking, created at each use. What scores ask of all rankings needs no documents.

    `textless` is the number of documents without text, `has_chunk_ids` whether one has a `chunk_id`.
    """

    __slots__ = ("_length", "has_chunk_ids", "textless")

    def __init__(self, length: int, *, textless: int, has_chunk_ids: bool) -> None:
        self._length = length
        self.textless: int = textless
        self.has_chunk_ids: bool = has_chunk_ids

    @property
    @abstractmethod
    def ids(self) -> tuple[str | None, ...]:
        pass

    @abstractmethod
    def create(self) -> tuple[Document, ...]:
        pass

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Document]:
        return iter(self.create())

    def __getitem__(self, index: Any) -> Any:
        return self.create()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | CreatedDocuments) and self.create() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.create())

    def __repr__(self) -> str:
        return repr(self.create())

    def __reduce__(self) -> tuple[type, tuple[tuple[Document, ...]]]:
        return tuple, (self.create(),)


@dataclass(frozen=True, slots=True)
class Gold:
    """A passage whose relevance people judged. It is identified by an id, a text or a span.

    Attributes:
        id: the passage's identifier in the corpus.
        text: the passage's text. LLM-retEval shows it to the generator.
        source: the file of the span.
        start: the offset of the span's first character in the file.
        end: the offset after the span's last character.
        grade: the relevance, an integer ≥ 0; 0 means judged and not relevant.
        group: the name of the group. Passages of one group are alternatives, and every group is needed. None: the
            passage is a group of its own.
        added: the values of fields that extensions declare, by name; None without any.
    """

    id: str | None = None
    text: str | None = None
    source: str | None = None
    start: int | None = None
    end: int | None = None
    grade: int = 1
    group: str | None = None
    added: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def span(self) -> Span | None:
        """The passage's range of characters in a file, or None if unknown."""
        if self.source is None or self.start is None or self.end is None:
            return None
        return Span(self.source, self.start, self.end)

    @property
    def label(self) -> str:
        """The name of the passage in reports: the id, the beginning of the text, or the span."""
        if self.id is not None:
            return self.id
        if self.text is not None:
            return excerpt(self.text)
        return f"{self.source}[{self.start}:{self.end}]"


class Nugget(NamedTuple):
    """A fact that a good answer states.

    Attributes:
        text: the fact, in a few words.
        vital: whether a good answer must state the fact. Other nuggets are worth stating ("okay").
    """

    text: str
    vital: bool = True


EXCLUDED: Final = "exclude_ids"
"""The key under `extra` for the ids of documents that are left out of the ranking of an example."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question of an eval set, with its reference answers and gold passages.

    Attributes:
        id: the example's identifier, unique in its eval set.
        question: the question, which is the retriever's query.
        answers: alternative short answers; any one of them is right.
        answer_set: short answers that are all required, each as a tuple of its aliases. It takes precedence over
            `answers` and `reference`.
        gold: the gold passages. A passage of grade 0 is judged and not relevant.
        reference: a long-form answer, or None.
        nuggets: the facts that a good answer states, without repetition.
        tags: values to select slices by, such as `{"topic": "billing"}`.
        extra: the keys of the record that are not fields of this class.
        history: the messages before the question, oldest first, each with `role` and `content`.
        filters: conditions that retrieved passages must satisfy, such as `{"tenant": "acme"}`.
        metadata: other data for the retriever.
        added: the values of fields that extensions declare, by name.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    answer_set: tuple[tuple[str, ...], ...] = ()
    gold: tuple[Gold, ...] = ()
    reference: str | None = None
    tags: Mapping[str, object] = field(default_factory=dict, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False, metadata={NOT_WRITTEN: True})
    history: tuple[Message, ...] = field(default=(), hash=False)
    filters: Mapping[str, object] = field(default_factory=dict, hash=False)
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)
    nuggets: tuple[Nugget, ...] = ()
    added: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def full_question(self) -> str:
        """The question as models receive it: with the messages of `history`, if there are any."""
        return QuestionWithHistory(self.question, self.history) if self.history else self.question

    @property
    def relevant(self) -> tuple[Gold, ...]:
        """The gold passages with a grade above 0."""
        return tuple([gold for gold in self.gold if gold.grade > 0])

    def with_lowest_grade(self, grade: int) -> "Example":
        """Return the example in which gold passages with a lower grade are not relevant."""
        if grade == 1:
            return self
        gold = tuple([each if each.grade >= grade else replace(each, grade=0) for each in self.gold])
        return replace(self, gold=gold)

    @property
    def gold_id_keys(self) -> frozenset[str]:
        """The `id_key` of each relevant gold passage that is found by its id: those without a span."""
        return frozenset(
            [id_key(gold.id) for gold in self.relevant if gold.id is not None and gold.span is None]
        )

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """The required short answers, each as a tuple of its aliases; empty if there is only a `reference`."""
        return self.answer_set or ((self.answers,) if self.answers else ())

    @property
    def digest(self) -> str:
        """Twelve hex digits over question, answers, gold, nuggets, excluded ids and `added`, not context and tags."""
        return self.digest_with_context(frozenset())

    def digest_with_context(self, context: AbstractSet[str]) -> str:
        """Return the digest that also covers the non-empty fields of `RETRIEVER_CONTEXT` that `context` names."""
        # JSON writes a tuple as a list, so tuples need no conversion.
        fields: list[Any] = [self.question, self.answers, self.answer_set, [*map(_gold_as_json, self.gold)]]
        fields += [self.reference, *([{"nuggets": self.nuggets}] if self.nuggets else [])]
        if excluded := self.extra.get(EXCLUDED):
            fields.append({EXCLUDED: excluded})
        fields += [{"added": self.added}] if self.added else []
        if covered := [name for name in RETRIEVER_CONTEXT if name in context and getattr(self, name)]:
            values = _example_as_json(self)["extra"]
            fields.append({name: values[name] for name in covered})
        return digest(fields)[:12]


class ExampleSubset(tuple[Example, ...]):  # noqa: SLOT001 - a tuple has no slots for names
    """Some of the examples of an eval set, in order. `ids` are the ids of all examples of the set."""

    ids: tuple[str, ...] = ()


class SubsetInfo(NamedTuple):
    """How the scored examples were chosen from an eval set of `total` examples: the sampled share; the shard, "2/8"."""

    total: int
    sample: float = 1.0
    shard: str = ""

    def __str__(self) -> str:
        parts = [f"sample {self.sample:g}"] if self.sample < 1 else []
        return ", ".join([*parts, *([f"shard {self.shard}"] if self.shard else [])])


@dataclass(frozen=True)
class EvalSet:
    """The examples of a test.

    Attributes:
        name: the name of the file, for reports.
        examples: the examples in the order of the file; their ids are unique.
        part: how the examples were chosen from a larger set; None if the set is whole.
    """

    name: str
    examples: tuple[Example, ...]
    part: SubsetInfo | None = None

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the examples. It does not depend on the order of keys in their records."""
        return digest_of_all(map(_example_as_json, self.examples))


@dataclass(frozen=True, slots=True)
class Step:
    """One search of a retriever that searches several times per question.

    Attributes:
        query: the query of the search.
        documents: the documents that the search found, best first, in any form that a retriever may return.
    """

    query: str
    documents: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a retriever, such as a search, the fusion of two searches, or a reranker.

    Attributes:
        name: its name in reports.
        documents: the documents that it returned, best first, in any form that a retriever may return; not cut at k.
    """

    name: str
    documents: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """A retriever's documents with its searches and costs. A retriever may return it instead of a list of documents.

    Attributes:
        documents: the final documents, best first, in any form that a retriever may return.
        steps: the searches that led to the documents, in order; None if the retriever does not report them.
        tokens: the number of tokens that the retrieval used, or None.
        cost: the cost of the retrieval in US dollars, or None.
        seconds: the duration of the retrieval. None: the duration of the call is measured. A replay sets the recorded
            duration.
        question: the question that the generator answers instead of the user's, such as a rewritten one; None for
            the user's question.
        stages: what each stage of the retriever returned, in their order; None if the retriever does not report it.
    """

    documents: Sequence[Any]
    steps: Sequence[Step] | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    question: str | None = None
    stages: Sequence[Stage] | None = None


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Document]):
    """The documents that a retriever returned for a query, best first, without repetition.

    A repeated document keeps its best rank. `"kb-112" in ranking` searches for the id of a document or of a chunk.
    `document in ranking` searches for the document's id or, if it has none, for its text.

    Attributes:
        query: the query.
        documents: the documents; at most k if k documents were requested.
        duplicates: the number of repeated documents, which were dropped.
        missing: the number of documents fewer than k, after duplicates were dropped.
        surplus: the number of documents beyond k, which were dropped.
        own_k: the number of documents that the retriever is configured to return; None if it has no such setting.
        without_k: whether the retriever was called without k, as it ships.
        without_history: whether the question follows a conversation that the retriever does not accept.
        steps: one ranking per search, not cut at k; None if the retriever does not report its searches.
        tokens: the number of tokens that the retrieval used; None if the retriever does not report it.
        cost: the cost of the retrieval in US dollars; None if the retriever does not report it.
        seconds: the duration of the retrieval; None if other retrievals ran at the same time, or if it was the first.
        question: the question that the generator answers instead of the user's; None for the user's question.
        stages: one ranking per stage, not cut at k, with the name of the stage as the query; None if the retriever does
            not report its stages.
    """

    query: str
    documents: Sequence[Document]
    duplicates: int = 0
    missing: int = 0
    surplus: int = 0
    own_k: int | None = None
    without_history: bool = False
    steps: Sequence["Ranking"] | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = field(default=None, compare=False)
    question: str | None = None
    without_k: bool = False
    stages: Sequence["Ranking"] | None = field(default=None, metadata={NOT_WRITTEN: True})

    @classmethod
    def of(
        cls, query: str, documents: Sequence[Document], k: int | None = None, **attributes: Any
    ) -> "Ranking":
        """Return a ranking without repeated documents, cut at k (not cut if k is None), with further attributes."""
        unique: dict[str, Document] = {}
        for document in documents:
            unique.setdefault(document.identity, document)
        ranked = tuple(unique.values())
        excess = 0 if k is None else len(ranked) - k
        missing, surplus = max(-excess, 0), max(excess, 0)
        return cls(query, ranked[:k], len(documents) - len(ranked), missing, surplus, **attributes)

    @property
    def k(self) -> int:
        """The number of documents that were requested; if none was requested, the number of documents."""
        return len(self.documents) + self.missing

    @property
    def calls(self) -> int:
        """The number of searches; 1 if the retriever does not report its searches."""
        return 1 if self.steps is None else len(self.steps)

    def of_steps(self, k: int) -> "Ranking":
        """Return the first k documents of every search, in the order of the searches.

        If the retriever does not report its searches, they are the first k documents of this ranking.
        """
        steps = (self,) if self.steps is None else self.steps
        return Ranking.of(self.query, [document for step in steps for document in step[:k]])

    @property
    def textless(self) -> int:
        """The number of documents without text."""
        if isinstance(self.documents, CreatedDocuments):
            return self.documents.textless
        return sum(not document.text.strip() for document in self.documents)

    @property
    def ids(self) -> tuple[str | None, ...]:
        """The documents' ids in rank order."""
        if isinstance(self.documents, CreatedDocuments):
            return self.documents.ids
        return tuple(document.id for document in self.documents)

    @property
    def id_keys(self) -> frozenset[str]:
        """The `id_key` of each id of a document or of a chunk."""
        chunk_ids = [document.chunk_id for document in self.documents] if self.has_chunk_ids else []
        return frozenset([id_key(name) for name in (*self.ids, *chunk_ids) if name is not None])

    @property
    def has_chunk_ids(self) -> bool:
        """Whether a document has a `chunk_id`."""
        if isinstance(self.documents, CreatedDocuments):
            return self.documents.has_chunk_ids
        return any(document.chunk_id is not None for document in self.documents)

    @property
    def labels(self) -> list[str]:
        """The documents' names in reports (`Document.label`), in rank order."""
        ids = self.ids
        if None in ids:
            return [document.label for document in self.documents]
        return cast("list[str]", [*ids])

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Document]: ...
    def __getitem__(self, index: int | slice) -> Document | Sequence[Document]:
        return self.documents[index]

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents)

    def __len__(self) -> int:
        return len(self.documents)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, Document):
            if item.id is None:
                return any(item.text == document.text for document in self.documents)
            item = item.chunk_id or item.id
        try:
            identifier = as_identifier(item)
        except TypeError:
            return False
        return identifier is not None and id_key(identifier) in self.id_keys


def excerpt(text: str, width: int = 60) -> str:
    """Return the beginning of a text in quotes, on one line, at most `width` characters long."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= width - 2 else f'"{line[: width - 3]}…"'


def _example_as_json(example: Example) -> dict[str, Any]:
    context = {
        "history": [dict(message) for message in example.history],
        "filters": dict(example.filters),
        "metadata": dict(example.metadata),
    }
    return {
        "id": example.id,
        "question": example.question,
        "answers": list(example.answers),
        "answer_set": [list(aliases) for aliases in example.answer_set],
        "gold": [_gold_as_json(gold) for gold in example.gold],
        "reference": example.reference,
        "tags": dict(example.tags),
        # Digests must equal those of older versions, in which the context was a part of `extra`.
        "extra": {**example.extra, **{name: value for name, value in context.items() if value}},
        # Without the condition, digests of examples without nuggets would change.
        **({"nuggets": [list(nugget) for nugget in example.nuggets]} if example.nuggets else {}),
        **({"added": dict(example.added)} if example.added else {}),
    }


def _gold_as_json(gold: Gold) -> list[Any]:
    fields = [gold.id, gold.text, gold.source, gold.start, gold.end, gold.grade]
    # Without the conditions, digests of passages without these would change.
    fields += [] if gold.group is None else [gold.group]
    return [*fields, dict(gold.added)] if gold.added else fields
