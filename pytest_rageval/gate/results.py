"""The input and the result of the evaluation of a threshold, and of each of its slices."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import Verdict
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.gate.comparison import BaselineScore, Comparison, QuestionChanges
    from pytest_rageval.gate.drop_types import DropTestInput, DropTestResult
    from pytest_rageval.gate.ratio import RatioTestResult

ExampleState = Literal["asked", "unchanged", "not asked"]
"""How early stop treated an example: evaluated, taken from the baseline, or not evaluated."""


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
        pinning: whether this run pins a new anchor.
        max_removed: the largest share of the baseline's questions that may be removed or edited.
        deterministic: whether no model is in the score, so that it is the same in each run of the same retriever.
    """

    fingerprint: Mapping[str, Any]
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
class EarlyStopResult:
    """The result of evaluating the questions of a threshold in random order until its verdict is clear.

    The names of `asked`, `changed`, `unchanged`, `not_asked`, `drop` and `verdict` are also keys of the report.

    Attributes:
        states: the state of each example, by its id. Examples that cannot be compared with the baseline have a state
            only if they were not evaluated.
        changed: number of examples that can be compared and are not known to be unchanged.
        verdict: the verdict; None if all examples were evaluated, so that the usual test decides.
        drop: the estimated drop of the whole set; None if no example was evaluated.
        certain: whether a "pass" would remain even if all other examples got the lowest score.
        level: the significance level of the test of all examples.
        changes: the questions of the eval set, evaluated or not, that cannot be compared; None if they are unknown.
    """

    states: Mapping[str, ExampleState]
    changed: int
    verdict: Literal["pass", "fail"] | None
    drop: float | None = None
    certain: bool = False
    level: float = 1.0
    changes: "QuestionChanges | None" = None

    @property
    def stopped(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.verdict is not None

    @property
    def asked(self) -> int:
        """Number of changed examples that were evaluated."""
        return Counter(self.states.values())["asked"]

    @property
    def unchanged(self) -> int:
        """Number of examples that keep their score of the baseline."""
        return Counter(self.states.values())["unchanged"]

    @property
    def not_asked(self) -> int:
        """Number of examples that were not evaluated, so that their score is unknown."""
        return Counter(self.states.values())["not asked"]

    @property
    def not_comparable(self) -> int:
        """Number of examples that were not evaluated and cannot be compared with the baseline."""
        return self.not_asked - (self.changed - self.asked)

    def reason(self, threshold: Threshold) -> str:
        """Return why the evaluation stopped, as text."""
        max_drop = threshold.max_drop or 0.0
        if self.verdict == "fail" and self.drop is not None:
            larger = f"a drop of more than {max_drop:g}" if threshold.policy.burden == "beyond" else "a drop"
            how = (
                f"drop about {self.drop:.3f}, allowed {max_drop:g}: with at least 99% probability {larger} is "
                f"significant with all questions (level {self.level:.2g})"
            )
        elif self.certain:
            how = f"the remaining questions cannot raise the drop above the allowed {max_drop:g}"
        else:
            how = (
                f"with at least 99% probability the drop of all questions is at most the allowed {max_drop:g}, or not "
                f"significant (level {self.level:.2g})"
            )
        return (
            f"stopped early: {self.asked:,} of {self.changed:,} changed questions evaluated "
            f"({self.unchanged:,} unchanged): {how}"
        )


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    """The verdict on a threshold, with the score, comparison and tests that it is based on.

    Attributes:
        threshold: the threshold, limited to a single slice.
        score: the score of that slice; None if it cannot be computed.
        verdict: the verdict on the score.
        comparison: the comparison with the baseline; None without a baseline.
        drop: the test of `max_drop`; None without a test.
        anchor: the test of `max_total_drop`; if the run updates the baseline, the test of the new baseline against the
            anchor; None without a test.
        slices: with `by`, the result of each value of the tag, the worst first; this result is the first of them.
        early: the early stop of the threshold; None without it. If it stopped before all questions were evaluated,
            `score` and `comparison` are those of the known examples, and their means say nothing about the whole set.
        ratio: the comparison of `max_ratio` with the reference; None without it.
        changes: the questions of the whole eval set that cannot be compared with the baseline; None without a baseline.
        is_new: whether the threshold compares with a baseline that does not have the score yet.
        deterministic: as in `BaselineLookup`.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    comparison: "Comparison | None" = None
    drop: "DropTestResult | None" = None
    anchor: "DropTestResult | None" = None
    slices: tuple["ThresholdResult", ...] = ()
    early: EarlyStopResult | None = None
    ratio: "RatioTestResult | None" = None
    changes: "QuestionChanges | None" = None
    is_new: bool = False
    deterministic: bool = False

    @property
    def stopped_early(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.early is not None and self.early.stopped


class ThresholdInput(NamedTuple):
    """A threshold to evaluate.

    Attributes:
        score: the score of the whole eval set; with `early`, of the examples that are known.
        threshold: the threshold.
        baseline: the score's baseline.
        early: the early stop of the threshold; None without it.
    """

    score: Score
    threshold: Threshold
    baseline: BaselineLookup
    early: EarlyStopResult | None = None


@dataclass(slots=True)
class Slice:
    """A threshold on a single slice, with its comparisons and tests, which are filled in step by step.

    In an update `comparison_input` compares the score with itself, as the next run will begin. `error` and
    `anchor_error` say why a comparison is missing; `changes` are those of the whole eval set.
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
    early: EarlyStopResult | None = None
    ratio: "RatioTestResult | None" = None
    changes: "QuestionChanges | None" = None
    warnings: list[str] = field(default_factory=list)

    @property
    def comparison(self) -> "Comparison | None":
        """The comparison with the baseline; None if there is none, or this run writes the baseline."""
        compared = None if self.baseline.updating else self.comparison_input
        return None if compared is None else compared.comparison

    @property
    def stopped_early(self) -> bool:
        """True if the verdict was clear before all questions were evaluated."""
        return self.early is not None and self.early.stopped

    @property
    def drop_test_input(self) -> "DropTestInput | None":
        """The input of the test of `max_drop`; None if it is not tested."""
        return None if self.threshold.max_drop is None or self.stopped_early else self.comparison_input
