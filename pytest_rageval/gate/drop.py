"""Whether a score's drop below its baseline is more than noise."""

from dataclasses import dataclass
from math import ceil
from typing import Final

from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.stats.paired import RESAMPLES, paired_test
from pytest_rageval.stats.power import detectable_drop, examples_needed

__all__ = ["DropTest", "drop_test"]

BELOW: Final = 20
"""How many times smaller than the level the smallest p-value of drawn signs must be: none could else be significant."""


@dataclass(frozen=True, slots=True)
class DropTest:
    """What the examples say of a drop.

    Attributes:
        comparison: the examples then and now.
        p_value: of the test that decides: that nothing dropped, or where the threshold is strict, that
            the drop is at least `max_drop`.
        alpha: the level it is held against: the threshold's, divided by the number of such thresholds.
        detectable: the drop that this many examples show with a probability of 80%; None where the
            threshold is strict.
        needed: how many examples would show the drop that was seen, likewise; where the threshold is
            strict, how many like these would exclude one of `max_drop`. None where no number would, or
            more than 32 times as many.
    """

    comparison: Comparison
    p_value: float
    alpha: float
    detectable: float | None
    needed: int | None

    @property
    def significant(self) -> bool:
        """Whether the null hypothesis is rejected."""
        return self.p_value <= self.alpha


def drop_test(  # noqa: PLR0913 - what a test of a drop is made of
    comparison: Comparison,
    *,
    max_drop: float,
    strict: bool,
    alpha: float,
    largest: float = 1.0,
    seed: int = 0,
) -> DropTest:
    """Test the drop over the examples that can be compared.

    Args:
        comparison: at least one example.
        max_drop: the largest drop that is allowed.
        strict: whether the burden of proof is on the retriever.
        alpha: of this one test.
        largest: the largest drop that an example can have: how far the scale of the score reaches.
        seed: of the draws where not all sign patterns are weighed.
    """
    drops = comparison.drops
    # A score that another plugin added may reach further than anybody said.
    largest = max([largest, *map(abs, drops)])
    if strict:
        p_value, needed = _exclusion(drops, max_drop, alpha, largest)
        return DropTest(comparison, p_value, alpha, None, needed)
    return DropTest(
        comparison,
        paired_test(drops, seed=seed, resamples=max(RESAMPLES, ceil(BELOW / alpha))).p_value,
        alpha,
        detectable_drop(drops, alpha=alpha, max_drop=max_drop),
        examples_needed(drops, alpha=alpha, max_drop=max_drop),
    )


def _exclusion(drops: list[float], margin: float, alpha: float, largest: float) -> tuple[float, int | None]:
    """The p-value of "the drop is `margin` or more", and how many examples of which these are typical exclude it.

    In steps of as many as there are; None where 32 times as many do not.
    """
    # Imported late: of all that a gate needs, only this needs numpy whatever the scores.
    from pytest_rageval.stats.noninferiority import noninferiority  # noqa: PLC0415

    p_value = noninferiority(drops, margin, largest=largest)
    if p_value <= alpha:
        return p_value, len(drops)
    for times in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if noninferiority(drops * times, margin, largest=largest) <= alpha:
            return p_value, times * len(drops)
    return p_value, None
