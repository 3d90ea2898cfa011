"""Documents and rankings: what a retriever returns for a question."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, overload

from pytest_rageval.lib.foreign_values import as_identifier, id_key

STORED_AS: Final = "pytest_rageval.datatypes"  # see calls.STORED_AS
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


if TYPE_CHECKING:
    _Documents = Sequence[Document]
else:
    # `isinstance` takes longer for a class of `abc`, and each ranking is checked several times.
    _Documents = object


class CreatedDocuments(_Documents):
    """The documents of a ranking, created at each use. What scores ask of all rankings needs no documents.

    `textless` is the number of documents without text, `has_chunk_ids` whether one has a `chunk_id`.
    """

    __slots__ = ("_length", "has_chunk_ids", "textless")

    def __init__(self, length: int, *, textless: int, has_chunk_ids: bool) -> None:
        self._length = length
        self.textless: int = textless
        self.has_chunk_ids: bool = has_chunk_ids

    @property
    def ids(self) -> tuple[str | None, ...]:
        return tuple([document.id for document in self.create()])

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple([document.text for document in self.create()])

    def create(self) -> tuple[Document, ...]:
        # A subclass creates them; this is no `abstractmethod`, since the class is none of `abc`.
        raise NotImplementedError

    if not TYPE_CHECKING:
        index, count = Sequence.index, Sequence.count
        __contains__, __reversed__ = Sequence.__contains__, Sequence.__reversed__

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


Sequence.register(CreatedDocuments)


def texts_of(documents: Iterable[Document]) -> tuple[str, ...]:
    if isinstance(documents, CreatedDocuments):
        return documents.texts
    return tuple([document.text for document in documents])


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
        ranked = tuple(documents)
        ids = {document.id if document.chunk_id is None else None for document in ranked}
        # Of most rankings the ids tell that no document is repeated.
        if None in ids or len(ids) < len(ranked):
            unique: dict[str, Document] = {}
            for document in ranked:
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
        return tuple([document.id for document in self.documents])

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
