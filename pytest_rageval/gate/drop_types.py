"""The input and the result of a test of a drop.

The tests are in `drop_tests`, which is imported only if a drop is tested.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.stats.intervals import UNIT

MIN_CLUSTERS: Final = 20
"""With fewer clusters the test of a drop has little power, and its level is only approximate."""


class DropTestInput(NamedTuple):
    """A score, perhaps of a slice, whose drop is to be tested.

    Attributes:
        threshold: the threshold, which has a `max_drop`.
        comparison: the comparison of the score with the baseline or its anchor.
        scale: the lowest and the highest value that an example may have.
        seed: seed of random sign patterns.
        level: the level of the test, for a threshold with early stop whose questions were all evaluated; None for the
            level that `drop_tests` computes.
    """

    threshold: Threshold
    comparison: Comparison
    scale: tuple[float, float] = UNIT
    seed: int = 0
    level: float | None = None

    @property
    def largest(self) -> float:
        """The largest possible difference of an example; a score without a declared scale may exceed its scale."""
        return max([self.scale[1] - self.scale[0], 2 * self.beyond, *map(abs, self.comparison.drops)])

    @property
    def beyond(self) -> float:
        """The mean drop under the null hypothesis: `max_drop` with the burden "beyond", else 0."""
        return (self.threshold.max_drop or 0.0) if self.threshold.policy.burden == "beyond" else 0.0


@dataclass(frozen=True, slots=True)
class DropTestResult:
    """The result of a test of a drop.

    Attributes:
        comparison: the comparison of the examples that were tested.
        p_value: the p-value of the null hypothesis that the mean drop is at most `beyond`, adjusted for the thresholds
            that are tested jointly. With the burden "exclude" the null hypothesis is that the drop is at least
            `max_drop`.
        alpha: the level that the p-value is compared with: the threshold's alpha divided by its number of shares.
        interval: the confidence interval of the true drop; it agrees with the test.
        beyond: the mean drop under the null hypothesis: 0, or `max_drop`.
        detectable_drop: the drop that this number of examples detects at 80% power; None with the burden "exclude".
        examples_needed: the number of examples that would detect the observed drop at 80% power; with the burden
            "exclude", that would exclude a drop of `max_drop`. None if no number would, or, with this burden, more than
            32 times as many.
        min_examples: the smallest number of examples, or clusters, that can show a drop if all of them get worse; with
            the burden "exclude", that can exclude one if nothing changed.
        cluster: what makes examples a cluster: a tag, "gold.source" or "gold.id"; None if they are independent.
        n_clusters: number of clusters of examples; None if the examples are tested as independent.
        design_effect: the variance factor of clusters or, without clusters, of examples that share gold passages; at
            least 1, and 1 if there are neither.
        needs_symmetry: True if the result is significant only under the assumption that losses and gains are of similar
            size.
        settled: False if the p-value is too close to alpha for 1,000,000 random draws.
        with_lost: the result if the examples that had a score and have none now had the lowest one; None if there are
            none.
        all_wrong: the result if all examples had the lowest score; None with the burden "exclude", or if so many can
            lose that the test would be significant without doubt.
    """

    comparison: Comparison
    p_value: float
    alpha: float
    interval: tuple[float, float]
    beyond: float = 0.0
    detectable_drop: float | None = None
    examples_needed: int | None = None
    min_examples: int | None = None
    cluster: str | None = None
    n_clusters: int | None = None
    design_effect: float = 1.0
    needs_symmetry: bool = False
    settled: bool = True
    with_lost: "DropTestResult | None" = None
    all_wrong: "DropTestResult | None" = None

    @property
    def significant(self) -> bool:
        """True if the null hypothesis is rejected."""
        return self.p_value <= self.alpha
