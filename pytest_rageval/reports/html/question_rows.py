"""Collects the questions of a run for the HTML report: a row for each question of an eval set, a column for each score.

A row has the values of now and of the baseline. The entries of the report are stored in a spool until they are written.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import inf
from typing import Any, Final, Self

from pytest_rageval.core.document import ScoreEntry
from pytest_rageval.lib.spool import Spool
from pytest_rageval.reports.build import entry_name
from pytest_rageval.reports.html.answer_words import mark_answer_words
from pytest_rageval.reports.questions import expected_text, score_text

STATES: Final = ("lost", "beyond", "unscored", "", "gained")
"""The states of a question in a score, the worst first.

"lost": it got worse. "beyond": it is beyond a bound. "unscored": it has no score. "": none of these. "gained": it got
better.
"""

MAX_GROUPS: Final = 20  # a tag with more values does not group the questions


FIELDS: Final[Mapping[str, str]] = {
    "unscored": "unscored",
    "undefined": "undefined",
    "before_answer": "answer before",
    "answer": "answer",
    "expected": "expected",
    "explanation": "judge",
    "remark": "why",
    "lost_by": "lost by",
    "case": "case",
}
"""The fields of a question in a score: the key of the example, and the name of the field."""


def anchor_of(test: Mapping[str, Any]) -> str:
    """Return the id of a test in the page, which is the same in every run."""
    return f"t-{short_digest(test['nodeid'])}"


def short_digest(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()[:12]


def worst_state(states: Collection[str]) -> str:
    return next((state for state in STATES if state in states), "")


@dataclass(frozen=True)
class ScoreCell:
    """A score of a question. `before` is its score in the baseline; `state` is the worst of `STATES` in this score."""

    column: "Column"
    spool: Spool
    place: int
    state: str
    now: float | None
    before: float | None

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def look(self) -> str:
        """The class of the cell: its state, else "same" if its score is that of the baseline, else empty."""
        return self.state or ("same" if self.before is not None and self.before == self.now else "")

    @property
    def example(self) -> Mapping[str, Any]:
        example: Mapping[str, Any] = self.spool.get(self.place)
        return example

    @property
    def text(self) -> str:
        """The score as text, such as "1 → 0"; without a score, the reason: "unscored", for example."""
        if self.now is None:
            example = self.example
            if example.get("early_stop") == "not asked":
                return "not asked"
            return "unscored" if example.get("unscored") is not None else "undefined"
        values = [self.now] if self.before in {None, self.now} else [self.before, self.now]
        return " → ".join(score_text(value).removesuffix(".00") for value in values)


@dataclass(eq=False)
class Column:
    """A score of the questions of an eval set. Tests that gave all questions the same scores share it."""

    score: str
    tests: list[Mapping[str, Any]]  # the most urgent first
    entries: list[ScoreEntry]
    values: Mapping[str, float | None]
    name: str = ""


@dataclass(frozen=True)
class Field:
    """A field below a question."""

    name: str
    text: str
    scores: str = ""  # that have this value; empty if all have


@dataclass(frozen=True)
class Passage:
    """A retrieved passage."""

    document: str
    text: str | None = None
    gold: bool = False
    rank_before: int | None = None  # None if it was not retrieved, or the ranking is unknown
    label: float | None = None  # its relevance or usefulness
    answer_alone: str = ""  # generated from this passage alone
    parts: Sequence[tuple[str, bool]] = ()  # see `mark_answer_words`


@dataclass
class Variant:
    """What tests with the same retriever got for a question: the longest of their rankings, and their scores.

    `documents` are the labels of the ranking. The question's entry is that at `index` in `entries`, which may be stored
    in a spool.
    """

    entries: Sequence[Mapping[str, Any]]
    index: int
    documents: Sequence[str]
    tests: list[Mapping[str, Any]]
    cells: list[ScoreCell] = field(default_factory=list)

    def add_ranking(
        self,
        entries: Sequence[Mapping[str, Any]],
        index: int,
        documents: Sequence[str],
        test: Mapping[str, Any],
    ) -> bool:
        """Add what another test got; return False if its ranking is another one, and not only longer or shorter."""
        shared = min(len(documents), len(self.documents))
        if documents[:shared] != self.documents[:shared]:
            return False
        if len(documents) > len(self.documents):
            self.entries, self.index, self.documents = entries, index, documents
        self.tests.append(test)
        return True

    def read(self) -> "Details":
        return Details(
            self.entries[self.index],
            [(cell, cell.example) for cell in self.cells],
            self.documents,
            self.tests,
        )


@dataclass
class Details:
    """What is stored of a variant, read once: the question's entry, and each score with its example."""

    entry: Mapping[str, Any]
    scored: Sequence[tuple[ScoreCell, Mapping[str, Any]]]
    documents: Sequence[str]
    tests: Sequence[Mapping[str, Any]]

    @property
    def examples(self) -> list[Mapping[str, Any]]:
        return [example for _, example in self.scored]

    @property
    def test_anchors(self) -> str:
        return " ".join(map(anchor_of, self.tests))

    def example_values(self, key: str) -> list[str]:
        return list(dict.fromkeys(str(example[key]) for _, example in self.scored if example.get(key)))

    @property
    def gold(self) -> list[tuple[str, str]]:
        """The gold passages, each with its rank as text: "rank 14", "not retrieved", or empty if unknown."""
        ranks = self.entry.get("gold_ranks", {})
        return [
            (label, _rank_text(ranks[label]) if label in ranks else "")
            for label in self.entry.get("gold", ())
        ]

    @cached_property
    def before(self) -> list[tuple[str, bool]]:
        """The ranking in the baseline, each label with True if it is gold; empty if the ranking is the same now."""
        rankings = [example.get("before_retrieved", ()) for _, example in self.scored]
        gold = set(self.entry.get("gold", ()))
        return [(label, label in gold) for label in max(rankings, key=len, default=())]

    @cached_property
    def k(self) -> int | None:
        """The largest number of passages that an answer was generated from; None without an answer."""
        cut_offs = [
            example["k"] for example in self.examples if "k" in example and example.get("answer") is not None
        ]
        return max(cut_offs, default=None)

    @property
    def fields(self) -> Iterator[Field]:
        if history := self.entry.get("history"):
            yield Field("after", " / ".join(history))
        if filters := self.entry.get("filters"):
            yield Field("filters", ", ".join(f"{name} = {value}" for name, value in filters.items()))
        for key, name in FIELDS.items():
            scores_by_text: dict[tuple[str, str], list[str]] = {}
            for cell, example in self.scored:
                value = example.get(key)
                if value or (key == "answer" and value is not None):
                    text = expected_text(value) if key == "expected" else str(value)
                    label = value["as"] if key == "expected" else name
                    scores_by_text.setdefault((label, text), []).append(cell.name)
            several = len(scores_by_text) > 1
            yield from (
                Field(label, text, ", ".join(scores) if several else "")
                for (label, text), scores in scores_by_text.items()
            )
        if not any("expected" in example for example in self.examples) and (
            references := self.entry.get("references")
        ):
            yield Field("reference", " + ".join(" | ".join(aliases) for aliases in references))
        if reference := self.entry.get("reference"):
            yield Field("long reference", reference)
        for cell, example in self.scored:
            # Some retrievers return another ranking for another k, and not a part of the longest ranking.
            if "retrieved" in example:
                yield Field("retrieved", ", ".join(example["retrieved"]) or "(nothing)", cell.name)

    @property
    def passages(self) -> list[Passage]:
        """The longest ranking of the question.

        Words of the answers are marked in the first k passages, which the answers were generated from.
        """
        max_marked = inf if self.k is None else self.k
        retrieved = self.entry.get("retrieved", ())
        ranks_before = {label: rank for rank, (label, _) in enumerate(self.before, 1)}
        labels = next((example["labels"] for example in self.examples if example.get("labels")), ())
        alone = next((example["alone"] for example in self.examples if example.get("alone")), ())
        answers = " ".join(self.example_values("answer"))
        return [
            Passage(
                document=passage["document"],
                text=passage.get("text"),
                gold=bool(passage.get("gold")),
                rank_before=ranks_before.get(passage["document"]),
                label=labels[index] if index < len(labels) else None,
                answer_alone=alone[index] if index < len(alone) else "",
                parts=mark_answer_words(
                    passage.get("text") or "", answers if index < max_marked else "", self.entry["question"]
                ),
            )
            for index, passage in enumerate(retrieved)
        ]


