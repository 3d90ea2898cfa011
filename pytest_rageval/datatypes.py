"""The data types of the package: documents, gold passages, examples, eval sets, rankings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, overload

from pytest_rageval.conversation import Message, QuestionWithHistory
from pytest_rageval.digests import digest, digest_of_all
from pytest_rageval.spool import Spool, SpooledTuple

__all__ = [
    "CONTEXT",
    "Document",
    "EvalSet",
    "Example",
    "ExampleSubset",
    "Gold",
    "Nugget",
    "Ranking",
    "Retrieval",
    "Span",
    "SpooledDocuments",
    "Step",
    "SubsetInfo",
    "excerpt",
]

CONTEXT: Final = ("history", "filters", "metadata")
"""The fields of an example that a retriever receives beside the question."""


class Span(NamedTuple):
    """A place in a file, independent of how the file is cut into passages.

    Attributes:
        source: the file's name or path.
        start: the offset of its first character, from 0.
        end: the offset after its last character; above `start`.
    """

    source: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A passage as a retriever returns it.

    Attributes:
        text: what the generator reads; also `str(document)`.
        id: the retriever's identifier, or None.
        score: the retriever's, on its own scale, or None. Never used to rank.
        metadata: other data from the retriever.
        span: its place in a file, or None if unknown.
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
        """The same for equal documents: the id; without one the text, with its place if known."""
        if self.id is not None:
            return f"id:{self.id}"
        # The same sentence at two places is two documents.
        place = "" if self.span is None else f"{self.span.start}-{self.span.end} {self.span.source}\n"
        return f"text:{place}{self.text}"

    @property
    def label(self) -> str:
        """The name in reports: the id, or the beginning of the text in quotes."""
        return self.id if self.id is not None else excerpt(self.text)


@dataclass(frozen=True, slots=True)
class Gold:
    """A passage that people judged: by id, by text, or by source span.

    Attributes:
        id: the passage's identifier in the corpus.
        text: its text. LLM-retEval shows it to the generator.
        source: the file of the span; `start` and `end` are its character offsets.
        grade: relevance, an integer ≥ 0; 0 is judged and not relevant.
        group: passages of one group are alternatives, and each group is needed; None: it is a group of its own.
    """

    id: str | None = None
    text: str | None = None
    source: str | None = None
    start: int | None = None
    end: int | None = None
    grade: int = 1
    group: str | None = None

    @property
    def span(self) -> Span | None:
        """The passage's place in a file, or None if unknown."""
        if self.source is None or self.start is None or self.end is None:
            return None
        return Span(self.source, self.start, self.end)

    @property
    def label(self) -> str:
        """The name in reports: the id, the beginning of the text, or the span."""
        if self.id is not None:
            return self.id
        if self.text is not None:
            return excerpt(self.text)
        return f"{self.source}[{self.start}:{self.end}]"


class Nugget(NamedTuple):
    """A fact that a good answer states.

    Attributes:
        text: the fact, in a few words.
        vital: whether a good answer must state it; other nuggets are worth stating ("okay").
    """

    text: str
    vital: bool = True


