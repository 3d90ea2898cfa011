"""The nouns of the project: documents, examples, eval sets, rankings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, overload

from pytest_rageval.fingerprint import digest, digest_of_all

__all__ = ["Document", "EvalSet", "Example", "Gold", "Ranking", "Span"]


class Span(NamedTuple):
    """A place in a file, which stays what it is however the file is cut into passages.

    Attributes:
        source: the file's name, or its path.
        start: of its first character, from 0.
        end: behind its last one; above `start`.
    """

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A passage as a retriever returns it.

    Attributes:
        text: what the generator reads. `str(document)` is this text, so that a
            prompt can be joined from documents as from strings.
        id: the retriever's own identifier, or None where it has none.
        score: the retriever's own, on its own scale, or None. Never used to rank.
        metadata: whatever else came with the passage.
        span: where in which file it is, or None where that is not known.
    """

    text: str
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    span: Span | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def identity(self) -> str:
        """By what two documents are the same. It is the id; without one the text, and its place where that is known."""
        if self.id is not None:
            return f"id:{self.id}"
        # A sentence that stands in two files, or twice in one, is not found here because it was found there.
        place = "" if self.span is None else f"{self.span.start}-{self.span.end} {self.span.source}\n"
        return f"text:{place}{self.text}"

    @property
    def label(self) -> str:
        """How reports name the document, by the id or the beginning of the text in quotes."""
        return self.id if self.id is not None else excerpt(self.text)


@dataclass(frozen=True, slots=True)
class Gold:
    """A passage that people say answers the question: by id, by text, or by source span.

    Attributes:
        id: the passage's identifier in the corpus.
        text: its text. LLM-retEval needs it, to show it to the generator.
        source: the file a span is in; `start` and `end` are its character offsets.
        grade: relevance, an integer ≥ 0; 0 is judged and not relevant.
    """

    id: str | None = None
    text: str | None = None
    source: str | None = None
    start: int | None = None
    end: int | None = None
    grade: int = 1

    @property
    def span(self) -> Span | None:
        """Where in which file the passage is, or None where that is not known."""
        if self.source is None or self.start is None or self.end is None:
            return None
        return Span(self.source, self.start, self.end)

    @property
    def label(self) -> str:
        """How reports name the passage."""
        if self.id is not None:
            return self.id
        if self.text is not None:
            return excerpt(self.text)
        return f"{self.source}[{self.start}:{self.end}]"


@dataclass(frozen=True, slots=True)
class Example:
    """One question of an eval set, with all that is known of its answer.

    Attributes:
        id: unique in its eval set.
        question: the query, as the retriever gets it.
        answers: alternatives, any one of which is right.
        answer_set: several answers that are all wanted, each with its aliases; rules over `answers`
            and `reference`.
        gold: the gold passages; those of grade 0 are judged and not relevant.
        reference: a long-form answer, or None.
        tags: for slices, such as `{"topic": "billing"}`.
        extra: keys of the record that have no meaning here.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    answer_set: tuple[tuple[str, ...], ...] = ()
    gold: tuple[Gold, ...] = ()
    reference: str | None = None
    tags: Mapping[str, Any] = field(default_factory=dict, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def relevant(self) -> tuple[Gold, ...]:
        """The gold passages of a grade above 0."""
        return tuple(gold for gold in self.gold if gold.grade > 0)

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """The short answers that are wanted, each as its aliases; the `answer_set`, or the `answers` as one.

        None where there is only a long-form `reference`, which no text but itself contains.
        """
        return self.answer_set or ((self.answers,) if self.answers else ())

    @property
    def digest(self) -> str:
        """Twelve hex digits of what is asked and what is right; tags and extra keys may change."""
        plain = _plain(self)
        return digest([plain[name] for name in ("question", "answers", "answer_set", "gold", "reference")])[
            :12
        ]


@dataclass(frozen=True)
class EvalSet:
    """The examples a test is scored on.

    Attributes:
        name: how reports call it: the file's name.
        examples: in the file's order; ids are unique.
    """

    name: str
    examples: tuple[Example, ...]

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the examples, whatever the order of keys in their records."""
        return digest_of_all(map(_plain, self.examples))


@dataclass(frozen=True)
class Ranking(Sequence[Document]):
    """What a retriever returned for a query: documents, best first, each once.

    A document that comes twice stands at its best rank.
    `"kb-112" in ranking` asks for an id; a `Document` is found by id or, without one, by text.

    Attributes:
        query: that was asked.
        documents: at most k, where k were asked for.
        duplicates: how many were dropped since they came before.
        missing: how many fewer than k were left then.
        surplus: how many more than k, which were dropped too.
    """

    query: str
    documents: tuple[Document, ...]
    duplicates: int = 0
    missing: int = 0
    surplus: int = 0

    @classmethod
    def of(cls, query: str, documents: Sequence[Document], k: int | None = None) -> "Ranking":
        """Drop repeated documents, then keep the first k (all where k is None)."""
        first: dict[str, Document] = {}
        for document in documents:
            first.setdefault(document.identity, document)
        kept = tuple(first.values())
        more = 0 if k is None else len(kept) - k
        return cls(query, kept[:k], len(documents) - len(kept), missing=max(-more, 0), surplus=max(more, 0))

    @property
    def textless(self) -> int:
        """How many of the documents have no text to read."""
        return sum(not document.text.strip() for document in self.documents)

    @property
    def ids(self) -> tuple[str | None, ...]:
        """The documents' ids in rank order."""
        return tuple(document.id for document in self.documents)

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Document, ...]: ...
    def __getitem__(self, index: int | slice) -> Document | tuple[Document, ...]:
        return self.documents[index]

    def __len__(self) -> int:
        return len(self.documents)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, str):
            return item in self.ids
        if isinstance(item, Document):
            if item.id is not None:
                return item.id in self.ids
            return any(item.text == document.text for document in self.documents)
        return False


def excerpt(text: str, width: int = 60) -> str:
    """The beginning of a text in quotes, on one line, at most `width` characters long."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= width - 2 else f'"{line[: width - 3]}…"'


def _plain(example: Example) -> dict[str, Any]:
    """The example as JSON-like data."""
    return {
        "id": example.id,
        "question": example.question,
        "answers": list(example.answers),
        "answer_set": [list(aliases) for aliases in example.answer_set],
        "gold": [
            [gold.id, gold.text, gold.source, gold.start, gold.end, gold.grade] for gold in example.gold
        ],
        "reference": example.reference,
        "tags": dict(example.tags),
        "extra": dict(example.extra),
    }
