"""The comparison of `rageval diff`: the scores of two reports, or of two systems of one, question by question."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from pytest_rageval.cli.console import count, plain
from pytest_rageval.errors import InputError
from pytest_rageval.evaluations.registry import SCORES
from pytest_rageval.files import refuse_special
from pytest_rageval.reports.document import QuestionEntry
from pytest_rageval.reports.results import SCORE_KEYWORDS
from pytest_rageval.reports.terminal import number_text
from pytest_rageval.stats.intervals import SCORE_TOLERANCE
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test

__all__ = [
    "Difference",
    "Key",
    "Report",
    "Side",
    "Tested",
    "compared_reports",
    "named",
    "of_system",
    "read_report",
    "signed",
]

SCHEMA: Final = 1
ALPHA: Final = 0.025  # of each of the two one-sided tests, so that the interval has 95%
SIMILARITIES: Final = 1e-6
"""Differences up to this do not count for scores from embeddings, which vary that much between machines."""
MAX_IDS: Final = 5  # questions that are named in a line

ASKED: Final = ("question", "history", "filters", "gold", "steps")
SAID: Final = ("answer", "expected", "remark", "lost_by", "case")
"""Keys of a question, and of its values in a score."""


class Key(NamedTuple):
    """The identity of a score: scores of two runs with equal keys are compared."""

    nodeid: str
    spec: str
    where: str
    settings: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name of the score in reports, without its test."""
        return " ".join([self.spec, *self.settings, *([f"where {self.where}"] if self.where else [])])


@dataclass(frozen=True, slots=True)
class Report:
    """A report, or the tests of one system in it.

    Attributes:
        document: its content.
        path: its file.
        name: what the output calls it.
        column: the head of its means in the table.
    """

    document: Mapping[str, Any]
    path: Path
    name: str
    column: str


@dataclass(frozen=True, slots=True)
class Side:
    """A score in one report: its mean, and by id the value of each question, None where it is unscored.

    Attributes:
        mean: None where no question is scored.
        values: by id.
        seen: by id, what was asked, retrieved and answered, with the keys of a `QuestionEntry`, as far as it is known.
        test: the test's entry in the report.
        entry: the score's entry.
    """

    mean: float | None
    values: Mapping[str, float | None]
    seen: Mapping[str, Mapping[str, Any]]
    test: Mapping[str, Any]
    entry: Mapping[str, Any]

    @property
    def statistic(self) -> str | None:
        """The statistic of the score if it is not a mean, such as "p95"; None for a mean."""
        return self.entry.get("statistic")


class Tested(NamedTuple):
    """The mean difference, its 95% interval and the p-value of the two-sided test; None without a question."""

    difference: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None


@dataclass(frozen=True)
class Difference:
    """A score of both reports; `differences` are after less before, by id, of the questions scored in both."""

    key: Key
    before: Side
    after: Side
    differences: Mapping[str, float]
    tolerance: float
    largest: float
    is_cost: bool = False

    @property
    def gained(self) -> list[str]:
        """Questions that got better, those that changed most first; of a cost, such as tokens, less is better."""
        return self._changed(1)

    @property
    def lost(self) -> list[str]:
        """Questions that got worse, likewise."""
        return self._changed(-1)

    def _changed(self, sign: int) -> list[str]:
        sign = -sign if self.is_cost else sign
        found = [identifier for identifier, d in self.differences.items() if sign * d > self.tolerance]
        return sorted(found, key=lambda identifier: -abs(self.differences[identifier]))

    @property
    def same(self) -> int:
        """The number of questions of both runs whose score did not change."""
        return len(self.differences) - len(self.gained) - len(self.lost)

    @property
    def only_before(self) -> list[str]:
        """Questions that only the first report has."""
        return [each for each in self.before.values if each not in self.after.values]

    @property
    def only_after(self) -> list[str]:
        """Questions that only the second one has."""
        return [each for each in self.after.values if each not in self.before.values]

    @property
    def errors(self) -> list[str | None]:
        """Why the score could not be computed in the first report and in the second; None where it could."""
        return [
            " ".join(str(side.entry.get("reason")).split()) if side.entry.get("verdict") == "error" else None
            for side in (self.before, self.after)
        ]

    @property
    def unscored(self) -> list[str]:
        """Questions of both that have no score in one of them."""
        return [
            each for each in self.before.values if each in self.after.values and each not in self.differences
        ]

    @property
    def left_out(self) -> int:
        """Questions that are not compared."""
        return len(self.only_before) + len(self.only_after) + len(self.unscored)

    @cached_property
    def tested(self) -> Tested:
        """The paired test, as the gate tests a drop."""
        return _tested(self)

    def question(self, identifier: str) -> QuestionEntry:
        """A question as the reports show one that changed: as it is in the second report, and before."""
        then, now = self.before.seen.get(identifier, {}), self.after.seen.get(identifier, {})
        before = {name: then[name] for name in ("retrieved", "answer") if name in then}
        found = {
            "id": identifier,
            "question": "",
            **now,
            "score": self.after.values[identifier],
            "before": {"score": self.before.values[identifier], **before},
        }
        return cast("QuestionEntry", found)


