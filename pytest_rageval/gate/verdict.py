"""`Verdict`: whether a score is within the bounds of its threshold, with the reason as text; the bounds on its mean."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.core.errors import Cause, RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.baseline.entries import BaselineScore
    from pytest_rageval.gate.comparison import Comparison, QuestionChanges
    from pytest_rageval.gate.drop_tests import DropTestInput, DropTestResult

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

UNSURE: Final = "UNSURE: "  # begins the reason of an inconclusive verdict, and of no other

excluded_text: Final = Lazy("gate.sentences", "excluded_text")  # few examples have no score


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a threshold.

    With the status `inconclusive` the test passes. `brief` has the violated bounds of a failure, such as
    "0.593 < 0.85; drop 0.346 > 0.02"; else it is empty.
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()
    brief: str = ""

    def warnings_beside(self, worst: Status) -> tuple[str, ...]:
        """Return the warnings; where another bound fails, without what this one is unsure of."""
        hidden = {self.reason} if worst in {"error", "fail"} and self.status == "inconclusive" else set()
        return tuple(text for text in self.warnings if text not in hidden)


class RatioTestResult(NamedTuple):
    """The ratio of a score that is a time to that of the `reference` retriever, over the n examples timed with both.

    The 95% `interval` is None with fewer examples than `min_examples`.
    """

    reference: float
    ratio: float
    interval: tuple[float, float] | None
    n: int
    min_examples: int


class Measured(NamedTuple):
    """What a threshold is decided on; see `ThresholdResult`."""

    score: Score
    comparison: "Comparison | None" = None
    drop: "DropTestResult | None" = None
    anchor: "DropTestResult | None" = None
    ratio: RatioTestResult | None = None
    deterministic: bool = False


def mean_bounds(threshold: Threshold) -> Iterator[tuple[str, float, str, str]]:
    """Yield `min` and `max` if they are set: the keyword, its value, and a description and sign of its violation."""
    if threshold.min is not None:
        yield "min", threshold.min, "below the minimum", "<"
    if threshold.max is not None:
        yield "max", threshold.max, "above the maximum", ">"


def is_violated(mean: float, keyword: str, bound: float) -> bool:
    """Whether a mean is beyond a bound, `min` or `max`."""
    # The mean of n equal numbers can differ from them in the last bit; that is not a violation.
    return mean < bound - SCORE_TOLERANCE if keyword == "min" else mean > bound + SCORE_TOLERANCE


def bounds_at_risk(score: Score, threshold: Threshold, *causes: Cause) -> Iterator[tuple[str, str]]:
    """Yield the bounds that are violated if examples unscored for these causes count with the worst score, and why."""
    unscored = score.lacking(*causes)
    if not unscored:
        return
    for keyword, bound, how, _ in mean_bounds(threshold):
        worst = score.reach[keyword == "max"]
        mean = score.counting(worst, *causes)
        if is_violated(mean, keyword, bound):
            mean_text = format_against(mean, bound)
            text = (
                f"{excluded_text(score, unscored)}; with {worst:g} for each of them it would be {mean_text}"
            )
            yield keyword, f"{score:.3f} is {text}, {how} {bound:g}"


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on several bounds: the worst one, with the reasons of all bounds that explain it."""
    ordered = sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
    worst = ordered[0].status
    # What passes is of interest only if all bounds pass, and what is unsure only if none fails.
    hidden = WORST_FIRST[max(WORST_FIRST.index(worst), WORST_FIRST.index("fail")) + 1 :]
    return Verdict(
        worst,
        "; ".join(verdict.reason for verdict in ordered if verdict.status not in hidden),
        tuple(text for verdict in ordered for text in verdict.warnings_beside(worst)),
        "; ".join(verdict.brief for verdict in ordered if verdict.brief),
    )


def inconclusive(threshold: Threshold, text: str, brief: str) -> Verdict:
    """Return the verdict on a bound that the data cannot decide."""
    text = text.removeprefix(UNSURE)
    if threshold.policy.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", UNSURE + text, (UNSURE + text,))


