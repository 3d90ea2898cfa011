"""Judge calibration: how far a judge agrees with people, and whether that is enough."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Final, Literal

from pytest_rageval.calibration.bounds import PREFIX, Bounds
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.human_labels import HumanLabels, LabelledAnswer, LabelledPair, Scale
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, majority, pearson
from pytest_rageval.stats.intervals import Estimate

__all__ = ["MEASURES", "Calibration", "CalibrationRuling", "LabelledVerdict", "People", "rule_on"]

Measure = Callable[[Sequence[float], Sequence[float]], Estimate | None]

MEASURES: Final[dict[Scale, dict[str, Measure]]] = {
    "yes/no": {"kappa": cohen_kappa, "accuracy": accuracy},
    "graded": {"pearson": pearson},
    "pairwise": {"kappa": cohen_kappa, "accuracy": accuracy, "pearson": pearson},
}
"""What agreement is measured by, the first one also among people."""

YES: Final = 0.5
"""A judge that grades, where people said yes or no, says yes from here on."""

APART: Final = 0.25
"""Of grades, a disagreement is more than this: a step on a scale from 1 to 5."""

UNDECIDED: Final = -1.0
"""Stands for "no majority" while a majority is looked for."""


@dataclass(frozen=True, slots=True)
class LabelledVerdict:
    """One item with a label of people and a verdict of the judge.

    Attributes:
        item: what was labelled.
        human: what the annotators say together: of yes or no the majority, of grades the mean, of
            pairs the majority, or 0 without one.
        judge: what the judge says, on the same scale.
        raw: what the judge says, as scores count it.
    """

    item: LabelledAnswer | LabelledPair
    human: float
    judge: float
    raw: float


@dataclass(frozen=True, slots=True)
class People:
    """What people reach among themselves, and so the most that can be asked of a judge.

    Attributes:
        annotators: how many; those who labelled more than half of the items. One who was asked only
            where others disagree is none of them.
        items: that all of these labelled, and the judge had a verdict on.
        among: the mean agreement of their pairs, by the first measure of the scale; None where undefined.
        judge: the mean agreement of the judge with each of them, to be compared with that.
    """

    annotators: int
    items: int
    among: float | None
    judge: float | None


@dataclass(frozen=True)
class Calibration:
    """A judge beside the people of a labels file.

    Attributes:
        labels: theirs.
        outcomes: the judge's verdict on each item, in the same order.
        comparator: how the judge compared, where it is another way than that in force.
    """

    labels: HumanLabels
    outcomes: Sequence[Outcome]
    comparator: str | None = None

    @cached_property
    def compared(self) -> tuple[LabelledVerdict, ...]:
        """The items on which there is both."""
        scale = self.labels.scale
        found = []
        for item, outcome in zip(self.labels.items, self.outcomes, strict=True):
            human, raw = _together(item.human, scale), outcome.value
            if human is not None and raw is not None:
                found.append(LabelledVerdict(item, human, _on(scale, raw), raw))
        return tuple(found)

    @property
    def unscored(self) -> int:
        """On how many items the judge had no verdict."""
        return sum(outcome.value is None for outcome in self.outcomes)

    @property
    def undecided(self) -> int:
        """On how many of the others people have no majority."""
        return len(self.labels) - self.unscored - len(self.compared)

    @cached_property
    def measured(self) -> dict[str, Estimate | None]:
        """The agreement by each measure of the scale; None where it is undefined."""
        people, judge = [one.human for one in self.compared], [one.judge for one in self.compared]
        return {name: measure(people, judge) for name, measure in MEASURES[self.labels.scale].items()}

    @cached_property
    def disagreements(self) -> tuple[LabelledVerdict, ...]:
        """The items on which judge and people differ, furthest apart first."""
        least = APART if self.labels.scale == "graded" else 0
        differing = [one for one in self.compared if abs(one.human - one.judge) > least]
        return tuple(sorted(differing, key=lambda one: -abs(one.human - one.judge)))

    @cached_property
    def people(self) -> People | None:
        """What people reach among themselves; None where fewer than two labelled more than half."""
        judged = [(one.item.human, one.judge) for one in self.compared]
        most = max((len(labels) for labels, _ in judged), default=0)
        padded = [((*labels, *[None] * (most - len(labels))), judge) for labels, judge in judged]
        who = [n for n in range(most) if 2 * sum(labels[n] is not None for labels, _ in padded) > len(padded)]
        if len(who) < 2:  # noqa: PLR2004 - among themselves
            return None
        common = [
            ([label for n in who if (label := labels[n]) is not None], judge) for labels, judge in padded
        ]
        full = [(labels, judge) for labels, judge in common if len(labels) == len(who)]
        each = list(zip(*(labels for labels, _ in full), strict=True))
        judge = [verdict for _, verdict in full]
        measure = next(iter(MEASURES[self.labels.scale].values()))
        return People(
            len(who),
            len(full),
            _mean(measure, combinations(each, 2)),
            _mean(measure, ((one, judge) for one in each)),
        )

    def corrected(self, score: Score) -> Estimate | None:
        """The mean that people would give, by prediction-powered inference.

        Args:
            score: the mean of the same judge's verdicts, of the whole eval set.

        Returns:
            The mean in [0, 1] with its 95% interval; None of pairs and slices, and where there are too
            few labels or verdicts. It holds where the labelled answers are a random sample of such
            answers as were scored: to such questions, by such a system. An answer that is itself among
            the labelled ones counts there and not twice.
        """
        if self.labels.pairs or score.slice:
            return None
        # numpy costs a fifth of a second, which a calibration alone need not pay.
        from pytest_rageval.stats.prediction_powered import prediction_powered_mean  # noqa: PLC0415

        labelled = {(item.example.question, item.prediction) for item in self.labels.answers}
        unlabelled = [
            outcome.value
            for outcome in score.outcomes
            if outcome.value is not None
            and (outcome.example.question, outcome.evidence.answer) not in labelled
        ]
        human, judge = [one.human for one in self.compared], [one.raw for one in self.compared]
        return prediction_powered_mean(human, judge, unlabelled)


def _together(human: Iterable[float | None], scale: Scale) -> float | None:
    """What the annotators of an item say together; None where yes and no are equally many."""
    labels = [label for label in human if label is not None]
    if scale == "graded":
        return fmean(labels)
    if scale == "pairwise":
        return majority(labels, tie=0.0)
    agreed = majority(labels, tie=UNDECIDED)
    return None if agreed == UNDECIDED else agreed


def _on(scale: Scale, raw: float) -> float:
    return float(raw >= YES) if scale == "yes/no" else raw


def _mean(measure: Measure, pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    found = [estimate.value for one, other in pairs if (estimate := measure(one, other)) is not None]
    return fmean(found) if found else None


@dataclass(frozen=True, slots=True)
class CalibrationRuling:
    """How the bounds ended.

    Attributes:
        bounds: as declared.
        calibration: what was found.
        status: "error" where a bound cannot be held against anything; None without bounds.
        reason: why, in a sentence.
    """

    bounds: Bounds
    calibration: Calibration
    status: Literal["pass", "fail", "error"] | None
    reason: str


def rule_on(calibration: Calibration, bounds: Bounds) -> CalibrationRuling:
    """Hold the agreement against its bounds, in full precision; one on a bound passes.

    Raises:
        InputError: a bound is on a measure that labels of this scale do not have.
    """
    scale = calibration.labels.scale
    failed, undefined = [], []
    for name, bound in bounds.given.items():
        if name not in MEASURES[scale]:
            offered = " or ".join(f"{PREFIX}{measure}" for measure in MEASURES[scale])
            raise InputError(
                f"rageval_calibration: {calibration.labels.name} holds {scale} labels, which have no {name}.\n"
                f"Give {offered} instead of {PREFIX}{name}."
            )
        estimate = calibration.measured[name]
        if estimate is None:
            undefined.append(name)
        elif estimate.value < bound:
            failed.append(f"{name} {estimate.value:.3f} is below the minimum {bound:g}")
    if failed:
        return CalibrationRuling(bounds, calibration, "fail", "; ".join(failed))
    if undefined:
        why = f"{' and '.join(undefined)} of judge and people is undefined over {len(calibration.compared)} items"
        remedy = "there must be several, and both must use more than one label: label more answers, right and wrong"
        return CalibrationRuling(bounds, calibration, "error", f"{why}: {remedy}")
    return CalibrationRuling(bounds, calibration, "pass" if bounds.given else None, "within bounds")