@dataclass
class QuestionRow:
    """A question of an eval set with all its scores."""

    evalset: str  # without one, the node id of the test
    index: int
    id: str
    tags: list[tuple[str, str]] = field(default_factory=list)  # a pair for each value
    variants: list[Variant] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    bound_side: str = ""  # "below" or "above" if it is beyond a bound

    @property
    def cells(self) -> Iterator[ScoreCell]:
        for variant in self.variants:
            yield from variant.cells

    @cached_property
    def anchor(self) -> str:
        """The id of the question in the page. It is the same in every run, and differs between eval sets."""
        return "q-" + short_digest(f"{self.evalset}\x00{self.id}")

    @property
    def state(self) -> str:
        return worst_state(self.states)

    @property
    def state_text(self) -> str:
        return self.bound_side if self.state == "beyond" else self.state

    @property
    def loss(self) -> float:
        return sum(
            abs((cell.before or 0.0) - (cell.now or 0.0)) for cell in self.cells if cell.state == "lost"
        )

    @cached_property
    def order(self) -> tuple[int, float, float, int]:
        """The sort key, the worst question first: by state, loss, mean score, and order in the eval set."""
        return STATES.index(self.state), -self.loss, self.value or 0.0, self.index

    @property
    def value(self) -> float | None:
        scores = [cell.now for cell in self.cells if cell.now is not None]
        return sum(scores) / len(scores) if scores else None

    def cell(self, column: Column) -> ScoreCell | None:
        """Return the score of a column; None if the score is over a slice that does not contain the question."""
        return next((cell for cell in self.cells if cell.column is column), None)


