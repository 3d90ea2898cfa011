"""The input and the result of a test of a drop. `drop_tests` has the tests themselves, which few runs import."""

from dataclasses import dataclass
from typing import NamedTuple

from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.stats.intervals import UNIT

__all__ = ["Compared", "DropTest"]


class Compared(NamedTuple):
    """A score, perhaps of a slice, that is to be tested for a drop.

    Attributes:
        threshold: with `max_drop`.
        comparison: with the baseline.
        scale: the lowest and the highest value that an example may have.
        seed: of drawn sign patterns.
        level: of a threshold that was tested before, as its questions were asked; None for those of `drop_tests`.
    """

    threshold: Threshold
    comparison: Comparison
    scale: tuple[float, float] = UNIT
    seed: int = 0
    level: float | None = None

    @property
    def largest(self) -> float:
        """The largest difference that an example can have; a score without a declared scale may exceed it."""
        return max([self.scale[1] - self.scale[0], 2 * self.beyond, *map(abs, self.comparison.drops)])

    @property
    def beyond(self) -> float:
        """The null hypothesis is a drop of at most this."""
        return (self.threshold.max_drop or 0.0) if self.threshold.burden == "beyond" else 0.0


@dataclass(frozen=True, slots=True)
class DropTest:
    """The test of a drop.

    Attributes:
        comparison: the examples.
        p_value: of the null hypothesis that nothing dropped; with `burden="beyond"` that the drop is at most
            `max_drop`, with `strict` that it is at least `max_drop`. Adjusted for the thresholds that are
            tested together.
        alpha: what it is compared with: the threshold's, divided by the number of tests in the run that have
            such thresholds.
        interval: of the true drop, which agrees with the test.
        beyond: the drop that the null hypothesis allows; 0, or `max_drop`.
        detectable: the drop that this many examples show at 80% power; None with `strict`.
        needed: number of examples that would show the drop that was seen at 80% power; with `strict`,
            that would exclude a drop of `max_drop`. None where no number would, or more than 32 times as many.
        least: number of examples that could show a drop if all of them got worse; None with `strict`.
        clusters: number of clusters of examples; None where examples are tested as independent.
        design_effect: how many examples count as one, for clusters or, where there are none, for examples that share
            gold passages; 1 where neither, and never below.
        skewed: whether the result is significant only if losses and gains are of similar size.
        settled: False where the p-value is too close to alpha for 1,000,000 random draws.
    """

    comparison: Comparison
    p_value: float
    alpha: float
    interval: tuple[float, float]
    beyond: float = 0.0
    detectable: float | None = None
    needed: int | None = None
    least: int | None = None
    clusters: int | None = None
    design_effect: float = 1.0
    skewed: bool = False
    settled: bool = True

    @property
    def significant(self) -> bool:
        """True if the null hypothesis is rejected."""
        return self.p_value <= self.alpha
