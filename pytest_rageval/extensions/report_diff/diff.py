"""Compares two JSON reports, or two systems in one report, score by score and question by question."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from pytest_rageval.cli.console import format_count, to_one_line
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.spec import SCORE_KEYWORDS
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.reports.document import QuestionEntry, ReportDocument, ScoreEntry, TestEntry
from pytest_rageval.reports.terminal import number_text
from pytest_rageval.scores import SCORES
from pytest_rageval.stats.intervals import SCORE_TOLERANCE
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test

ALPHA: Final = 0.025  # of each of the two one-sided tests, so that the interval has 95%
SIMILARITY_TOLERANCE: Final = 1e-6
"""Smaller differences of scores from embeddings are ignored: the scores vary that much between machines."""
MAX_IDS: Final = 5  # number of question ids in a line

QUESTION_KEYS: Final = ("question", "history", "filters", "gold", "steps")  # of all scores
OUTCOME_KEYS: Final = ("answer", "expected", "remark", "lost_by", "case")  # of a question in one score


class ScoreKey(NamedTuple):
    """The identity of a score: two scores with equal keys are compared."""

    nodeid: str
    spec: str
    where: str
    settings: tuple[str, ...]  # that change the score, such as "comparator=em"

    @property
    def label(self) -> str:
        return " ".join([self.spec, *self.settings, *([f"where {self.where}"] if self.where else [])])


@dataclass(frozen=True, slots=True)
class Report:
    """A JSON report, or the tests of one system in it."""

    document: ReportDocument
    path: Path
    name: str  # in messages
    column: str


@dataclass(frozen=True, slots=True)
class ReportedScore:
    mean: float | None
    values: Mapping[str, float | None]  # by question; None if it is unscored
    questions: Mapping[str, Mapping[str, object]]  # what is known of each, with keys of `QuestionEntry`
    test: TestEntry
    entry: ScoreEntry


class PairedTest(NamedTuple):
    """The result of a paired two-sided test; all fields are None if no question is scored in both reports."""

    difference: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class ScoreComparison:
    key: ScoreKey
    before: ReportedScore
    after: ReportedScore
    differences: Mapping[str, float]  # after minus before, of questions with both scores
    tolerance: float  # differences up to this count as no change
    largest: float  # the largest possible difference
    is_cost: bool = False  # less is better, as for tokens

    @property
    def gained(self) -> list[str]:
        """The ids of the questions that got better, largest change first; for a cost, less is better."""
        return self._changed(1)

    @property
    def lost(self) -> list[str]:
        return self._changed(-1)

    def _changed(self, sign: int) -> list[str]:
        sign = -sign if self.is_cost else sign
        ids = [
            identifier for identifier, change in self.differences.items() if sign * change > self.tolerance
        ]
        return sorted(ids, key=lambda identifier: -abs(self.differences[identifier]))

    @property
    def same(self) -> int:
        return len(self.differences) - len(self.gained) - len(self.lost)

    @property
    def only_before(self) -> list[str]:
        return [identifier for identifier in self.before.values if identifier not in self.after.values]

    @property
    def only_after(self) -> list[str]:
        return [identifier for identifier in self.after.values if identifier not in self.before.values]

    @property
    def errors(self) -> list[str | None]:
        return [
            " ".join(str(score.entry.get("reason")).split())
            if score.entry.get("verdict") == "error"
            else None
            for score in (self.before, self.after)
        ]

    @property
    def unscored(self) -> list[str]:
        """The ids of the questions that both reports have and that are unscored in one of them or in both."""
        return [
            identifier
            for identifier in self.before.values
            if identifier in self.after.values and identifier not in self.differences
        ]

    @property
    def left_out(self) -> int:
        return len(self.only_before) + len(self.only_after) + len(self.unscored)

    @cached_property
    def test_result(self) -> PairedTest:
        """The result of the paired test with which the gate tests a drop, in both directions."""
        values = list(self.differences.values())
        if not values:
            return PairedTest()
        rise, drop = (
            joint_drop_test(
                [
                    PairedDrops(
                        [sign * value for value in values], largest=self.largest, tolerance=self.tolerance
                    )
                ],
                alpha=ALPHA,
            ).scores[0]
            for sign in (1, -1)
        )
        p_value = min(1.0, 2 * min(rise.p_value, drop.p_value))
        return PairedTest(fsum(values) / len(values), (rise.low, -drop.low), p_value)

    def question(self, identifier: str) -> QuestionEntry:
        then, now = self.before.questions.get(identifier, {}), self.after.questions.get(identifier, {})
        before = {name: then[name] for name in ("retrieved", "answer") if name in then}
        entry = {
            "id": identifier,
            "question": "",
            **now,
            "score": self.after.values[identifier],
            "before": {"score": self.before.values[identifier], **before},
        }
        return cast("QuestionEntry", entry)


def compare_reports(before: Report, after: Report) -> tuple[list[ScoreComparison], list[str]]:
    first, second = _reported_scores(before), _reported_scores(after)
    shared = [key for key in first if key in second]
    times = [key for key in shared if first[key].entry.get("statistic")]
    comparisons = [_compare_scores(key, first[key], second[key]) for key in shared if key not in times]
    notes = [
        *(
            f"{to_one_line(key.label)} of {to_one_line(key.nodeid)} is left out: times are not comparable between "
            "machines and runs"
            for key in times
        ),
        *_settings_notes(before.document, after.document),
        *_reworded_notes(comparisons),
        *_missing_notes(first.keys() - second.keys(), before.name),
        *_missing_notes(second.keys() - first.keys(), after.name),
    ]
    return comparisons, notes


def select_system(document: ReportDocument, name: str, path: Path) -> ReportDocument:
    tests: list[TestEntry] = []
    systems: list[Any] = []
    for test in document["tests"]:
        system = test.get("system", {})
        systems += system.values()
        if name in system.values():
            others = [value for value in system.values() if value != name]
            others += test.get("parameters", {}).values()
            parameters = f"[{'-'.join(map(str, others))}]" if others else ""
            tests.append({**test, "nodeid": f"{test.get('function')}{parameters}"})
    if not tests:
        names = (
            ", ".join(map(str, dict.fromkeys(systems))) or "none: no test of it has a parametrized fixture"
        )
        raise InputError(
            f"{path} has no system {name!r}. Its systems: {names}.\n"
            "A system is a value of the parametrized rageval_retriever, rageval_generator or rageval_judge."
        )
    return {**document, "tests": tests}


def _reported_scores(report: Report) -> dict[ScoreKey, ReportedScore]:
    """Return the scores of a report; of scores with equal keys, the first."""
    scores: dict[ScoreKey, ReportedScore] = {}
    for test in report.document["tests"]:
        for entry in test["scores"]:
            where = ", ".join(f"{name}={value!r}" for name, value in sorted(entry["where"].items()))
            settings = tuple(
                f"{name}={entry[name]}" for name in SCORE_KEYWORDS if entry.get(name) is not None
            )
            values = {example["id"]: example["score"] for example in entry["examples"]}
            score = ReportedScore(entry["mean"], values, _question_data(test, entry), test, entry)
            scores.setdefault(ScoreKey(test["nodeid"], entry["spec"], where, settings), score)
    return scores


def _question_data(test: TestEntry, entry: ScoreEntry) -> dict[str, dict[str, object]]:
    questions = {question["id"]: question for question in test.get("questions", ())}
    result = {}
    for example in entry["examples"]:
        question: JsonObject = questions.get(example["id"], {})
        ranking = [passage["document"] for passage in question.get("retrieved", ())][: example.get("k")]
        data = {
            **{name: question.get(name) for name in QUESTION_KEYS},
            "retrieved": example.get("retrieved", ranking if "retrieved" in question else None),
            "judge": example.get("explanation"),
            **{name: example.get(name) for name in OUTCOME_KEYS},
        }
        result[example["id"]] = {name: value for name, value in data.items() if value is not None}
    return result


def _compare_scores(key: ScoreKey, before: ReportedScore, after: ReportedScore) -> ScoreComparison:
    differences = {
        identifier: now - then
        for identifier, then in before.values.items()
        if then is not None and (now := after.values.get(identifier)) is not None
    }
    score = SCORES.get(key.spec.partition("@")[0])
    scale = None if score is None else score.scale
    largest = 1.0 if scale is None or not isfinite(scale[1]) else scale[1] - scale[0]
    largest = max(largest, *map(abs, differences.values()), 0.0)
    tolerance = SIMILARITY_TOLERANCE if score is not None and score.extra == "dense" else SCORE_TOLERANCE
    is_cost = score is not None and score.is_cost
    return ScoreComparison(key, before, after, differences, tolerance, largest, is_cost)


def format_ids(ids: Sequence[str], *, everything: bool) -> str:
    shown = ids if everything else ids[:MAX_IDS]
    more = len(ids) - len(shown)
    return ", ".join(map(to_one_line, shown)) + (f" and {more:,} more (-v shows them)" if more else "")


def format_change(change: float) -> str:
    """Return a change with its sign; a change that rounding may explain is shown as 0.

    >>> format_change(0.25), format_change(-0.0002), format_change(-1e-17)
    ('+0.250', '-0.0002', '+0.000')
    """
    rounded = change if abs(change) > SIMILARITY_TOLERANCE else 0.0
    return f"{'-' if rounded < 0 else '+'}{number_text(abs(rounded))}"


def _reworded_notes(comparisons: Sequence[ScoreComparison]) -> Iterator[str]:
    """Yield a note for each test with questions whose text differs between the reports under the same id."""
    reworded: dict[str, dict[str, None]] = {}
    for comparison in comparisons:
        scores = (comparison.before, comparison.after)
        for identifier in comparison.differences:
            texts = {
                score.questions[identifier].get("question")
                for score in scores
                if identifier in score.questions
            }
            if len(texts - {None, ""}) > 1:
                reworded.setdefault(comparison.key.nodeid, {})[identifier] = None
    for nodeid, ids in reworded.items():
        text = (
            f"{format_count(len(ids), 'question')} of {to_one_line(nodeid)} with the same id and another text"
        )
        yield f"{text}: {format_ids(list(ids), everything=False)}"


def _settings_notes(before: ReportDocument, after: ReportDocument) -> Iterator[str]:
    then, now = (
        {
            **document.get("settings", {}),
            # Questions are matched by id, even if their texts differ.
            **{
                f"eval set of {test['nodeid']}": str(evalset.get("digest"))[:12]
                for test in document["tests"]
                if (evalset := test.get("evalset"))  # a test that was skipped has none
            },
        }
        for document in (before, after)
    )
    for name in sorted(then.keys() & now.keys()):
        if then[name] != now[name]:
            old, new = to_one_line(str(then[name])), to_one_line(str(now[name]))
            yield f"{to_one_line(name)} differs: {old} before, {new} after"


def _missing_notes(keys: Iterable[ScoreKey], name: str) -> list[str]:
    return [
        f"only in {to_one_line(name)}: {to_one_line(key.label)} of {to_one_line(key.nodeid)}"
        for key in sorted(keys)
    ]