def format_against(number: float, bound: float) -> str:
    """Format a number with three decimals, or as many as are needed to show on which side of the bound it is."""
    texts = (f"{number:.{digits}f}" for digits in range(3, 12))
    return next((text for text in texts if (number - bound) * (float(text) - bound) > 0), f"{number:.12f}")


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """The baseline of a score, or why there is none.

    Attributes:
        fingerprint: what the score depends on in this run, apart from the retriever.
        before: the score in the baseline; None if it is missing.
        updating: whether this run writes the baseline, so that nothing is compared with it.
        required: whether a missing baseline is an error.
        missing: why the comparison is an error: the test is in the file under another name, the generator or judge
            changed, or the score is no baseline, as nothing is below it. Empty if there is no file.
        new: why the score is not in the file; empty if it is, or if there is no file.
        tolerance: differences of an example's scores up to this are rounding.
        anchor: the score in the anchor; None if it is missing or not needed.
        max_removed: the largest share of the baseline's questions that may be removed or edited.
        deterministic: whether no model is in the score, so that it is the same in each run of the same retriever.
    """

    fingerprint: Mapping[str, object]
    before: "BaselineScore | None"
    updating: bool = False
    required: bool = False
    missing: str = ""
    new: str = ""
    tolerance: float = SCORE_TOLERANCE
    anchor: "BaselineScore | None" = None
    pinning: bool = False
    max_removed: float = 0.1
    deterministic: bool = False


@dataclass(frozen=True, slots=True)
class PartialEvaluation(ABC):
    """How an extension evaluated the questions of a threshold that does not need all of them.

    `level` is the significance level of the test of all questions. `changes` are the questions of the eval set,
    evaluated or not, that cannot be compared; None if they are unknown.
    """

    level: float
    changes: "QuestionChanges | None"

    @property
    @abstractmethod
    def stopped(self) -> bool:
        """Whether the verdict was clear before all questions were evaluated; else the usual test decides."""

    @property
    @abstractmethod
    def asked(self) -> int:
        """The number of questions that were evaluated."""

    @abstractmethod
    def verdict_on(self, score: Score, threshold: Threshold, comparison: "Comparison") -> Verdict:
        """Return the verdict if the evaluation has stopped; score and comparison are of the known questions."""

    @abstractmethod
    def complete_entry(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entry of the score in the report with how it was evaluated."""


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    """The verdict on a threshold, with the score, comparison and tests that it is based on.

    Attributes:
        threshold: the threshold, limited to a single slice.
        score: the score of that slice; None if it cannot be computed.
        comparison: the comparison with the baseline; None without a baseline.
        drop: the test of `max_drop`; None without a test.
        anchor: the test of `max_total_drop`; in an update, the test of the new baseline against the anchor.
        slices: with `by`, the result of each value of the tag, the worst first; this result is the first of them.
        early: how a part was evaluated; if it stopped before all questions were, `score` and `comparison` are those of
            the known examples, and their means say nothing about the whole set.
        ratio: the comparison of `max_ratio` with the reference; None without it.
        changes: the questions of the whole eval set that cannot be compared with the baseline; None without a baseline.
        is_new: whether the threshold compares with a baseline that does not have the score yet.
        outside: with `by`, the number of questions that do not have the tag, and are in no slice.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    comparison: "Comparison | None" = None
    drop: "DropTestResult | None" = None
    anchor: "DropTestResult | None" = None
    slices: tuple["ThresholdResult", ...] = ()
    early: PartialEvaluation | None = None
    ratio: RatioTestResult | None = None
    changes: "QuestionChanges | None" = None
    is_new: bool = False
    deterministic: bool = False
    outside: int = 0

    @property
    def stopped_early(self) -> bool:
        return self.early is not None and self.early.stopped


class ThresholdInput(NamedTuple):
    """A threshold to evaluate, with the score of the whole eval set; with `early`, of the examples that are known."""

    score: Score
    threshold: Threshold
    baseline: BaselineLookup
    early: PartialEvaluation | None = None


@dataclass(slots=True)
class Slice:
    """A threshold on a single slice, with its comparisons and tests, which are filled in step by step.

    In an update `comparison_input` compares the score with itself, as the next run will begin. `error` and
    `anchor_error` say why a comparison is missing; `changes` are those of the whole eval set; `outside`: see
    `ThresholdResult`.
    """

    threshold: Threshold
    baseline: BaselineLookup
    score: Score | None = None
    error: RagevalError | None = None
    comparison_input: "DropTestInput | None" = None
    drop: "DropTestResult | None" = None
    anchor_input: "DropTestInput | None" = None
    anchor: "DropTestResult | None" = None
    anchor_error: RagevalError | None = None
    early: PartialEvaluation | None = None
    ratio: RatioTestResult | None = None
    changes: "QuestionChanges | None" = None
    outside: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def comparison(self) -> "Comparison | None":
        """The comparison with the baseline; None if there is none, or this run writes the baseline."""
        compared = None if self.baseline.updating else self.comparison_input
        return None if compared is None else compared.comparison

    @property
    def stopped_early(self) -> bool:
        return self.early is not None and self.early.stopped

    @property
    def drop_test_input(self) -> "DropTestInput | None":
        """The input of the test of `max_drop`; None if it is not tested."""
        return None if self.threshold.max_drop is None or self.stopped_early else self.comparison_input