@dataclass(frozen=True, slots=True)
class Example:
    """One question of an eval set, with its answers and gold passages.

    Attributes:
        id: unique in its eval set.
        question: the retriever's query.
        answers: alternatives, any one of which is right.
        answer_set: several answers that are all wanted, each with its aliases; precedes `answers` and
            `reference`.
        gold: the gold passages; those of grade 0 are judged and not relevant.
        reference: a long-form answer, or None.
        nuggets: the facts that a good answer says, each once.
        tags: for slices, such as `{"topic": "billing"}`.
        extra: other keys of the record.
        history: the messages before the question, each with `role` and `content`, oldest first.
        filters: what retrieved passages must satisfy, such as `{"tenant": "acme"}`.
        metadata: other data for the retriever.
    """

    id: str
    question: str
    answers: tuple[str, ...] = ()
    answer_set: tuple[tuple[str, ...], ...] = ()
    gold: tuple[Gold, ...] = ()
    reference: str | None = None
    tags: Mapping[str, Any] = field(default_factory=dict, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    history: tuple[Message, ...] = field(default=(), hash=False)
    filters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    nuggets: tuple[Nugget, ...] = ()

    @property
    def full_question(self) -> str:
        """The question as models receive it: with the messages before it, where there are any."""
        return QuestionWithHistory(self.question, self.history) if self.history else self.question

    @property
    def relevant(self) -> tuple[Gold, ...]:
        """The gold passages of a grade above 0."""
        return tuple([gold for gold in self.gold if gold.grade > 0])

    @property
    def wanted(self) -> tuple[tuple[str, ...], ...]:
        """The short answers that are wanted, each with its aliases; empty if there is only a `reference`."""
        return self.answer_set or ((self.answers,) if self.answers else ())

    @property
    def digest(self) -> str:
        """Twelve hex digits of question, answers, gold and nuggets; context, tags and extra keys do not count."""
        return self.digest_in(frozenset())

    def digest_in(self, context: AbstractSet[str]) -> str:
        """Return the digest that also covers these parts of the context, if the example has them."""
        # A tuple is a list in JSON.
        fields: list[Any] = [self.question, self.answers, self.answer_set, [*map(_plain_gold, self.gold)]]
        fields += [self.reference, *([{"nuggets": self.nuggets}] if self.nuggets else [])]
        if given := [name for name in CONTEXT if name in context and getattr(self, name)]:
            plain = _plain(self)["extra"]
            fields.append({name: plain[name] for name in given})
        return digest(fields)[:12]


class ExampleSubset(tuple[Example, ...]):  # noqa: SLOT001 - a tuple has no slots for names
    """Some of the examples of an eval set, in order. `ids` are those of the whole set."""

    ids: tuple[str, ...] = ()


class SubsetInfo(NamedTuple):
    """Which part of an eval set is scored: a random share, or a shard such as "2/8", of how many examples."""

    of: int
    sample: float = 1.0
    shard: str = ""

    def __str__(self) -> str:
        """Such as "sample 0.1, shard 2/8"."""
        parts = [f"sample {self.sample:g}"] if self.sample < 1 else []
        return ", ".join([*parts, *([f"shard {self.shard}"] if self.shard else [])])


@dataclass(frozen=True)
class EvalSet:
    """The examples of a test.

    Attributes:
        name: the file's, for reports.
        examples: in the file's order; ids are unique.
        part: which part of a set it is; None for a whole one.
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
        """SHA-256 of the examples, independent of the order of keys in their records."""
        return digest_of_all(map(_plain, self.examples))


@dataclass(frozen=True, slots=True)
class Step:
    """One search of a retriever that searches several times.

    Attributes:
        query: that it searched for.
        documents: what it found, best first, as a retriever may return them.
    """

    query: str
    documents: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a retriever may return instead of a list of documents: the documents with the searches behind them.

    Attributes:
        documents: the final documents, best first, as in a list.
        steps: the searches behind them, in their order; None where the retriever does not say.
        tokens: that it used, or None.
        cost: in US dollars, or None.
        seconds: that it took; None for the time of the call. A replay gives the recorded time.
        question: that the generator answers in place of the user's, such as a rewritten one; None for the user's.
    """

    documents: Sequence[Any]
    steps: Sequence[Step] | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    question: str | None = None


@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Document]):
    """The documents that a retriever returned for a query, best first, each once.

    A repeated document has its best rank. `"kb-112" in ranking` looks for an id; a `Document` is looked
    for by id or, without one, by text.

    Attributes:
        query: the query.
        documents: at most k, if k were asked for.
        duplicates: number of repeated documents, which are dropped.
        missing: number of documents that are then missing from k.
        surplus: number of documents beyond k, which are dropped.
        own_k: the retriever's own number of documents, as it is configured; None where it has none.
        without_history: whether the question follows a conversation that the retriever does not take.
        steps: the rankings of the searches behind it, of an agent that says so, each whole; None where it does not.
        tokens: that the retrieval used, as the retriever says; None where it does not.
        cost: in US dollars, likewise.
        seconds: that the retrieval took; None where other retrievals ran meanwhile, or none ran before.
        question: that the generator answers in place of the user's; None for the user's.
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

    @classmethod
    def of(cls, query: str, documents: Sequence[Document], k: int | None = None, **of_call: Any) -> "Ranking":
        """Drop repeated documents, then keep the first k (all where k is None); `of_call` are further attributes."""
        first: dict[str, Document] = {}
        for document in documents:
            first.setdefault(document.identity, document)
        kept = tuple(first.values())
        more = 0 if k is None else len(kept) - k
        missing, surplus = max(-more, 0), max(more, 0)
        return cls(query, kept[:k], len(documents) - len(kept), missing, surplus, **of_call)

    def kept(self, spool: Spool) -> "Ranking":
        """The same ranking, with its documents and searches moved to a spool."""
        steps, documents = self.steps, self.documents
        if steps is None and isinstance(documents, SpooledTuple):
            return self
        if steps is not None:
            steps = _KeptRankings(spool, [_ranking_record(step) for step in steps], len(steps))
        if not isinstance(documents, SpooledTuple):
            documents = SpooledDocuments(spool, documents)
        return replace(self, documents=documents, steps=steps)

    @property
    def k(self) -> int:
        """The number of documents that were requested, or else the number of documents."""
        return len(self.documents) + self.missing

    @property
    def calls(self) -> int:
        """The number of searches behind it; 1 where the retriever does not say."""
        return 1 if self.steps is None else len(self.steps)

    def of_steps(self, k: int) -> "Ranking":
        """The first k documents of each search, in the order of the searches; without searches the first k."""
        steps = (self,) if self.steps is None else self.steps
        return Ranking.of(self.query, [document for step in steps for document in step[:k]])

    @property
    def textless(self) -> int:
        """The number of documents without text."""
        if isinstance(self.documents, SpooledDocuments):
            return self.documents.textless
        return sum(not document.text.strip() for document in self.documents)

    @property
    def ids(self) -> tuple[str | None, ...]:
        """The documents' ids in rank order."""
        if isinstance(self.documents, SpooledDocuments):
            return self.documents.ids
        return tuple(document.id for document in self.documents)

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
        if isinstance(item, str):
            return item in self.ids
        if isinstance(item, Document):
            if item.id is not None:
                return item.id in self.ids
            return any(item.text == document.text for document in self.documents)
        return False


