"""Collects the questions of a test for the HTML report: a row for each question, with all its scores.

A row has the values of now and of the baseline. The entries of the report are stored in a spool until they are written.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from math import inf
from typing import Any, Final

from pytest_rageval.lib.spool import Spool
from pytest_rageval.lib.tokenize import COMMON_UNSPACED
from pytest_rageval.reports.build import entry_name
from pytest_rageval.reports.questions import expected_text, score_text

STATES: Final = ("lost", "beyond", "unscored", "", "gained")
"""The states of a question in a score, the worst first.

"lost": it got worse. "beyond": it is beyond a bound. "unscored": it has no score. "": none of these. "gained": it got
better.
"""

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

WORD: Final = re.compile(rf"[{COMMON_UNSPACED}]|[^\W{COMMON_UNSPACED}]+")
"""A word; in a script without spaces, a character."""

MIN_MARKED_LENGTH: Final = 4  # minimum length of a marked word; shorter words are mostly function words


@dataclass(frozen=True)
class ScoreCell:
    """A score of a question.

    Attributes:
        name: name of the score.
        spool: where the example is stored.
        place: place of the example in the spool.
        state: the worst state of the question in this score, one of `STATES`.
    """

    name: str
    spool: Spool
    place: int
    state: str

    @property
    def example(self) -> Mapping[str, Any]:
        """The example of the question in the score's entry, with its values of the baseline."""
        example: Mapping[str, Any] = self.spool.get(self.place)
        return example

    @property
    def text(self) -> str:
        """The score as text, such as "1.00 → 0.00"; without a score, the reason: "unscored", for example."""
        now, before = self.example.get("score"), self.example.get("before")
        if now is None:
            return (
                "not asked" if self.example.get("early_stop") == "not asked" else _missing_text(self.example)
            )
        then = f"{score_text(before)} → " if before is not None and before != now else ""
        return f"{then}{score_text(now)}"


@dataclass(frozen=True)
class Field:
    """A field below a question.

    Attributes:
        name: name of the field.
        text: value of the field.
        scores: names of the scores that the value belongs to; empty if all scores have this value.
    """

    name: str
    text: str
    scores: str = ""


@dataclass(frozen=True)
class Passage:
    """A retrieved passage.

    Attributes:
        document: label of the passage.
        text: text of the passage; None if unknown.
        gold: True for a gold passage.
        rank_before: rank in the baseline; None if the passage was not retrieved, or the baseline's ranking is unknown.
        label: relevance or usefulness of the passage; None if it has no label.
        answer_alone: answer that was generated from this passage alone; empty if there is none.
        parts: the text in pieces, each with True if the answer contains the piece, see `mark_answer_words`.
    """

    document: str
    text: str | None = None
    gold: bool = False
    rank_before: int | None = None
    label: float | None = None
    answer_alone: str = ""
    parts: Sequence[tuple[str, bool]] = ()


