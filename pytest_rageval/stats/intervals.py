"""Statistics of a sample, such as the mean, with their confidence intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = [
    "MEAN",
    "ROUNDING",
    "UNIT",
    "Z95",
    "Estimate",
    "Mean",
    "Quantile",
    "Statistic",
    "mean_interval",
    "mean_intervals",
    "quantile_interval",
    "share",
    "wilson",
]

Z95: Final = 1.959963984540054  # the 97.5% quantile of the standard normal distribution

UNIT: Final = (0.0, 1.0)  # the scale of most scores, from the lowest to the highest

ROUNDING: Final = 1e-12  # differences up to this are rounding of scores, which are of the order of 1


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


Interval = tuple[float, float] | None


def mean_interval(values: Sequence[float], *, scale: tuple[float, float] = UNIT, seed: int = 0) -> Interval:
    """`mean_intervals` of one sample."""
    return mean_intervals([values], scale=scale, seed=seed)[0]


def mean_intervals(
    samples: Sequence[Sequence[float]], *, scale: tuple[float, float] = UNIT, seed: int = 0
) -> list[Interval]:
    """95% intervals of the means of independent scores; those of a sample do not depend on the others.

    Args:
        samples: of equally many examples, one score per example each, any real numbers.
        scale: the lowest and the highest possible score; an end may be infinite.
        seed: of the bootstrap; not used for proportions.

    Returns:
        Of each sample `(low, high)`: Wilson's interval where each score is one end of the scale or the other, such as
        0 or 1; the BCa bootstrap otherwise. Where all scores are one number in between there is nothing to resample:
        the interval then allows as many unseen scores at either end of the scale as Wilson's interval does when none
        of n was seen. None without scores, for a single score in between, which has no spread, and for equal scores on
        a scale without an end.
    """
    found = [_without_resamples(values, scale) for values in samples]
    varied = [values for values, interval in zip(samples, found, strict=True) if interval is VARIED]
    if not varied:
        return found
    # numpy takes 0.2 s to import, which a run of 0/1 scores need not pay.
    from pytest_rageval.stats.bootstrap import bca_means  # noqa: PLC0415

    resampled = iter(bca_means(varied, seed=seed))
    return [next(resampled) if interval is VARIED else interval for interval in found]


VARIED: Final = (math.nan, math.nan)
"""Stands for an interval that needs resamples."""


def _without_resamples(values: Sequence[float], scale: tuple[float, float]) -> Interval:
    """The interval of the mean where no bootstrap is needed; else `VARIED`."""
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
    return VARIED


def quantile_interval(values: Sequence[float], level: float) -> tuple[float, float] | None:
    """95% interval of a quantile of independent values, between two of them; no distribution is assumed.

    Args:
        values: a sample.
        level: of the quantile, such as 0.5 for the median.

    Returns:
        The l-th and the u-th smallest value, with the largest l for which `P(B < l) <= 2.5%`, and the smallest u for
        which `P(B >= u) <= 2.5%`, where B is binomial of n values and `level`. None where there is no such l or u:
        below 6 values for the median, below 72 for the 95th percentile.

    Source: David and Nagaraja (2003), "Order Statistics", section 7.1.

    >>> quantile_interval(range(1, 101), 0.5)
    (40, 61)
    """
    ordered, n = sorted(values), len(values)
    tail, below, low, high = 0.025, 0.0, 0, 0
    for place in range(n + 1):
        # Of place, below is P(B < place).
        if below <= tail:
            low = place
        if 1 - below <= tail + 1e-12 and not high:
            high = place
        below += _binomial(n, place, level)
    return (ordered[low - 1], ordered[high - 1]) if low and high else None


def _binomial(n: int, successes: int, share: float) -> float:
    """The probability of so many successes; by logarithms, since a factor may be too small for a float."""
    ways = math.lgamma(n + 1) - math.lgamma(successes + 1) - math.lgamma(n - successes + 1)
    return math.exp(ways + successes * math.log(share) + (n - successes) * math.log1p(-share))


class Statistic(Protocol):
    """What sums up the values of the examples, with its interval."""

    @property
    def name(self) -> str:
        """In messages and reports, such as "mean"."""

    def of(self, values: Sequence[float]) -> float:
        """The statistic of at least one value."""

    def intervals(
        self, samples: Sequence[Sequence[float]], *, scale: tuple[float, float], seed: int
    ) -> list[Interval]:
        """Its 95% interval for each of some samples of one size; None where the values allow none."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of scores, with `mean_intervals`."""

    name: str = "mean"

    def of(self, values: Sequence[float]) -> float:
        """The mean."""
        return math.fsum(values) / len(values)

    def intervals(
        self, samples: Sequence[Sequence[float]], *, scale: tuple[float, float], seed: int
    ) -> list[Interval]:
        """As `mean_intervals`."""
        return mean_intervals(samples, scale=scale, seed=seed)


MEAN: Final = Mean()


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest value that at least the share `level` of the values do not exceed, with `quantile_interval`.

    >>> Quantile(0.95).of(range(1, 101)), Quantile(0.95).name
    (95, 'p95')
    """

    level: float

    @property
    def name(self) -> str:
        """Such as "p95"."""
        return f"p{100 * self.level:g}"

    def place(self, n: int) -> int:
        """Of n values in their order, the place of the quantile, from 0."""
        # A product such as 0.07 * 100 is a little more than the number it stands for.
        return max(math.ceil(self.level * n - 1e-9), 1) - 1

    def of(self, values: Sequence[float]) -> float:
        """The quantile."""
        return sorted(values)[self.place(len(values))]

    def intervals(
        self, samples: Sequence[Sequence[float]], *, scale: tuple[float, float], seed: int
    ) -> list[Interval]:
        """As `quantile_interval`; no value is drawn, and the scale does not matter."""
        del scale, seed
        return [quantile_interval(values, self.level) for values in samples]