class QuestionTable:
    """The questions of an eval set, the worst first, and their scores."""

    def __init__(self, evalset: str, tests: Sequence[Mapping[str, Any]]) -> None:
        self.evalset = evalset
        self.tests = tests
        # The examples are stored in a spool: the page shows few of them in full.
        self._spool = Spool()
        self.columns: list[Column] = []
        self._rows: dict[str, QuestionRow] = {}
        for test in tests:
            variants = self._add_questions(test)
            for name, entries in _group_by_name(test["scores"]).items():
                self._add_score(test, name, entries, variants)
        self._name_columns()
        self.rows: list[QuestionRow] = sorted(self._rows.values(), key=lambda row: row.order)

    @classmethod
    def of_tests(cls, tests: Iterable[Mapping[str, Any]]) -> list[Self]:
        groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for test in tests:
            evalset = test.get("evalset") or {}
            key = evalset.get("name", test["nodeid"]), evalset.get("digest", "")
            groups.setdefault(key, []).append(test)
        tables = [cls(name, group) for (name, _), group in groups.items()]
        return [table for table in tables if table.rows]

    def _add_questions(self, test: Mapping[str, Any]) -> dict[str, Variant]:
        """Add the questions of a test; return the variants that have the test's rankings, by id."""
        entries = test.get("questions", ())
        return {str(entry["id"]): self._add_question(entries, at, test) for at, entry in enumerate(entries)}

    def _add_question(
        self, entries: Sequence[Mapping[str, Any]], index: int, test: Mapping[str, Any]
    ) -> Variant:
        entry = entries[index]
        name = str(entry["id"])
        row = self._rows.setdefault(name, QuestionRow(self.evalset, len(self._rows), name))
        documents = [passage["document"] for passage in entry.get("retrieved", ())]
        row.tags = row.tags or [
            (tag, value) for tag, values in entry.get("tags", {}).items() for value in _values(values)
        ]
        known = (each for each in row.variants if each.add_ranking(entries, index, documents, test))
        if (variant := next(known, None)) is None:
            variant = Variant(entries, index, documents, [test])
            row.variants.append(variant)
        return variant

    def _add_score(
        self,
        test: Mapping[str, Any],
        name: str,
        entries: Sequence[ScoreEntry],
        variants: dict[str, Variant],
    ) -> None:
        examples, states = _merged_examples(entries)
        column = self._column(test, name, entries, {key: each["score"] for key, each in examples.items()})
        for question, example in examples.items():
            if question not in variants:
                # Of a question that early stop did not ask, only the id is known.
                variants[question] = self._add_question([{"id": question, "question": ""}], 0, test)
            row, own, variant = self._rows[question], states.get(question, set()), variants[question]
            row.states |= own
            if (old := row.cell(column)) is not None:
                example.update(old.example)
                own |= {old.state}
                variant = next(each for each in row.variants if old in each.cells)
                variant.cells.remove(old)
            place, state = self._spool.put(example), worst_state(own)
            variant.cells.append(
                ScoreCell(column, self._spool, place, state, example["score"], example.get("before"))
            )
        for questions in filter(None, (entry.get("questions") for entry in entries)):
            for listed in questions["listed"] if questions["why"] != "worse" else ():
                self._rows[listed["id"]].bound_side = questions["why"]

    def _column(
        self,
        test: Mapping[str, Any],
        score: str,
        entries: Sequence[ScoreEntry],
        values: Mapping[str, float | None],
    ) -> Column:
        """Return the column of a score: that of another test if the score has the same values there."""
        for column in self.columns:
            if column.score == score and all(
                column.values.get(name, value) == value for name, value in values.items()
            ):
                column.tests.append(test)
                column.entries += entries
                column.values = {**column.values, **values}
                return column
        column = Column(score, [test], [*entries], values)
        self.columns.append(column)
        return column

    @cached_property
    def tag(self) -> str:
        """The tag that groups the questions: "topic", else the first with few values, one a question; may be empty."""
        values: dict[str, dict[str, set[str]]] = {}
        for row in self.rows:
            for tag, value in row.tags:
                values.setdefault(tag, {}).setdefault(row.id, set()).add(value)
        fitting = [
            tag
            for tag, by_row in values.items()
            if all(len(each) == 1 for each in by_row.values())
            and 1 < len(set().union(*by_row.values())) <= min(MAX_GROUPS, len(self.rows) - 1)
        ]
        return "topic" if "topic" in fitting else next(iter(fitting), "")

    @cached_property
    def groups(self) -> list[tuple[str, list[QuestionRow]]]:
        """The questions by their value of `tag`, the group with the most lost questions first."""
        groups: dict[str, list[QuestionRow]] = {}
        for row in self.rows:
            groups.setdefault(dict(row.tags).get(self.tag, ""), []).append(row)
        return sorted(groups.items(), key=lambda item: -sum("lost" in row.states for row in item[1]))

    def _name_columns(self) -> None:
        scores = [column.score for column in self.columns]
        for column in self.columns:
            nodeid = column.tests[0]["nodeid"]
            variant = nodeid.partition("[")[2].removesuffix("]") or nodeid.rpartition("::")[2]
            column.name = f"{column.score} {variant}" if scores.count(column.score) > 1 else column.score