@dataclass
class QuestionRow:
    """A question of a test with all its scores.

    Attributes:
        nodeid: node id of the test.
        index: index of the question in the eval set.
        id: id of the question.
        spool: where the entry of the question is stored.
        place: place of the entry in the spool.
        cells: the scores of the question.
        states: the states of the question in all its scores, see `STATES`.
        loss_rank: rank of the question among the questions that got worse, from 1; 0 if it did not get worse.
        bound_side: "below" or "above" for a question beyond a bound, else empty.
    """

    nodeid: str
    index: int
    id: str
    spool: Spool
    place: int
    cells: list[ScoreCell] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    loss_rank: int = 0
    bound_side: str = ""

    @property
    def entry(self) -> Mapping[str, Any]:
        """The entry of the question in the report, without its scores."""
        entry: Mapping[str, Any] = self.spool.get(self.place)
        return entry

    @cached_property
    def anchor(self) -> str:
        """The id of the question in the page. It is the same in every run, and differs between tests."""
        name = f"{self.nodeid}\x00{self.id}"
        return f"q-{sha256(name.encode(errors='replace')).hexdigest()[:12]}"

    @property
    def state(self) -> str:
        """The worst state of the question."""
        return next((state for state in STATES if state in self.states), "")

    @property
    def state_text(self) -> str:
        """The text for the state: "below" or "above" for a question beyond a bound, else the state."""
        return self.bound_side if self.state == "beyond" else self.state

    @property
    def order(self) -> tuple[int, int, float, int]:
        """The sort key, the worst question first: by state, loss, mean score, and order in the eval set."""
        return STATES.index(self.state), self.loss_rank, self.value or 0.0, self.index

    @property
    def value(self) -> float | None:
        """The mean over the scores of the question; None without scores."""
        scores = [cell.example["score"] for cell in self.cells if cell.example.get("score") is not None]
        return sum(scores) / len(scores) if scores else None

    def cell(self, name: str) -> ScoreCell | None:
        """Return the score with this name; None if the score is over a slice that does not contain the question."""
        return next((cell for cell in self.cells if cell.name == name), None)

    @cached_property
    def tags(self) -> list[tuple[str, str]]:
        """The tags of the question as pairs of name and value; a tag with several values has a pair for each value."""
        return [
            (name, value) for name, values in self.entry.get("tags", {}).items() for value in _values(values)
        ]

    def example_values(self, key: str) -> list[str]:
        """Return the different values of a key in the examples of the question."""
        return list(dict.fromkeys(str(cell.example[key]) for cell in self.cells if cell.example.get(key)))

    @property
    def gold(self) -> list[tuple[str, str]]:
        """The gold passages, each with its rank as text: "rank 14", "not retrieved", or empty if unknown."""
        ranks = self.entry.get("gold_ranks", {})
        return [
            (label, _rank_text(ranks[label]) if label in ranks else "")
            for label in self.entry.get("gold", ())
        ]

    @property
    def before(self) -> list[tuple[str, bool]]:
        """The ranking in the baseline, each label with True if it is gold; empty if the ranking is the same now."""
        rankings = (cell.example.get("before_retrieved", ()) for cell in self.cells)
        gold = set(self.entry.get("gold", ()))
        return [(label, label in gold) for label in max(rankings, key=len, default=())]

    @property
    def k(self) -> int | None:
        """The largest number of passages that an answer was generated from; None without an answer."""
        cut_offs = [
            cell.example["k"]
            for cell in self.cells
            if "k" in cell.example and cell.example.get("answer") is not None
        ]
        return max(cut_offs, default=None)

    @property
    def fields(self) -> Iterator[Field]:
        """Yield the fields that have a value: history, filters, fields of the scores, references, other rankings."""
        if history := self.entry.get("history"):
            yield Field("after", " / ".join(history))
        if filters := self.entry.get("filters"):
            yield Field("filters", ", ".join(f"{name} = {value}" for name, value in filters.items()))
        for key, name in FIELDS.items():
            scores_by_text: dict[tuple[str, str], list[str]] = {}
            for cell in self.cells:
                value = cell.example.get(key)
                if value or (key == "answer" and value is not None):
                    text = expected_text(value) if key == "expected" else str(value)
                    label = value["as"] if key == "expected" else name
                    scores_by_text.setdefault((label, text), []).append(cell.name)
            several = len(scores_by_text) > 1
            yield from (
                Field(label, text, ", ".join(scores) if several else "")
                for (label, text), scores in scores_by_text.items()
            )
        if not any("expected" in cell.example for cell in self.cells) and (
            references := self.entry.get("references")
        ):
            yield Field("reference", " + ".join(" | ".join(aliases) for aliases in references))
        if reference := self.entry.get("reference"):
            yield Field("long reference", reference)
        for cell in self.cells:
            # Some retrievers return another ranking for another k, and not a part of the longest ranking.
            if "retrieved" in cell.example:
                yield Field("retrieved", ", ".join(cell.example["retrieved"]) or "(nothing)", cell.name)

    @property
    def passages(self) -> list[Passage]:
        """The longest ranking of the question.

        Words of the answers are marked in the first k passages, which the answers were generated from.
        """
        max_marked = inf if self.k is None else self.k
        retrieved = self.entry.get("retrieved", ())
        ranks_before = {label: rank for rank, (label, _) in enumerate(self.before, 1)}
        labels = next((cell.example["labels"] for cell in self.cells if cell.example.get("labels")), ())
        alone = next((cell.example["alone"] for cell in self.cells if cell.example.get("alone")), ())
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


def question_rows(test: Mapping[str, Any]) -> list[QuestionRow]:
    """Return the questions of a test, the worst first.

    The tests of reports by earlier versions have no key `questions`. Then the questions are the examples of the scores,
    with the details of the questions that explain a verdict.
    """
    # The entries are stored in a spool: the page shows few of them in full.
    spool = Spool()
    rows = {
        entry["id"]: QuestionRow(test["nodeid"], index, str(entry["id"]), spool, spool.put(entry))
        for index, entry in enumerate(_question_entries(test))
    }
    losses = 0
    for name, entries in _group_by_name(test["scores"]).items():
        places: dict[str, int] = {}
        unscored = set()
        states: dict[str, set[str]] = {}
        for entry in entries:
            listed = _listed_by_id(entry)
            for example in entry["examples"]:
                question_id = example["id"]
                details = _example_details(listed[question_id]) if question_id in listed else {}
                known = {key: value for key, value in example.items() if key == "score" or value is not None}
                # Of several thresholds on one score, only some may compare it with a baseline. Their examples are
                # merged, and the first entry has precedence.
                first = spool.get(places[question_id]) if question_id in places else {}
                merged = details | known | first
                places[question_id] = spool.put(merged)
                if merged.get("unscored") is not None:
                    unscored.add(question_id)
            for state, ids in _states(entry):
                for question_id in ids:
                    states.setdefault(question_id, set()).add(state)
                    if state == "beyond" and question_id in rows:
                        rows[question_id].bound_side = entry["questions"]["why"]
                    if state == "lost" and question_id in rows and not rows[question_id].loss_rank:
                        losses += 1
                        rows[question_id].loss_rank = losses
        for question_id, place in places.items():
            cell_states = states.get(question_id, set()) | (
                {"unscored"} if question_id in unscored else set()
            )
            rows[question_id].states |= cell_states
            worst_state = next((state for state in STATES if state in cell_states), "")
            rows[question_id].cells.append(ScoreCell(name, spool, place, worst_state))
    return sorted(rows.values(), key=lambda row: row.order)


