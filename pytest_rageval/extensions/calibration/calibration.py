"""Calibration of a judge by human labels: its agreement with people, bounds on it, and corrected means.

`judge_items` judges answers, passages and pairs of answers that people labelled. `Calibration` measures the agreement
and corrects the mean of a score. `check_bounds` compares the agreement with the `Bounds` of the marker.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import combinations, zip_longest
from math import inf
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import Judge
from pytest_rageval.answers.judge.tasks import COMPARE, GRADE
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import YES_THRESHOLD, Evidence, Outcome, Score
from pytest_rageval.core.spec import Spec
from pytest_rageval.evalsets.loading import find_file
from pytest_rageval.extensions.calibration.human_labels import (
    PREFERENCES,
    HumanLabels,
    LabelledAnswer,
    LabelledItem,
    LabelledPair,
    LabelledPassage,
    Scale,
    load_labels,
    normalize_space,
)
from pytest_rageval.lib.foreign_values import plain_number
from pytest_rageval.lib.text import counted
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.scores.arena import PREFER
from pytest_rageval.scores.definition import check_failures, score_each
from pytest_rageval.scores.measures import usefulness
from pytest_rageval.scores.pipeline import Pipeline
from pytest_rageval.scores.relevance import RELEVANT
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, majority, pearson
from pytest_rageval.stats.intervals import Estimate

if TYPE_CHECKING:
    from pytest_rageval.extensions.calibration.corrections import RoganGladen

REFUSED_ALPHA: Final = 0.01  # the probability that labels that are a random sample are refused

SAMPLE_REMEDY: Final = "`rageval judge sample report.json` draws the answers to label"


class LabelJudge:
    """Lets the judge of a session judge labelled items; each file of labels is read once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._labels: dict[Path, HumanLabels] = {}

    def labels(self, source: str | Path, *, bases: Sequence[Path]) -> HumanLabels:
        def is_file(path: Path) -> bool:
            return path.exists() and not path.is_dir()

        path = find_file("labels file", source, bases=bases, accepts=is_file)
        if path not in self._labels:
            self._labels[path] = load_labels(path)
        return self._labels[path]

    def judge(self, components: Components, labels: HumanLabels, comparator: str | None) -> list[Outcome]:
        session, max_unscored = self._session, self._session.settings.max_unscored
        verdict = pipeline_verdict(session.pipelines.get(components), comparator)
        outcomes = session.loop.run(judge_items(labels, verdict))
        check_failures(outcomes, max_unscored)
        if "lacks replies" not in session.settings.effects:
            # The constructor raises an error if too many items are unscored.
            Score(f"judge against {labels.name}", outcomes, max_unscored=max_unscored)
        return outcomes


