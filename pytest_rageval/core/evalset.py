"""Eval sets: examples, their gold passages, and the conversations before a question."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, NoReturn, Self

from pytest_rageval.core.ranking import NOT_WRITTEN, Span, excerpt
from pytest_rageval.lib.digests import digest, digest_of_all
from pytest_rageval.lib.foreign_values import id_key

EVALSET: Final = "rageval_evalset"  # the marker

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


STORED_AS: Final = "pytest_rageval.datatypes"  # see calls.STORED_AS
RETRIEVER_CONTEXT: Final = ("history", "filters", "metadata")
"""The fields of an example that a retriever can receive in addition to the question."""


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


class EmptyMapping(dict[str, Any]):
    """An empty mapping that examples and their evidence share: a dict of its own each would double their memory."""

    def __hash__(self) -> int:  # type: ignore[override]  # as the default of a field requires
        return 0

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is shared by all examples that have nothing in it: change a copy of it")

    __setitem__ = setdefault = update = __ior__ = _refuse


EMPTY_MAPPING: Final[Mapping[str, Any]] = EmptyMapping()

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
    tags: Mapping[str, object] = field(default=EMPTY_MAPPING, hash=False)
    extra: Mapping[str, Any] = field(default=EMPTY_MAPPING, hash=False, metadata={NOT_WRITTEN: True})
    history: tuple[Message, ...] = field(default=(), hash=False)
    filters: Mapping[str, object] = field(default=EMPTY_MAPPING, hash=False)
    metadata: Mapping[str, object] = field(default=EMPTY_MAPPING, hash=False)
    nuggets: tuple[Nugget, ...] = ()
    added: Mapping[str, Any] = field(default=EMPTY_MAPPING, hash=False)

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

    @property
    def is_split(self) -> bool:
        """Whether other shards have the other examples."""
        return self.part is not None and self.part.shard not in {"", "1/1"}

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the examples. It does not depend on the order of keys in their records."""
        return digest_of_all(map(_example_as_json, self.examples))


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