def compared_reports(before: Report, after: Report) -> tuple[list[Difference], list[str]]:
    """The scores that both have, in the order of the first; and notes on what else differs, and on what is left out."""
    first, second = _sides(before), _sides(after)
    shared = [key for key in first if key in second]
    compared = [_compared(key, first[key], second[key]) for key in shared if not first[key].statistic]
    notes = [
        *(
            f"{plain(key.label)} of {plain(key.nodeid)} is left out: times are not comparable between machines and runs"
            for key in shared
            if first[key].statistic
        ),
        *_changed_settings(before.document, after.document),
        *_reworded(compared),
        *_missing(first.keys() - second.keys(), before.name),
        *_missing(second.keys() - first.keys(), after.name),
    ]
    return compared, notes


def of_system(document: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    """The report with the tests of one system, under names that they share with the tests of another one."""
    tests: list[Mapping[str, Any]] = []
    known: list[Any] = []
    for test in document["tests"]:
        system = _mapping(_mapping(test).get("system"))
        known += system.values()
        if name in system.values():
            others = [value for value in system.values() if value != name]
            others += _mapping(test.get("parameters")).values()
            nodeid = (
                f"{test.get('function')}[{'-'.join(map(str, others))}]" if others else test.get("function")
            )
            tests.append({**test, "nodeid": nodeid})
    if not tests:
        names = ", ".join(map(str, dict.fromkeys(known))) or "none: no test of it has a parametrized fixture"
        raise InputError(
            f"{path} has no system {name!r}. Its systems: {names}.\n"
            "A system is a value of the parametrized rageval_retriever, rageval_generator or rageval_judge."
        )
    return {**document, "tests": tests}


def read_report(path: Path) -> Mapping[str, Any]:
    """Return a report; InputError if the file cannot be read, or is not a report that this version knows."""
    remedy = f"Write one with: pytest --rageval-report {path.with_suffix('.json').name}"
    try:
        refuse_special(path)
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The report {path} cannot be read: {error.strerror or error}.\n{remedy}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"The report {path} is not UTF-8: {error.reason}.\n{remedy}") from None
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"The report {path} is not JSON: {reason}.\n{remedy}") from None
    if not isinstance(document, dict) or not isinstance(document.get("tests"), list):
        raise InputError(f"{path} is not a JSON report of pytest-rageval: it has no list `tests`.\n{remedy}")
    if document.get("schema") != SCHEMA:
        raise InputError(
            f"The report {path} has schema {document.get('schema')!r}; this version reads {SCHEMA}.\n{remedy}"
        )
    return document


def _sides(report: Report) -> dict[Key, Side]:
    """The scores of a report, of equal ones in a test the first; InputError if an entry has another form."""
    found: dict[Key, Side] = {}
    path = report.path
    for number, test in enumerate(report.document["tests"]):
        place = f"tests[{number}]"
        try:
            for at, score in enumerate(test["scores"]):
                place = f"tests[{number}].scores[{at}]"
                key, side = _side(test, score)
                found.setdefault(key, side)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            message = f"{path} is not a JSON report of pytest-rageval: {place}: {what}."
            raise InputError(f"{message}\nWrite it again with: pytest --rageval-report {path.name}") from None
    return found


def _side(test: Mapping[str, Any], score: Mapping[str, Any]) -> tuple[Key, Side]:
    nodeid = test["nodeid"]
    where = ", ".join(f"{name}={value!r}" for name, value in sorted(score["where"].items()))
    settings = tuple(f"{word}={score[word]}" for word in SCORE_KEYWORDS if score.get(word) is not None)
    if not isinstance(nodeid, str) or not isinstance(score["spec"], str):
        raise TypeError("nodeid and spec must be strings")
    values = {str(example["id"]): _number(example["score"]) for example in score["examples"]}
    side = Side(_number(score["mean"]), values, _seen(test, score), test, score)
    return Key(nodeid, score["spec"], where, settings), side


