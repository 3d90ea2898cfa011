"""Confidence intervals of means and of proportions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["UNIT", "Z95", "Estimate", "mean_interval", "share", "wilson"]

Z95: Final = 1.959963984540054  # the 97.5% quantile of the standard normal distribution

UNIT: Final = (0.0, 1.0)  # the scale of most scores, from the lowest to the highest


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of a sample, with the bounds of its 95% interval."""

    value: float
    low: float
    high: float


def share(successes: int, n: int) -> Estimate:
    """Return `successes / n`, for n ≥ 1, with Wilson's interval."""
    return Estimate(successes / n, *wilson(successes, n))


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a proportion of n ≥ 1, without continuity correction.

    `(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)` with `p = successes/n`. Within [0, 1]; never of zero width,
    unlike the normal interval at p = 0 or 1.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference".

    >>> [round(bound, 4) for bound in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    p = successes / n
    z2 = Z95**2
    centre = p + z2 / (2 * n)
    margin = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    # At p = 0 and p = 1 a bound is exact; rounding must not move it.
    low = 0.0 if successes == 0 else (centre - margin) / scale
    high = 1.0 if successes == n else (centre + margin) / scale
    return low, high


def mean_interval(
    values: Sequence[float], *, scale: tuple[float, float] = UNIT, seed: int = 0
) -> tuple[float, float] | None:
    """95% interval of the mean of independent scores.

    Args:
        values: one score an example, any real numbers.
        scale: the lowest and the highest possible score; an end may be infinite.
        seed: of the bootstrap; not used for proportions.

    Returns:
        `(low, high)`: Wilson's interval where each score is one end of the scale or the other, such as 0 or 1; the
        BCa bootstrap otherwise. Where all scores are one number in between there is nothing to resample: the interval
        then allows as many unseen scores at either end of the scale as Wilson's interval does when none of n was
        seen. None without scores, for a single score in between, which has no spread, and for equal scores on a
        scale without an end.
    """
    if not values:
        return None
    lowest, highest = scale
    bounded = math.isfinite(lowest) and math.isfinite(highest)
    if bounded and all(value in scale for value in values):
        low, high = wilson(sum(value == highest for value in values), len(values))
        return lowest + low * (highest - lowest), lowest + high * (highest - lowest)
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    value = values[0]
    constant = all(each == value for each in values)
    if constant and not bounded:
        return None
    if constant and lowest < value < highest:
        _, others = wilson(0, len(values))
        return value - others * (value - lowest), value + others * (highest - value)
    # numpy takes 0.2 s to import, which a run of 0/1 scores need not pay.
    from pytest_rageval.stats.bootstrap import bca_mean  # noqa: PLC0415

    return bca_mean(values, seed=seed)