def _documents_record(documents: Iterable[Document]) -> list[tuple[Any, ...]]:
    return [
        (each.text, each.id, each.score, each.metadata or None, each.span and tuple(each.span))
        for each in documents
    ]


def _documents_of(record: Iterable[tuple[Any, ...]]) -> tuple[Document, ...]:
    return tuple(
        [
            Document(text, id_, score, {} if metadata is None else metadata, span and Span(*span))
            for text, id_, score, metadata, span in record
        ]
    )


def _ranking_record(ranking: Ranking) -> tuple[Any, ...]:
    return (
        ranking.query,
        _documents_record(ranking.documents),
        ranking.duplicates,
        ranking.missing,
        ranking.surplus,
    )


def _rankings_of(record: Iterable[tuple[Any, ...]]) -> tuple[Ranking, ...]:
    return tuple(Ranking(query, _documents_of(documents), *counts) for query, documents, *counts in record)


class SpooledDocuments(SpooledTuple[Document]):
    """The documents of a ranking in a spool; most of their readers want no more than the ids."""

    __slots__ = ("textless",)

    decode = staticmethod(_documents_of)

    def __init__(self, spool: Spool, documents: Sequence[Document]) -> None:
        # Most are read soon. Their user may change metadata meanwhile: then they are made of the record.
        unchanging = not [each for each in documents if each.metadata or type(each) is not Document]
        decoded = tuple(documents) if unchanging else None
        super().__init__(spool, _documents_record(documents), len(documents), decoded=decoded)
        self.textless = len([each for each in documents if not each.text.strip()])

    @property
    def ids(self) -> tuple[str | None, ...]:
        """The documents' ids."""
        documents = self._spool.recent(self._place, self.decode)
        if documents is None:
            return tuple([each[1] for each in self._spool.get(self._place)])
        return tuple([each.id for each in documents])


class _KeptRankings(SpooledTuple[Ranking]):
    """The searches of a ranking in a spool."""

    __slots__ = ()

    decode = staticmethod(_rankings_of)


def excerpt(text: str, width: int = 60) -> str:
    """The beginning of a text in quotes, on one line, at most `width` characters long."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= width - 2 else f'"{line[: width - 3]}…"'


def _plain(example: Example) -> dict[str, Any]:
    """The example as JSON-like data."""
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
        "gold": [_plain_gold(gold) for gold in example.gold],
        "reference": example.reference,
        "tags": dict(example.tags),
        # In older versions the context was a part of `extra`.
        "extra": {**example.extra, **{name: value for name, value in context.items() if value}},
        # Without any, digests are those of earlier versions.
        **({"nuggets": [list(nugget) for nugget in example.nuggets]} if example.nuggets else {}),
    }


def _plain_gold(gold: Gold) -> list[Any]:
    others = [gold.id, gold.text, gold.source, gold.start, gold.end, gold.grade]
    return others if gold.group is None else [*others, gold.group]