@dataclass(frozen=True, slots=True)
class Bounds:
    """The minimum agreement of a judge with people, as the marker `rageval_calibration` states it."""

    labels: str | Path
    min_kappa: float | None = None
    min_accuracy: float | None = None
    min_pearson: float | None = None
    comparator: str | None = None

    @property
    def given(self) -> dict[str, float]:
        bounds = {"kappa": self.min_kappa, "accuracy": self.min_accuracy, "pearson": self.min_pearson}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    @classmethod
    def parse(cls, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> "Bounds":
        known = [field.name for field in fields(cls) if field.name != "labels"]
        unknown = sorted(set(kwargs) - set(known))
        if unknown:
            raise InputError(
                f"rageval_calibration has no keyword {', '.join(map(repr, unknown))}.{did_you_mean(unknown[0], known)} "
                f"Allowed: {', '.join(known)}."
            )
        if len(args) != 1 or not isinstance(args[0], str | Path):
            raise InputError(
                f"rageval_calibration needs the path of one labels file, found {args!r}. Write "
                'rageval_calibration("labels.jsonl", min_kappa=0.6).'
            )
        given = {name: plain_number(value) for name, value in kwargs.items() if value is not None}
        for name, value in given.items():
            if name == "comparator":
                if not isinstance(value, str):
                    raise InputError(
                        f'rageval_calibration: {name}={value!r} is not a text, such as "graded".'
                    )
            elif isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
                raise InputError(f"rageval_calibration: {name}={value!r} is not a number from -1 to 1.")
        return cls(args[0], **given)


Measure = Callable[[Sequence[float], Sequence[float]], Estimate | None]

MEASURES: Final[dict[Scale, dict[str, Measure]]] = {
    "yes/no": {"kappa": cohen_kappa, "accuracy": accuracy},
    "graded": {"pearson": pearson},
    "pairwise": {"kappa": cohen_kappa, "accuracy": accuracy, "pearson": pearson},
}
"""By scale: the measures of agreement. The first one is also computed among people."""

MAX_GRADE_DIFFERENCE: Final = 0.25  # grades in [0, 1] that differ by more disagree: a step from 1 to 5


@dataclass(frozen=True, slots=True)
class LabelledVerdict:
    """An item with its human label and the judge's verdict on the same scale."""

    item: LabelledItem
    human: float  # of several annotators the mean of grades, else the majority; 0 for pairs without one
    judge: float
    raw: float  # the verdict as scores count it, before it becomes yes or no


class HumanAgreement(NamedTuple):
    """The agreement of people among themselves, which a judge can hardly exceed."""

    annotators: int  # who labelled more than half of the items; others may have decided disagreements only
    n: int  # items with labels of all these annotators and a verdict of the judge
    among: float | None  # mean agreement of pairs of them, by the first measure of the scale
    judge: float | None  # mean agreement of the judge with each of them


class Correction(NamedTuple):
    """The mean that a score would have by people's verdicts, estimated from labels of some answers or questions."""

    estimate: Estimate | None  # None with too few labels or verdicts
    labels: int  # labelled answers, or questions with completely labelled passages
    incomplete: int | None = None  # questions with labels of some of their retrieved passages alone
    refused: str = ""  # why there is no estimate although there are labels
    # Why there is none, as text; None if labels are not yes or no.
    rogan_gladen: "RoganGladen | str | None" = None


@dataclass(frozen=True)
class Calibration:
    """The verdicts of a judge on the items of a labels file."""

    labels: HumanLabels
    # In the order of the items; empty if `corrected` uses the verdicts on the retrieved passages.
    outcomes: Sequence[Outcome]
    comparator: str | None = None

    @cached_property
    def labelled_verdicts(self) -> tuple[LabelledVerdict, ...]:
        scale = self.labels.scale
        verdicts = []
        for item, outcome in zip(self.labels.items, self.outcomes, strict=True):
            human, raw = _consensus(item.human, scale), outcome.value
            if human is not None and raw is not None:
                judge = float(raw >= YES_THRESHOLD) if scale == "yes/no" else raw
                verdicts.append(LabelledVerdict(item, human, judge, raw))
        return tuple(verdicts)

    @property
    def unscored(self) -> int:
        return sum(outcome.value is None for outcome in self.outcomes)

    @property
    def undecided(self) -> int:
        """The number of items with a verdict of the judge, but without a majority of people."""
        return len(self.labels) - self.unscored - len(self.labelled_verdicts)

    @cached_property
    def agreement(self) -> dict[str, Estimate | None]:
        human = [verdict.human for verdict in self.labelled_verdicts]
        judge = [verdict.judge for verdict in self.labelled_verdicts]
        return {name: measure(human, judge) for name, measure in MEASURES[self.labels.scale].items()}

    @cached_property
    def disagreements(self) -> tuple[LabelledVerdict, ...]:
        tolerance = MAX_GRADE_DIFFERENCE if self.labels.scale == "graded" else 0

        def difference(verdict: LabelledVerdict) -> float:
            return abs(verdict.human - verdict.judge)

        differing = [verdict for verdict in self.labelled_verdicts if difference(verdict) > tolerance]
        return tuple(sorted(differing, key=lambda verdict: -difference(verdict)))

    @cached_property
    def people(self) -> HumanAgreement | None:
        by_annotator = list(zip_longest(*(verdict.item.human for verdict in self.labelled_verdicts)))
        frequent = [
            labels for labels in by_annotator if 2 * sum(label is not None for label in labels) > len(labels)
        ]
        if len(frequent) < 2:  # noqa: PLR2004 - a pair
            return None
        verdicts = [verdict.judge for verdict in self.labelled_verdicts]
        complete = [(row, judge) for *row, judge in zip(*frequent, verdicts, strict=True) if None not in row]
        annotators = list(zip(*(row for row, _ in complete), strict=True))
        judge = [verdict for _, verdict in complete]
        measure = next(iter(MEASURES[self.labels.scale].values()))
        return HumanAgreement(
            len(frequent),
            len(complete),
            _mean_agreement(measure, combinations(annotators, 2)),
            _mean_agreement(measure, ((labels, judge) for labels in annotators)),
        )

    def corrected(self, score: Score) -> Correction | None:
        """Return the mean that a score would have by people's verdicts, in [0, 1], by prediction-powered inference.

        With labels of answers, the values of the score are the judge's verdicts on answers. The estimate assumes that
        the labelled answers are a random sample of answers like the scored ones: to the same kind of questions, by the
        same kind of system. An answer that is both scored and labelled counts as labelled only.

        With labels of passages, the score is a ranking measure over the judge's labels. A question counts as labelled
        if people labelled each of its retrieved passages. It then has two values, one by people's labels and one by the
        judge's; any other question has only the judge's. The estimate assumes that the labelled questions are a random
        sample of the scored ones.

        If the labels are not known to be a random sample (`HumanLabels.sampled`), and the judge's mean on the labelled
        ones differs from that on the others by more than chance (`REFUSED_ALPHA`), there is no estimate.

        With yes/no labels of answers there is also the estimate of Rogan and Gladen, which assumes something else, and
        needs no random sample (`rogan_gladen`).

        Return None for labels of pairs, and for a slice.

        Source: for passages, Divekar and Majumder (2026), "PRECISE: Reducing the Bias of LLM Evaluations Using
        Prediction-Powered Ranking Estimation".
        """
        if self.labels.pairs or score.slice:
            return None
        if self.labels.passages:
            human, judge, unlabelled, incomplete = self._by_question(score)
            return self._correction(human, judge, unlabelled, incomplete)
        labelled = {(item.example.full_question, item.prediction) for item in self.labels.answers}
        unlabelled = [
            each.value
            for each in score.outcomes
            if each.value is not None and (each.example.full_question, each.evidence.answer) not in labelled
        ]
        human = [verdict.human for verdict in self.labelled_verdicts]
        judge = [verdict.raw for verdict in self.labelled_verdicts]
        correction = self._correction(human, judge, unlabelled)
        if self.labels.scale != "yes/no":
            return correction
        from pytest_rageval.extensions.calibration.corrections import rogan_gladen  # noqa: PLC0415 - as below

        try:
            beside: RoganGladen | str = rogan_gladen(human, judge, score.values)
        except ValueError as error:
            beside = str(error)
        return correction._replace(rogan_gladen=beside)

    def _correction(
        self,
        human: Sequence[float],
        judge: Sequence[float],
        unlabelled: Sequence[float],
        incomplete: int | None = None,
    ) -> Correction:
        # The module imports numpy, which takes 0.2 s. A calibration without corrections does not need it.
        from pytest_rageval.extensions.calibration.corrections import (  # noqa: PLC0415
            difference_p_value,
            prediction_powered_mean,
        )

        if not self.labels.sampled and judge and unlabelled:
            p_value = difference_p_value(judge, unlabelled)
            if p_value <= REFUSED_ALPHA:
                refused = (
                    f"the judge's mean is {fmean(judge):.3f} on the labelled ones and {fmean(unlabelled):.3f} on the "
                    f"others, so that the labels are no random sample (p = {p_value:.2g}); {SAMPLE_REMEDY}"
                )
                return Correction(None, len(human), incomplete, refused)
        return Correction(prediction_powered_mean(human, judge, unlabelled), len(human), incomplete)

    def _by_question(self, score: Score) -> tuple[list[float], list[float], list[float], int]:
        """Return the values of a ranking measure by question, for labels of passages.

        Returns:
            The values by people's labels and by the judge's labels of the labelled questions; the values by the judge's
            labels of the other questions; and the number of questions with incomplete labels.
        """
        spec = Spec.parse(score.spec)
        labels: dict[str, dict[str, float | None]] = {}
        for item in self.labels.passages:
            label = _consensus(item.human, self.labels.scale)
            labels.setdefault(item.example.full_question, {})[normalize_space(item.passage)] = label
        human, judge, unlabelled, incomplete = [], [], [], 0
        for outcome in score.outcomes:
            if outcome.value is None:
                continue
            by_passage = labels.get(outcome.example.full_question)
            ranking = outcome.evidence.ranking
            passages = () if ranking is None else ranking.documents[: spec.k]
            known = by_passage or {}
            ranked_labels = [known.get(normalize_space(passage.text)) for passage in passages]
            by_people = [label for label in ranked_labels if label is not None]
            if by_passage is None or len(by_people) < len(ranked_labels):
                unlabelled.append(outcome.value)
                incomplete += by_passage is not None
            else:
                human.append(usefulness(spec.part or "", by_people, spec.k))
                judge.append(outcome.value)
        return human, judge, unlabelled, incomplete


def _consensus(human: Iterable[float | None], scale: Scale) -> float | None:
    """Return the joint label of the annotators; None if as many say yes as say no."""
    labels = [label for label in human if label is not None]
    if scale == "graded":
        return fmean(labels)
    if scale == "pairwise":
        return majority(labels, tie=0.0)
    label = majority(labels, tie=inf)
    return None if label == inf else label


def _mean_agreement(
    measure: Measure, pairs: Iterable[tuple[Sequence[float], Sequence[float]]]
) -> float | None:
    values = [estimate.value for first, second in pairs if (estimate := measure(first, second)) is not None]
    return fmean(values) if values else None


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    bounds: Bounds
    calibration: Calibration
    status: Literal["pass", "fail", "error"] | None  # "error": undefined; None: no bounds
    reason: str


def check_bounds(calibration: Calibration, bounds: Bounds) -> CalibrationResult:
    """Compare the agreement with its bounds, in full precision; a value equal to its bound passes."""
    scale = calibration.labels.scale
    failed, undefined = [], []
    for name, bound in bounds.given.items():
        if name not in MEASURES[scale]:
            offered = " or ".join(f"min_{measure}" for measure in MEASURES[scale])
            raise InputError(
                f"rageval_calibration: {calibration.labels.name} holds {scale} labels, which have no {name}.\n"
                f"Give {offered} instead of min_{name}."
            )
        estimate = calibration.agreement[name]
        if estimate is None:
            undefined.append(name)
        elif estimate.value < bound:
            failed.append(f"{name} {estimate.value:.3f} is below the minimum {bound:g}")
    if failed:
        return CalibrationResult(bounds, calibration, "fail", "; ".join(failed))
    if undefined:
        items = counted(len(calibration.labelled_verdicts), "item")
        why = f"{' and '.join(undefined)} of judge and people is undefined over {items}"
        remedy = "there must be several, and both must use more than one label: label more answers, right and wrong"
        return CalibrationResult(bounds, calibration, "error", f"{why}: {remedy}")
    return CalibrationResult(bounds, calibration, "pass" if bounds.given else None, "within bounds")


ItemVerdict = Callable[[LabelledItem], Awaitable[float]]


async def judge_items(labels: HumanLabels, verdict: ItemVerdict) -> list[Outcome]:
    items = {item.example.id: item for item in labels.items}

    async def score(example: Example) -> tuple[float, Evidence]:
        item, evidence = items[example.id], Evidence()
        if isinstance(item, LabelledAnswer):
            evidence = Evidence(answer=item.prediction, expected=item.references)
        return await verdict(item), evidence

    return await score_each([item.example for item in labels.items], score)


def pipeline_verdict(pipeline: Pipeline, comparator: str | None) -> ItemVerdict:
    """Return a function that judges a labelled item as the scores of this run do."""
    # Raises the error for an unknown comparator.
    pipeline.comparison(comparator)

    def compare(question: str, references: Sequence[str], prediction: str) -> Awaitable[float]:
        return pipeline.compare(question, references, prediction, comparator)

    return _verdict(pipeline.judge, pipeline.ask, compare)


def judge_verdict(judge: Judge, scale: Scale, *, swapped: bool = False) -> ItemVerdict:
    """Return a function that returns a judge's verdict on a labelled item: yes or no, a grade, or a preference."""
    return _verdict(
        judge, judge.ask, partial(judge.ask, GRADE if scale == "graded" else COMPARE), swapped=swapped
    )


def _verdict(
    judge: Judge,
    ask: Callable[..., Awaitable[float]],
    compare: Callable[[str, Sequence[str], str], Awaitable[float]],
    *,
    swapped: bool = False,
) -> ItemVerdict:
    async def verdict(item: LabelledItem) -> float:
        question = item.example.full_question
        if isinstance(item, LabelledPair):
            return await judge_preference(judge, item, swapped=swapped)
        if isinstance(item, LabelledPassage):
            return await ask(RELEVANT, question, item.passage)
        if abstains(item.prediction):
            return 0.0  # as in scores, an abstention is wrong
        references = item.references[::-1] if swapped else item.references
        return await compare(question, references, item.prediction)

    return verdict


async def judge_preference(judge: Judge, pair: LabelledPair, *, swapped: bool = False) -> float:
    """Return 1.0 if a judge prefers the first answer of a pair, -1.0 for the second answer, 0.0 for neither."""
    answers = (pair.second, pair.first) if swapped else (pair.first, pair.second)
    better = PREFERENCES[(await judge.ask(PREFER, pair.example.full_question, *answers)).value]
    return -better if swapped else better