def _question_entries(test: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield an entry for each evaluated question, with its id, its text, and further keys if the report has them."""
    known_ids = set()
    for entry in test.get("questions", ()):
        known_ids.add(entry["id"])
        yield entry
    example_ids = (example["id"] for score in test["scores"] for example in score["examples"])
    missing_ids = [question_id for question_id in dict.fromkeys(example_ids) if question_id not in known_ids]
    listed: dict[str, Mapping[str, Any]] = {}
    if missing_ids:
        for score in test["scores"]:
            listed |= _listed_by_id(score)
    for question_id in missing_ids:
        if question_id in listed:
            yield to_evaluated_question(listed[question_id])
        else:
            yield {"id": question_id, "question": ""}


def _listed_by_id(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the questions that explain the verdict on a score, by id."""
    return {question["id"]: question for question in (entry.get("questions") or {}).get("listed", ())}


def to_evaluated_question(question: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a question that explains a verdict (`QuestionEntry`) to the form of `EvaluatedQuestion`."""
    gold = question.get("gold", ())
    kept = {
        name: question[name]
        for name in ("id", "question", "history", "filters", "gold", "steps")
        if name in question
    }
    ranking = [{"document": label, "gold": label in gold} for label in question.get("retrieved", ())]
    return {**kept, **({"retrieved": ranking} if ranking else {})}


def _example_details(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a question that explains a verdict with the keys of an example (`ExampleEntry`)."""
    known = {
        name: question[name]
        for name in ("answer", "expected", "remark", "lost_by", "case")
        if name in question
    }
    before = question.get("before", {})
    passages = question.get("passages", ())
    optional = {
        "explanation": question.get("judge"),
        "before": before.get("score"),
        "before_retrieved": before.get("retrieved")
        if before.get("retrieved") != question.get("retrieved")
        else None,
        "before_answer": before.get("answer") if before.get("answer") != question.get("answer") else None,
        "alone": [passage.get("answer", "") for passage in passages],
    }
    return known | {name: value for name, value in optional.items() if value is not None}


def _group_by_name(scores: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the entries with examples by the name of the score.

    The entries of slices have no column of their own: their examples have the same scores as in the whole eval set.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
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


def mark_answer_words(passage: str, answer: str, question: str) -> list[tuple[str, bool]]:
    """Return the text of a passage in pieces, each with True if the answer probably took it from the passage.

    A word is marked if it is in the answer and not in the question, and has at least four letters or a digit. Words
    between two marked words are marked if they all are in the answer. In scripts without spaces, pairs of characters
    take the place of words.

    >>> mark_answer_words("Parcels arrive within 5 days.", "It takes 5 days.", "When do parcels arrive?")
    [('Parcels arrive within ', False), ('5 days', True), ('.', False)]
    """
    answer_words, question_words = _words(answer), _words(question)
    new_words = answer_words - question_words
    if not new_words:
        return [(passage, False)]
    matches = list(WORD.finditer(passage))
    words = [match[0].casefold() for match in matches]
    marked = [
        word in new_words and (len(word) >= MIN_MARKED_LENGTH or any(map(str.isdigit, word)))
        for word in words
    ]
    for index in range(len(words) - 1):
        # Only pairs of characters count: "foot" and "ball" do not match "football".
        if words[index] + words[index + 1] in new_words and len(words[index]) == len(words[index + 1]) == 1:
            marked[index] = marked[index + 1] = True
    last_marked = None
    for index, is_marked in enumerate(marked):
        if is_marked:
            if last_marked is not None and all(
                word in answer_words for word in words[last_marked + 1 : index]
            ):
                marked[last_marked:index] = [True] * (index - last_marked)
            last_marked = index
        elif words[index] not in answer_words:
            last_marked = None
    return list(_split(passage, [match.span() for match in matches], marked))


def _words(text: str) -> set[str]:
    """Return the words of a text, and the pairs of neighbouring one-character words, as in scripts without spaces."""
    words = [word.casefold() for word in WORD.findall(text)]
    pairs = (a + b for a, b in pairwise(words) if len(a) == len(b) == 1)
    return {*words, *pairs}


def _split(text: str, spans: Sequence[tuple[int, int]], marked: Sequence[bool]) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, split where runs of marked words begin and end."""
    end = 0
    index = 0
    while index < len(spans):
        if not marked[index]:
            index += 1
            continue
        first = index
        while index + 1 < len(spans) and marked[index + 1]:
            index += 1
        start, stop = spans[first][0], spans[index][1]
        if start > end:
            yield text[end:start], False
        yield text[start:stop], True
        end = stop
        index += 1
    if end < len(text):
        yield text[end:], False


def _missing_text(example: Mapping[str, Any]) -> str:
    return "unscored" if example.get("unscored") is not None else "undefined"


def _rank_text(rank: int | None) -> str:
    return "not retrieved" if rank is None else f"rank {rank}"


def _values(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