def _merged_examples(entries: Iterable[ScoreEntry]) -> tuple[dict[str, dict[str, Any]], dict[str, set[str]]]:
    """Return the examples of the entries of a score by id, and the states of the questions that have one."""
    examples: dict[str, dict[str, Any]] = {}
    states: dict[str, set[str]] = {}
    for entry in entries:
        listed = {each["id"]: each for each in entry.get("questions", {}).get("listed", ())}
        for each in entry["examples"]:
            id_ = each["id"]
            known = _before(listed.get(id_, {})) | {
                key: value for key, value in each.items() if key == "score" or value is not None
            }
            # Of several thresholds on one score, only some may compare it with a baseline. Their examples are merged,
            # and the first entry has precedence.
            examples[id_] = known | examples.get(id_, {})
            if examples[id_].get("unscored") is not None:
                states.setdefault(id_, set()).add("unscored")
        for state, ids in _states(entry):
            for id_ in ids:
                states.setdefault(id_, set()).add(state)
    return examples, states


def _before(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a question before, with the keys of an example; only these are known of an anchor's."""
    before = question.get("before", {})
    kept = {key: before[key] for key in ("retrieved", "answer") if key in before}
    changed = {f"before_{key}": value for key, value in kept.items() if value != question.get(key)}
    return {**changed, "before": before["score"]} if before else {}


def _group_by_name(scores: Iterable[ScoreEntry]) -> dict[str, list[ScoreEntry]]:
    """Return the entries with examples by the name of the score.

    The entries of slices have no column of their own: their examples have the same scores as in the whole eval set.
    """
    groups: dict[str, list[ScoreEntry]] = {}
    for entry in scores:
        if entry["examples"]:
            groups.setdefault(entry_name(entry), []).append(entry)
    return groups


def _states(entry: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield states of questions in a score, each with the ids of the questions in this state."""
    for comparison in (entry.get("baseline"), entry.get("anchor")):
        if comparison:
            yield "lost", [*comparison["worse"], *comparison.get("failed", ())]
            yield "gained", comparison["better"]
    questions = entry.get("questions")
    if questions and questions["why"] != "worse":
        yield "beyond", [question["id"] for question in questions["listed"]]


def _rank_text(rank: int | None) -> str:
    return "not retrieved" if rank is None else f"rank {rank}"


def _values(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
