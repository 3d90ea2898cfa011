"""Collects the questions of a run for the HTML report: a row for each question of an eval set, a column for each score.

A row has the values of now and of the baseline. The entries of the report are read again for each question that the
page shows, since their texts may be in a spool.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from pytest_rageval.reports.build import entry_name
from pytest_rageval.reports.document import (
    EvaluatedQuestion,
    ExampleEntry,
    QuestionEntry,
    ScoreEntry,
    TestEntry,
)
from pytest_rageval.reports.questions import NOTHING, change_of_score_text, expected_text

STATES: Final = ("lost", "beyond", "unscored", "", "gained")
"""The states of a question in a score, the worst first.

"lost": it got worse. "beyond": it is beyond a bound. "unscored": it has no score. "": none of these. "gained": it got
better.
"""

MAX_GROUPS: Final = 20  # a tag with more values does not group the questions

NOT_LISTED: Final[QuestionEntry] = {"id": ""}


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


def anchor_of(test: TestEntry) -> str:
    """Return the id of a test in the page, which is the same in every run."""
    return f"t-{short_digest(test['nodeid'])}"


def short_digest(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()[:12]


def worst_state(states: Collection[str]) -> str:
    return next((state for state in STATES if state in states), "")


@dataclass(eq=False)
class Column:
    """A score of the questions of an eval set. Tests that gave all questions the same scores share it."""

    score: str
    index: int
    tests: list[TestEntry]  # the most urgent first
    entries: list[ScoreEntry]
    name: str = ""


class Source(NamedTuple):
    """Where the example of a score is in a report, and the question that its entry lists, or `NOT_LISTED`."""

    examples: Sequence[ExampleEntry]
    at: int
    listed: QuestionEntry

    def read(self) -> dict[str, Any]:
        example = self.examples[self.at].items()
        return _before(self.listed) | {
            key: each for key, each in example if key == "score" or each is not None
        }


@dataclass(slots=True, eq=False)
class ScoreCell:
    """A score of a question. `before` is its score in the baseline; `state` is the worst of `STATES` in this score.

    Of several thresholds on one score, only some may compare it with a baseline. Their examples are merged, and the
    first source has precedence.
    """

    now: float | None
    before: float | None
    sources: tuple[Source, ...]
    state: str = ""

    def add(self, before: float | None, sources: tuple[Source, ...]) -> None:
        self.before = before if self.before is None else self.before
        self.sources += sources

    @property
    def look(self) -> str:
        """The class of the cell: its state, else "same" if its score is that of the baseline, else empty."""
        return self.state or ("same" if self.before is not None and self.before == self.now else "")

    @property
    def example(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for source in self.sources:
            merged = source.read() | merged
        return merged

    @property
    def text(self) -> str:
        """The score as text, such as "1 → 0"; without a score, the reason: "unscored", for example."""
        if self.now is None:
            example = self.example
            if example.get("early_stop") == "not asked":
                return "not asked"
            return "unscored" if example.get("unscored") is not None else "undefined"
        return change_of_score_text(self.before, self.now)


@dataclass(slots=True, eq=False)
class Variant:
    """What tests with the same retriever got for a question: the longest of their rankings, and their scores.

    The question's entry is that at `index` in `entries`. `cells` are by the index of their columns.
    """

    entries: Sequence[EvaluatedQuestion]
    index: int
    tests: list[TestEntry]
    cells: dict[int, ScoreCell] = field(default_factory=dict)

    def add_ranking(
        self, entries: Sequence[EvaluatedQuestion], index: int, documents: Sequence[str], test: TestEntry
    ) -> bool:
        """Add what another test got; return False if its ranking is another one, and not only longer or shorter."""
        known = documents_of(self.entries[self.index])
        shared = min(len(documents), len(known))
        if documents[:shared] != known[:shared]:
            return False
        if len(documents) > len(known):
            self.entries, self.index = entries, index
        self.tests.append(test)
        return True


def documents_of(entry: EvaluatedQuestion) -> list[str]:
    return [passage["document"] for passage in entry.get("retrieved", ())]


@dataclass
class Details:
    """What the report has of a variant, read once: the question's entry, and the example of each score by its name."""

    entry: EvaluatedQuestion
    scored: Sequence[tuple[str, Mapping[str, Any]]]
    tests: Sequence[TestEntry]

    @property
    def examples(self) -> list[Mapping[str, Any]]:
        return [example for _, example in self.scored]

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
    def fields(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name and the text of each field, and the scores that have this value; empty if all have."""
        if history := self.entry.get("history"):
            yield "after", " / ".join(history), ""
        if filters := self.entry.get("filters"):
            yield "filters", ", ".join(f"{name} = {value}" for name, value in filters.items()), ""
        yield from self._score_fields
        if not any("expected" in example for example in self.examples) and (
            references := self.entry.get("references")
        ):
            yield "reference", " + ".join(" | ".join(aliases) for aliases in references), ""
        if reference := self.entry.get("reference"):
            yield "long reference", reference, ""
        for score, example in self.scored:
            # Some retrievers return another ranking for another k, and not a part of the longest ranking.
            if "retrieved" in example:
                yield "retrieved", ", ".join(example["retrieved"]) or NOTHING, score

    @property
    def _score_fields(self) -> Iterator[tuple[str, str, str]]:
        present = FIELDS.keys() & {key for example in self.examples for key in example}
        for key, name in FIELDS.items() if present else ():
            scores_by_text: dict[tuple[str, str], list[str]] = {}
            for score, example in self.scored:
                value = example.get(key)
                if value or (key == "answer" and value is not None):
                    text = expected_text(value) if key == "expected" else str(value)
                    label = value["as"] if key == "expected" else name
                    scores_by_text.setdefault((label, text), []).append(score)
            several = len(scores_by_text) > 1
            for (label, text), scores in scores_by_text.items():
                yield label, text, ", ".join(scores) if several else ""


@dataclass(slots=True, eq=False)
class QuestionRow:
    """A question of an eval set with all its scores."""

    evalset: str  # without one, the node id of the test
    index: int
    id: str
    tags: Sequence[tuple[str, str]] = ()  # a pair for each value
    variants: list[Variant] = field(default_factory=list)
    states: frozenset[str] = frozenset()
    bound_side: str = ""  # "below" or "above" if it is beyond a bound

    @property
    def cells(self) -> Mapping[int, ScoreCell]:
        """The scores by the index of their column. A score over a slice without the question has none."""
        if len(self.variants) == 1:
            return self.variants[0].cells
        return {index: cell for variant in self.variants for index, cell in variant.cells.items()}

    def read(self, columns: Sequence[Column]) -> list[Details]:
        return [
            Details(
                each.entries[each.index],
                [(columns[index].name, cell.example) for index, cell in each.cells.items()],
                each.tests,
            )
            for each in self.variants
        ]

    @property
    def anchor(self) -> str:
        """The id of the question in the page. It is the same in every run, and differs between eval sets."""
        return "q-" + short_digest(f"{self.evalset}\x00{self.id}")

    @property
    def state(self) -> str:
        return worst_state(self.states)

    @property
    def order(self) -> tuple[int, float, float, int]:
        """The sort key, the worst question first: by state, loss, mean score, and order in the eval set."""
        cells = self.cells.values()
        lost = [cell for cell in cells if cell.state == "lost"] if "lost" in self.states else ()
        loss = sum(abs((cell.before or 0.0) - (cell.now or 0.0)) for cell in lost)
        return STATES.index(self.state), -loss, self.value or 0.0, self.index

    @property
    def value(self) -> float | None:
        scores = [cell.now for cell in self.cells.values() if cell.now is not None]
        return sum(scores) / len(scores) if scores else None


class QuestionTable:
    """The questions of an eval set, the worst first, and their scores."""

    def __init__(self, evalset: str, tests: Sequence[TestEntry]) -> None:
        self.evalset = evalset
        self.tests = tests
        self.columns: list[Column] = []
        self._rows: dict[str, QuestionRow] = {}
        for test in tests:
            # The variants that have the test's rankings, by id.
            questions = test.get("questions", ())
            variants = {
                str(entry["id"]): self._add_question(questions, at, entry, test)
                for at, entry in enumerate(questions)
            }
            for name, entries in _group_by_name(test["scores"]).items():
                self._add_score(test, name, entries, variants)
        scores = [column.score for column in self.columns]
        for column in self.columns:
            nodeid = column.tests[0]["nodeid"]
            variant = nodeid.partition("[")[2].removesuffix("]") or nodeid.rpartition("::")[2]
            column.name = f"{column.score} {variant}" if scores.count(column.score) > 1 else column.score
        self.rows: list[QuestionRow] = sorted(self._rows.values(), key=attrgetter("order"))

    @classmethod
    def of_tests(cls, tests: Iterable[TestEntry]) -> list[Self]:
        groups: dict[tuple[str, str], list[TestEntry]] = {}
        for test in tests:
            evalset = test.get("evalset") or {}
            key = evalset.get("name", test["nodeid"]), evalset.get("digest", "")
            groups.setdefault(key, []).append(test)
        tables = [cls(name, group) for (name, _), group in groups.items()]
        return [table for table in tables if table.rows]

    def _add_question(
        self, entries: Sequence[EvaluatedQuestion], index: int, entry: EvaluatedQuestion, test: TestEntry
    ) -> Variant:
        name = str(entry["id"])
        if (row := self._rows.get(name)) is None:
            row = self._rows[name] = QuestionRow(self.evalset, len(self._rows), name)
        if not row.tags and (tags := entry.get("tags")):
            row.tags = [(tag, value) for tag, values in tags.items() for value in _values(values)]
        documents = documents_of(entry) if row.variants else []
        known = (each for each in row.variants if each.add_ranking(entries, index, documents, test))
        if (variant := next(known, None)) is None:
            variant = Variant(entries, index, [test])
            row.variants.append(variant)
        return variant

    def _add_score(
        self, test: TestEntry, name: str, entries: Sequence[ScoreEntry], variants: dict[str, Variant]
    ) -> None:
        cells, states = _cells(entries)
        column = self._column(test, name, entries, cells)
        for question, cell in cells.items():
            if (variant := variants.get(question)) is None:
                # Of a question that early stop did not ask, only the id is known.
                unknown: EvaluatedQuestion = {"id": question, "question": ""}
                variant = variants[question] = self._add_question([unknown], 0, unknown, test)
            row = self._rows[question]
            if own := states.get(question):
                cell.state = worst_state(own)
                row.states |= own
            if (known := self._known(question, column)) is None:
                variant.cells[column.index] = cell
            else:
                known.add(cell.before, cell.sources)
                known.state = worst_state({known.state, cell.state})
        for questions in filter(None, (entry.get("questions") for entry in entries)):
            for listed in questions["listed"] if questions["why"] != "worse" else ():
                self._rows[listed["id"]].bound_side = questions["why"]

    def _column(
        self, test: TestEntry, score: str, entries: Sequence[ScoreEntry], cells: Mapping[str, ScoreCell]
    ) -> Column:
        """Return the column of a score: that of another test if the score has the same values there."""
        for column in self.columns:
            if column.score == score and all(
                (known := self._known(name, column)) is None or known.now == cell.now
                for name, cell in cells.items()
            ):
                column.tests.append(test)
                column.entries += entries
                return column
        self.columns.append(Column(score, len(self.columns), [test], [*entries]))
        return self.columns[-1]

    def _known(self, question: str, column: Column) -> ScoreCell | None:
        row = self._rows.get(question)
        return None if row is None else row.cells.get(column.index)

    @cached_property
    def values_by_tag(self) -> dict[str, set[str]]:
        values: dict[str, set[str]] = {}
        for row in self.rows:
            for tag, value in row.tags:
                values.setdefault(tag, set()).add(value)
        return values

    @cached_property
    def tag(self) -> str:
        """The tag that groups the questions: "topic", else the first with few values, one a question; may be empty."""
        most = min(MAX_GROUPS, len(self.rows) - 1)
        several = {tag for row in self.rows for tag, value in row.tags if dict(row.tags)[tag] != value}
        fitting = [
            tag
            for tag, values in self.values_by_tag.items()
            if 1 < len(values) <= most and tag not in several
        ]
        return "topic" if "topic" in fitting else next(iter(fitting), "")

    @cached_property
    def groups(self) -> list[tuple[str, list[QuestionRow]]]:
        """The questions by their value of `tag`, the group with the most lost questions first."""
        groups: dict[str, list[QuestionRow]] = {}
        for row in self.rows:
            groups.setdefault(dict(row.tags).get(self.tag, ""), []).append(row)
        return sorted(groups.items(), key=lambda item: -sum("lost" in row.states for row in item[1]))


def _cells(entries: Iterable[ScoreEntry]) -> tuple[dict[str, ScoreCell], dict[str, set[str]]]:
    """Return the cells of a score by the id of the question, and the states of the questions that have one."""
    cells: dict[str, ScoreCell] = {}
    states: dict[str, set[str]] = {}
    for entry in entries:
        listed = {each["id"]: each for each in entry.get("questions", {}).get("listed", ())}
        examples = entry["examples"]
        for index, each in enumerate(examples):
            id_, before = each["id"], each.get("before")
            question = listed.get(id_, NOT_LISTED)
            before = _before(question).get("before") if before is None else before
            if (cell := cells.get(id_)) is None:
                cells[id_] = ScoreCell(each["score"], before, (Source(examples, index, question),))
            else:
                cell.add(before, (Source(examples, index, question),))
            if each.get("unscored") is not None:
                states.setdefault(id_, set()).add("unscored")
        for state, ids in _states(entry):
            for id_ in ids:
                states.setdefault(id_, set()).add(state)
    return cells, states


def _before(question: QuestionEntry) -> dict[str, Any]:
    """Return the values of a question before, with the keys of an example; only these are known of an anchor's."""
    if not (before := question.get("before")):
        return {}
    kept = {key: before[key] for key in ("retrieved", "answer") if key in before}
    changed = {f"before_{key}": value for key, value in kept.items() if value != question.get(key)}
    return {**changed, "before": before["score"]}


def _group_by_name(scores: Iterable[ScoreEntry]) -> dict[str, list[ScoreEntry]]:
    """Return the entries with examples by the name of the score.

    The entries of slices have no column of their own: their examples have the same scores as in the whole eval set.
    """
    groups: dict[str, list[ScoreEntry]] = {}
    for entry in scores:
        if entry["examples"]:
            groups.setdefault(entry_name(entry), []).append(entry)
    return groups


def _states(entry: ScoreEntry) -> Iterator[tuple[str, Sequence[str]]]:
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
