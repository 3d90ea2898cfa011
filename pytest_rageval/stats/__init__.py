"""Statistics over per-example scores: numbers in, numbers out."""

from collections.abc import Sequence
from typing import Final

__all__ = ["UNIT", "mean_interval"]

UNIT: Final = (0.0, 1.0)
"""The scale of most scores: from nothing to all."""


def mean_interval(
    values: Sequence[float], *, scale: tuple[float, float] = UNIT, seed: int = 0
) -> tuple[float, float] | None:
    """95% interval of the mean of independent scores.

    Args:
        values: one score an example, any real numbers.
        scale: the lowest and the highest score there can be.
        seed: of the bootstrap; not used for proportions.

    Returns:
        `(low, high)`: Wilson's interval where all scores are one end of the scale or the other, as
        where all are 0 or 1, the BCa bootstrap otherwise. Where all are one number in between there is
        nothing to resample, and some of those not seen may be another all the same: so many as Wilson's
        interval allows of which none was seen, at either end of the scale. None where fewer than two scores
        say nothing of their spread and are no proportion either, or where there is none.
    """
    if not values:
        return None
    lowest, highest = scale
    if all(value in scale for value in values):
        from pytest_rageval.stats.proportion import wilson  # noqa: PLC0415 - see below

        low, high = wilson(sum(value == highest for value in values), len(values))
        return lowest + low * (highest - lowest), lowest + high * (highest - lowest)
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    value = values[0]
    if lowest < value < highest and all(each == value for each in values):
        from pytest_rageval.stats.proportion import wilson  # noqa: PLC0415 - see below

        _, others = wilson(0, len(values))
        return value - others * (value - lowest), value + others * (highest - value)
    # numpy costs a fifth of a second, which a run of 0/1 scores need not pay.
    from pytest_rageval.stats.bootstrap import bca_mean  # noqa: PLC0415

    return bca_mean(values, seed=seed)
