"""The questions of a test for the HTML report: each once, with all its scores, now and in the baseline."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from math import inf
from typing import Any, Final

from pytest_rageval.reports.questions import expected_text, score_text
from pytest_rageval.reports.results import entry_name
from pytest_rageval.spool import Spool
from pytest_rageval.tokenize import COMMON_UNSPACED

__all__ = ["STATES", "Field", "Passage", "QuestionRow", "ScoreCell", "question_of", "question_rows", "taken"]

STATES: Final = ("lost", "beyond", "unscored", "", "gained")
"""The state of a question, the worst first: it got worse; it is beyond a bound; it is unscored; or it got better."""

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
"""The values of a question in a score, by the key of its example, and the name of the field."""

WORD: Final = re.compile(rf"[{COMMON_UNSPACED}]|[^\W{COMMON_UNSPACED}]+")
"""A word; of a script without spaces, a character."""

TELLING: Final = 4  # letters that a word has which is marked as taken; shorter ones are mostly function words


@dataclass(frozen=True)
class ScoreCell:
    """A score of a question; its example is at a place in a spool."""

    name: str
    spool: Spool
    at: int
    moved: str

    @property
    def example(self) -> Mapping[str, Any]:
        """Its example in the report, with what the baseline had."""
        found: Mapping[str, Any] = self.spool.get(self.at)
        return found

    @property
    def text(self) -> str:
        """Such as "1.00 → 0.00", or why there is no score."""
        now, before = self.example.get("score"), self.example.get("before")
        if now is None:
            return "not asked" if self.example.get("early_stop") == "not asked" else _missing(self.example)
        then = f"{score_text(before)} → " if before is not None and before != now else ""
        return f"{then}{score_text(now)}"


@dataclass(frozen=True)
class Field:
    """A line below a question; `of` names the scores that it holds for, where others have another value."""

    name: str
    text: str
    of: str = ""


@dataclass(frozen=True)
class Passage:
    """A retrieved passage: `parts` are pieces of its text, each with whether the answer contains it."""

    document: str
    text: str | None = None
    gold: bool = False
    before: int | None = None
    label: float | None = None
    alone: str = ""
    parts: Sequence[tuple[str, bool]] = ()


@dataclass
class QuestionRow:
    """A question of a test with all its scores; what else is known of it is at a place in a spool.

    `place` is that in the eval set, and `worst` orders the lost ones.
    """

    nodeid: str
    place: int
    id: str
    spool: Spool
    at: int
    cells: list[ScoreCell] = field(default_factory=list)
    states: set[str] = field(default_factory=set)
    worst: int = 0
    side: str = ""

    @property
    def entry(self) -> Mapping[str, Any]:
        """The entry of the question in the report, without its scores."""
        found: Mapping[str, Any] = self.spool.get(self.at)
        return found

    @cached_property
    def anchor(self) -> str:
        """The id in the page: the same in every run, and of one test alone."""
        name = f"{self.nodeid}\x00{self.id}"
        return f"q-{sha256(name.encode(errors='replace')).hexdigest()[:12]}"

    @property
    def state(self) -> str:
        """The worst of its states."""
        return next((state for state in STATES if state in self.states), "")

    @property
    def word(self) -> str:
        """The word for its state: a question beyond a bound is below or above it."""
        return self.side if self.state == "beyond" else self.state

    @property
    def order(self) -> tuple[int, int, float, int]:
        """The worst first: by state, by loss, by score, then as in the eval set."""
        return STATES.index(self.state), self.worst, self.value or 0.0, self.place

    @property
    def value(self) -> float | None:
        """The mean of its scores."""
        scores = [cell.example["score"] for cell in self.cells if cell.example.get("score") is not None]
        return sum(scores) / len(scores) if scores else None

    def cell(self, name: str) -> ScoreCell | None:
        """A score of it; None where the score is of a slice that it is not in."""
        return next((cell for cell in self.cells if cell.name == name), None)

    @cached_property
    def tags(self) -> list[tuple[str, str]]:
        """Its tags; one with a list of values once for each."""
        return [
            (name, value) for name, values in self.entry.get("tags", {}).items() for value in _values(values)
        ]

    def known(self, key: str) -> list[str]:
        """The different values that its scores have of a key."""
        return list(dict.fromkeys(str(cell.example[key]) for cell in self.cells if cell.example.get(key)))

    @property
    def gold(self) -> list[tuple[str, str]]:
        """The gold passages, each with where it was retrieved, as far as known: "rank 14", "not retrieved"."""
        ranks = self.entry.get("gold_ranks", {})
        return [
            (label, _rank(ranks[label]) if label in ranks else "") for label in self.entry.get("gold", ())
        ]

    @property
    def before(self) -> list[tuple[str, bool]]:
        """The ranking of the baseline, where it was another one: each document with whether it is gold."""
        rankings = (cell.example.get("before_retrieved", ()) for cell in self.cells)
        gold = set(self.entry.get("gold", ()))
        return [(label, label in gold) for label in max(rankings, key=len, default=())]

    @property
    def k(self) -> int | None:
        """The largest number of passages that one of its answers was generated from; None without an answer."""
        seen = [
            cell.example["k"]
            for cell in self.cells
            if "k" in cell.example and cell.example.get("answer") is not None
        ]
        return max(seen, default=None)

    @property
    def fields(self) -> Iterator[Field]:
        """Yield the known fields besides passages: the conversation before, the filters, then those of its scores."""
        if history := self.entry.get("history"):
            yield Field("after", " / ".join(history))
        if filters := self.entry.get("filters"):
            yield Field("filters", ", ".join(f"{name} = {value}" for name, value in filters.items()))
        for key, name in FIELDS.items():
            found: dict[tuple[str, str], list[str]] = {}
            for cell in self.cells:
                value = cell.example.get(key)
                if value or (key == "answer" and value is not None):
                    text = expected_text(value) if key == "expected" else str(value)
                    found.setdefault((value["as"] if key == "expected" else name, text), []).append(cell.name)
            several = len(found) > 1
            yield from (
                Field(label, text, ", ".join(names) if several else "")
                for (label, text), names in found.items()
            )
        if not any("expected" in cell.example for cell in self.cells) and (
            wanted := self.entry.get("references")
        ):
            yield Field("reference", " + ".join(" | ".join(aliases) for aliases in wanted))
        if reference := self.entry.get("reference"):
            yield Field("long reference", reference)
        for cell in self.cells:
            # Some retrievers answer otherwise for another k.
            if "retrieved" in cell.example:
                yield Field("retrieved", ", ".join(cell.example["retrieved"]) or "(nothing)", cell.name)

    @property
    def passages(self) -> list[Passage]:
        """The longest ranking that was retrieved, with texts where they are known.

        What an answer took is marked in those passages that its model was given.
        """
        most = inf if self.k is None else self.k
        retrieved = self.entry.get("retrieved", ())
        before = {label: rank for rank, (label, _) in enumerate(self.before, 1)}
        labels = next((cell.example["labels"] for cell in self.cells if cell.example.get("labels")), ())
        alone = next((cell.example["alone"] for cell in self.cells if cell.example.get("alone")), ())
        answers = " ".join(self.known("answer"))
        return [
            Passage(
                document=each["document"],
                text=each.get("text"),
                gold=bool(each.get("gold")),
                before=before.get(each["document"]),
                label=labels[at] if at < len(labels) else None,
                alone=alone[at] if at < len(alone) else "",
                parts=taken(each.get("text") or "", answers if at < most else "", self.entry["question"]),
            )
            for at, each in enumerate(retrieved)
        ]


def question_rows(test: Mapping[str, Any]) -> list[QuestionRow]:
    """The questions of a test, the worst first.

    Of a report without `questions` in its tests, as of earlier versions, they are those of the examples, with what the
    questions that explain a verdict say.
    """
    # The page shows few of them in full.
    spool = Spool()
    rows = {
        entry["id"]: QuestionRow(test["nodeid"], place, str(entry["id"]), spool, spool.put(entry))
        for place, entry in enumerate(_entries(test))
    }
    worst = 0
    for name, entries in _by_name(test["scores"]).items():
        examples: dict[str, int] = {}
        missing = set()
        states: dict[str, set[str]] = {}
        for entry in entries:
            listed = {each["id"]: each for each in (entry.get("questions") or {}).get("listed", ())}
            for example in entry["examples"]:
                of_listed = _of_listed(listed[example["id"]]) if example["id"] in listed else {}
                known = {
                    name: value for name, value in example.items() if name == "score" or value is not None
                }
                # Thresholds on one score differ in what they compare it with.
                first = spool.get(examples[example["id"]]) if example["id"] in examples else {}
                merged = of_listed | known | first
                examples[example["id"]] = spool.put(merged)
                if merged.get("unscored") is not None:
                    missing.add(example["id"])
            for state, ids in _moved(entry):
                for one in ids:
                    states.setdefault(one, set()).add(state)
                    if state == "beyond" and one in rows:
                        rows[one].side = entry["questions"]["why"]
                    if state == "lost" and one in rows and not rows[one].worst:
                        worst += 1
                        rows[one].worst = worst
        for one, at in examples.items():
            moved = states.get(one, set()) | ({"unscored"} if one in missing else set())
            rows[one].states |= moved
            worst_state = next((state for state in STATES if state in moved), "")
            rows[one].cells.append(ScoreCell(name, spool, at, worst_state))
    return sorted(rows.values(), key=lambda row: row.order)


def _entries(test: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The questions that were evaluated, each with its id, its text and what is known of it."""
    known = set()
    for each in test.get("questions", ()):
        known.add(each["id"])
        yield each
    asked = (example["id"] for entry in test["scores"] for example in entry["examples"])
    missing = [one for one in dict.fromkeys(asked) if one not in known]
    listed: dict[str, Mapping[str, Any]] = {}
    if missing:
        for entry in test["scores"]:
            listed |= {each["id"]: each for each in (entry.get("questions") or {}).get("listed", ())}
    for one in missing:
        yield question_of(listed[one]) if one in listed else {"id": one, "question": ""}