def _seen(test: Mapping[str, Any], score: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the known data of each question by its id; reports of earlier versions list only some of the questions."""
    known = {str(each["id"]): each for each in test.get("questions", ())}
    explained = {str(each["id"]): each for entry in test["scores"] for each in _listed(entry)}
    listed = {str(each["id"]): each for each in _listed(score)}
    found = {}
    for example in score["examples"]:
        one = str(example["id"])
        question, own = known.get(one, explained.get(one, {})), listed.get(one, {})
        retrieved = [each["document"] for each in known[one].get("retrieved", ())] if one in known else []
        seen = {
            **{name: question.get(name) for name in ASKED},
            "retrieved": example.get("retrieved") or retrieved[: example.get("k")] or own.get("retrieved"),
            "judge": example.get("explanation", own.get("judge")),
            **{name: example.get(name, own.get(name)) for name in SAID},
        }
        found[one] = {name: value for name, value in seen.items() if value is not None}
    return found


def _listed(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The questions that explain the verdict on a score."""
    listed: Sequence[Mapping[str, Any]] = _mapping(entry.get("questions")).get("listed", ())
    return listed


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"a score must be a number or null, found {value!r}")
    return float(value)


def _compared(key: Key, before: Side, after: Side) -> Difference:
    differences = {
        identifier: now - then
        for identifier, then in before.values.items()
        if then is not None and (now := after.values.get(identifier)) is not None
    }
    score = SCORES.get(key.spec.partition("@")[0])
    scale = None if score is None else score.scale
    largest = 1.0 if scale is None or not isfinite(scale[1]) else scale[1] - scale[0]
    largest = max(largest, *map(abs, differences.values()), 0.0)
    tolerance = SIMILARITIES if score is not None and score.extra == "dense" else SCORE_TOLERANCE
    is_cost = score is not None and score.is_cost
    return Difference(key, before, after, differences, tolerance, largest, is_cost)


def _tested(each: Difference) -> Tested:
    values = list(each.differences.values())
    if not values:
        return Tested()
    rise, drop = (
        joint_drop_test(
            [PairedDrops([sign * value for value in values], largest=each.largest, tolerance=each.tolerance)],
            alpha=ALPHA,
        ).scores[0]
        for sign in (1, -1)
    )
    return Tested(
        fsum(values) / len(values),
        (rise.low, -drop.low),
        min(1.0, 2 * min(rise.p_value, drop.p_value)),
    )


def named(ids: Sequence[str], *, everything: bool) -> str:
    """The first ids, or all of them, and how many more there are."""
    shown = ids if everything else ids[:MAX_IDS]
    more = len(ids) - len(shown)
    return ", ".join(map(plain, shown)) + (f" and {more:,} more (-v shows them)" if more else "")


def signed(change: float) -> str:
    """A change with its sign; one that rounding alone may explain is 0.

    >>> signed(0.25), signed(-0.0002), signed(-1e-17)
    ('+0.250', '-0.0002', '+0.000')
    """
    seen = change if abs(change) > SIMILARITIES else 0.0
    return f"{'-' if seen < 0 else '+'}{number_text(abs(seen))}"


def _reworded(compared: Sequence[Difference]) -> Iterator[str]:
    """A note for each test with questions of one id and two texts."""
    found: dict[str, dict[str, None]] = {}
    for each in compared:
        for one in each.differences:
            texts = {side.seen[one].get("question") for side in (each.before, each.after) if one in side.seen}
            if len(texts - {None, ""}) > 1:
                found.setdefault(each.key.nodeid, {})[one] = None
    for nodeid, ids in found.items():
        text = f"{count(len(ids), 'question')} of {plain(nodeid)} with the same id and another text"
        yield f"{text}: {named(list(ids), everything=False)}"


def _changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each setting or eval set that differs between the two reports."""
    then, now = ({**_mapping(each.get("settings")), **_evalsets(each)} for each in (before, after))
    for name in sorted(then.keys() & now.keys()):
        if then[name] != now[name]:
            yield f"{plain(name)} differs: {plain(str(then[name]))} before, {plain(str(now[name]))} after"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _evalsets(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of the eval set of each test.

    Questions are matched by id, even if their texts differ.
    """
    return {
        f"eval set of {test['nodeid']}": str(_mapping(test.get("evalset")).get("digest"))[:12]
        for test in document["tests"]
    }


def _missing(keys: Iterable[Key], name: str) -> list[str]:
    return [f"only in {plain(name)}: {plain(key.label)} of {plain(key.nodeid)}" for key in sorted(keys)]
