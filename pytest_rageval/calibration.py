"""Calibration of a judge by human labels: its agreement with people, bounds on it, and corrected means.

`Bounds` are those of the marker; `Calibration` measures the agreement and corrects the mean of a score; `rule_on`
compares the two.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations, zip_longest
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.human_labels import HumanLabels, LabelledItem, Scale
from pytest_rageval.plural import counted
from pytest_rageval.scores import YES_THRESHOLD, Outcome, Score, Spec
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, majority, pearson
from pytest_rageval.stats.intervals import Estimate

__all__ = [
    "MEASURES",
    "Bounds",
    "Calibration",
    "CalibrationResult",
    "Correction",
    "LabelledVerdict",
    "People",
    "rule_on",
]

FORM: Final = 'rageval_calibration("labels.jsonl", min_kappa=0.6)'


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least agreement of a judge with the people of a labels file; None for no such bound.

    Cohen's kappa, and accuracy, the share of equal verdicts, are for yes and no and for pairs; Pearson's correlation
    is for grades and pairs. The judge compares by `comparator`, such as "graded", or by the default one.
    """

    labels: str | Path
    min_kappa: float | None = None
    min_accuracy: float | None = None
    min_pearson: float | None = None
    comparator: str | None = None

    @property
    def given(self) -> dict[str, float]:
        """The bounds by the measure's name, without those that are None."""
        named = {"kappa": self.min_kappa, "accuracy": self.min_accuracy, "pearson": self.min_pearson}
        return {name: bound for name, bound in named.items() if bound is not None}

    @classmethod
    def parse(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "Bounds":
        """Read the marker's arguments.

        Raises:
            InputError: a keyword is unknown or has a wrong value, or no file is named.
        """
        known = [field.name for field in fields(cls) if field.name != "labels"]
        unknown = sorted(set(kwargs) - set(known))
        if unknown:
            raise InputError(
                f"rageval_calibration has no keyword {', '.join(map(repr, unknown))}. Allowed: {', '.join(known)}."
            )
        if len(args) != 1 or not isinstance(args[0], str | Path):
            raise InputError(
                f"rageval_calibration needs the path of one labels file, found {args!r}. Write {FORM}."
            )
        for name, value in kwargs.items():
            if value is None:
                continue
            if name == "comparator":
                if not isinstance(value, str):
                    raise InputError(
                        f'rageval_calibration: {name}={value!r} is not a text, such as "graded".'
                    )
            elif isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
                raise InputError(f"rageval_calibration: {name}={value!r} is not a number from -1 to 1.")
        return cls(args[0], **kwargs)


Measure = Callable[[Sequence[float], Sequence[float]], Estimate | None]

MEASURES: Final[dict[Scale, dict[str, Measure]]] = {
    "yes/no": {"kappa": cohen_kappa, "accuracy": accuracy},
    "graded": {"pearson": pearson},
    "pairwise": {"kappa": cohen_kappa, "accuracy": accuracy, "pearson": pearson},
}
"""The measures of agreement on each scale; the first one is also computed among people."""

STEP: Final = 0.25
"""Of a scale from 1 to 5: grades that differ by more disagree."""


@dataclass(frozen=True, slots=True)
class LabelledVerdict:
    """One item with a label of people and a verdict of the judge on the same scale, `raw` as scores count it.

    The label of several annotators is the mean of grades, else the majority; of pairs 0 without one.
    """

    item: LabelledItem
    human: float
    judge: float
    raw: float


@dataclass(frozen=True, slots=True)
class People:
    """The agreement of people among themselves, which a judge can hardly exceed.

    Attributes:
        annotators: how many labelled more than half of the items; others may have decided disagreements.
        items: how many have the labels of all of these and a verdict of the judge.
        among: the mean agreement of their pairs, by the first measure of the scale; None where undefined.
        judge: the mean agreement of the judge with each of them.
    """

    annotators: int
    items: int
    among: float | None
    judge: float | None


class Correction(NamedTuple):
    """The mean of a score that people would give, from their labels of some answers or questions.

    Attributes:
        estimate: the mean; None with too few labels or verdicts.
        labels: how many answers, or questions with their passages, have labels and count.
        incomplete: of labels of passages, how many questions have labels, but not for each passage that was retrieved.
    """

    estimate: Estimate | None
    labels: int
    incomplete: int | None = None


@dataclass(frozen=True)
class Calibration:
    """The verdicts of a judge on the items of a labels file, in its order; None is the default comparator.

    Without outcomes, the judge was not asked about the labelled passages: it has judged those that were retrieved.
    """

    labels: HumanLabels
    outcomes: Sequence[Outcome]
    comparator: str | None = None

    @cached_property
    def compared(self) -> tuple[LabelledVerdict, ...]:
        """The items with both a label and a verdict."""
        scale = self.labels.scale
        found = []
        for item, outcome in zip(self.labels.items, self.outcomes, strict=True):
            human, raw = _consensus(item.human, scale), outcome.value
            if human is not None and raw is not None:
                judge = float(raw >= YES_THRESHOLD) if scale == "yes/no" else raw
                found.append(LabelledVerdict(item, human, judge, raw))
        return tuple(found)

    @property
    def unscored(self) -> int:
        """The number of items without a verdict of the judge."""
        return sum(outcome.value is None for outcome in self.outcomes)

    @property
    def undecided(self) -> int:
        """The number of the others without a majority of people."""
        return len(self.labels) - self.unscored - len(self.compared)

    @cached_property
    def measured(self) -> dict[str, Estimate | None]:
        """The agreement by each measure of the scale; None where it is undefined."""
        people, judge = [one.human for one in self.compared], [one.judge for one in self.compared]
        return {name: measure(people, judge) for name, measure in MEASURES[self.labels.scale].items()}

    @cached_property
    def disagreements(self) -> tuple[LabelledVerdict, ...]:
        """The items on which judge and people differ, furthest apart first."""
        least = STEP if self.labels.scale == "graded" else 0
        differing = [one for one in self.compared if abs(one.human - one.judge) > least]
        return tuple(sorted(differing, key=lambda one: -abs(one.human - one.judge)))

    @cached_property
    def people(self) -> People | None:
        """The agreement of people; None where fewer than two labelled more than half of the items."""
        rows = list(zip_longest(*(one.item.human for one in self.compared)))
        most = [labels for labels in rows if 2 * sum(label is not None for label in labels) > len(labels)]
        if len(most) < 2:  # noqa: PLR2004 - a pair
            return None
        verdicts = [one.judge for one in self.compared]
        full = [(row, judge) for *row, judge in zip(*most, verdicts, strict=True) if None not in row]
        annotators = list(zip(*(row for row, _ in full), strict=True))
        judge = [verdict for _, verdict in full]
        measure = next(iter(MEASURES[self.labels.scale].values()))
        return People(
            len(most),
            len(full),
            _mean(measure, combinations(annotators, 2)),
            _mean(measure, ((labels, judge) for labels in annotators)),
        )

    def corrected(self, score: Score) -> Correction | None:
        """The mean of this judge's verdicts that people would give, in [0, 1], by prediction-powered inference.

        By labels of answers: of a score whose values are verdicts on answers. It assumes that the labelled answers are
        a random sample of such answers as were scored: to such questions, by such a system. A scored answer that is
        also labelled counts as labelled only.

        By labels of passages: of a ranking measure over the judge's labels. A question counts as labelled where people
        labelled each of its retrieved passages, and has then the measure by their labels beside that by the judge's;
        the others have the judge's alone. It assumes that the labelled questions are a random sample of the scored.

        None of pairs and slices.

        Source: for passages, Divekar and Majumder (2026), "PRECISE: Reducing the Bias of LLM Evaluations Using
        Prediction-Powered Ranking Estimation".
        """
        if self.labels.pairs or score.slice:
            return None
        # numpy takes 0.2 s, which a calibration alone does not need.
        from pytest_rageval.stats.prediction_powered import prediction_powered_mean  # noqa: PLC0415

        if self.labels.passages:
            human, judge, unlabelled, incomplete = self._by_question(score)
            return Correction(prediction_powered_mean(human, judge, unlabelled), len(human), incomplete)
        labelled = {(item.example.full_question, item.prediction) for item in self.labels.answers}
        unlabelled = [
            each.value
            for each in score.outcomes
            if each.value is not None and (each.example.full_question, each.evidence.answer) not in labelled
        ]
        human, judge = [one.human for one in self.compared], [one.raw for one in self.compared]
        return Correction(prediction_powered_mean(human, judge, unlabelled), len(human))

    def _by_question(self, score: Score) -> tuple[list[float], list[float], list[float], int]:
        """Of labelled questions the measure by people's labels and the judge's, of others by the judge's; left out."""
        from pytest_rageval.measures.ranking import usefulness  # noqa: PLC0415 - numpy

        spec = Spec.parse(score.spec)
        labels: dict[str, dict[str, float | None]] = {}
        for item in self.labels.passages:
            label = _consensus(item.human, self.labels.scale)
            labels.setdefault(item.example.full_question, {})[_single_spaced(item.passage)] = label
        by_people: dict[str, dict[str, float]] = {}
        judge, unlabelled, incomplete = [], [], 0
        for each in score.outcomes:
            if each.value is None:
                continue
            known = labels.get(each.example.full_question)
            ranking = () if each.evidence.ranking is None else each.evidence.ranking.documents[: spec.k]
            found = [] if known is None else [known.get(_single_spaced(passage.text)) for passage in ranking]
            if known is None or None in found:
                unlabelled.append(each.value)
                incomplete += known is not None
            else:
                by_people[each.example.id] = {
                    str(rank): label for rank, label in enumerate(found) if label is not None
                }
                judge.append(each.value)
        human = usefulness(spec.part or "", by_people, spec.k).tolist() if by_people else []
        return human, judge, unlabelled, incomplete


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _consensus(human: Iterable[float | None], scale: Scale) -> float | None:
    """The label of the annotators together; None where yes and no are equally many."""
    labels = [label for label in human if label is not None]
    if scale == "graded":
        return fmean(labels)
    if scale == "pairwise":
        return majority(labels, tie=0.0)
    agreed = majority(labels, tie=inf)
    return None if agreed == inf else agreed


def _mean(measure: Measure, pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    found = [estimate.value for one, other in pairs if (estimate := measure(one, other)) is not None]
    return fmean(found) if found else None


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The verdict on the bounds, with the reason; "error" where a bounded measure is undefined, None without bounds."""

    bounds: Bounds
    calibration: Calibration
    status: Literal["pass", "fail", "error"] | None
    reason: str


def rule_on(calibration: Calibration, bounds: Bounds) -> CalibrationResult:
    """Compare the agreement with its bounds, in full precision; equality passes.

    Raises:
        InputError: a bound is on a measure that labels of this scale do not have.
    """
    scale = calibration.labels.scale
    failed, undefined = [], []
    for name, bound in bounds.given.items():
        if name not in MEASURES[scale]:
            offered = " or ".join(f"min_{measure}" for measure in MEASURES[scale])
            raise InputError(
                f"rageval_calibration: {calibration.labels.name} holds {scale} labels, which have no {name}.\n"
                f"Give {offered} instead of min_{name}."
            )
        estimate = calibration.measured[name]
        if estimate is None:
            undefined.append(name)
        elif estimate.value < bound:
            failed.append(f"{name} {estimate.value:.3f} is below the minimum {bound:g}")
    if failed:
        return CalibrationResult(bounds, calibration, "fail", "; ".join(failed))
    if undefined:
        items = counted(len(calibration.compared), "item")
        why = f"{' and '.join(undefined)} of judge and people is undefined over {items}"
        remedy = "there must be several, and both must use more than one label: label more answers, right and wrong"
        return CalibrationResult(bounds, calibration, "error", f"{why}: {remedy}")
    return CalibrationResult(bounds, calibration, "pass" if bounds.given else None, "within bounds")