def question_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """A question that explains a verdict, in the form of a test's `questions`, which earlier reports lack."""
    gold = question.get("gold", ())
    kept = {
        name: question[name]
        for name in ("id", "question", "history", "filters", "gold", "steps")
        if name in question
    }
    ranking = [{"document": label, "gold": label in gold} for label in question.get("retrieved", ())]
    return {**kept, **({"retrieved": ranking} if ranking else {})}


def _of_listed(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a listed question in its score, with the keys that an example has."""
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
        "alone": [each.get("answer", "") for each in passages],
    }
    return known | {name: value for name, value in optional.items() if value is not None}


def _by_name(scores: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The entries of each score: those of slices have the scores of the whole set, so they are one column."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for entry in scores:
        if entry["examples"]:
            found.setdefault(entry_name(entry), []).append(entry)
    return found


def _moved(entry: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """The states that a score gives to questions, and the ids of these."""
    for compared in (entry.get("baseline"), entry.get("anchor")):
        if compared:
            yield "lost", [*compared["worse"], *compared.get("failed", ())]
            yield "gained", compared["better"]
    questions = entry.get("questions")
    if questions and questions["why"] != "worse":
        yield "beyond", [each["id"] for each in questions["listed"]]


def taken(passage: str, answer: str, question: str) -> list[tuple[str, bool]]:
    """The text of a passage in pieces, each with whether the answer took it from there.

    These are words that the answer has and the question has not, of four letters and more or with a digit, and what
    stands between two of them if the answer has it too. Of scripts without spaces they are pairs of characters.

    >>> taken("Parcels arrive within 5 days.", "It takes 5 days.", "When do parcels arrive?")
    [('Parcels arrive within ', False), ('5 days', True), ('.', False)]
    """
    of_answer, of_question = _words(answer), _words(question)
    telling = of_answer - of_question
    if not telling:
        return [(passage, False)]
    found = list(WORD.finditer(passage))
    words = [each[0].casefold() for each in found]
    marked = [word in telling and (len(word) >= TELLING or any(map(str.isdigit, word))) for word in words]
    for at in range(len(words) - 1):
        # Pairs are in `telling` only where both characters are of a script without spaces.
        if words[at] + words[at + 1] in telling and len(words[at]) == len(words[at + 1]) == 1:
            marked[at] = marked[at + 1] = True
    last = None
    for at, each in enumerate(marked):
        if each:
            if last is not None and all(word in of_answer for word in words[last + 1 : at]):
                marked[last:at] = [True] * (at - last)
            last = at
        elif words[at] not in of_answer:
            last = None
    return list(_pieces(passage, [each.span() for each in found], marked))


def _words(text: str) -> set[str]:
    """The words of a text, and the pairs of neighbours in scripts without spaces."""
    words = [each.casefold() for each in WORD.findall(text)]
    pairs = (a + b for a, b in pairwise(words) if len(a) == len(b) == 1)
    return {*words, *pairs}


def _pieces(
    text: str, spans: Sequence[tuple[int, int]], marked: Sequence[bool]
) -> Iterator[tuple[str, bool]]:
    """The text, cut where marked runs of words begin and end."""
    end = 0
    at = 0
    while at < len(spans):
        if not marked[at]:
            at += 1
            continue
        first = at
        while at + 1 < len(spans) and marked[at + 1]:
            at += 1
        start, stop = spans[first][0], spans[at][1]
        if start > end:
            yield text[end:start], False
        yield text[start:stop], True
        end = stop
        at += 1
    if end < len(text):
        yield text[end:], False


def _missing(example: Mapping[str, Any]) -> str:
    return "unscored" if example.get("unscored") is not None else "undefined"


def _rank(rank: int | None) -> str:
    return "not retrieved" if rank is None else f"rank {rank}"


def _values(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]
