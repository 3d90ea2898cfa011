"""Statistics of a sample, such as the mean and quantiles, and their 95% confidence intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Z95: Final = 1.959963984540054  # the 97.5% quantile of the standard normal distribution

UNIT: Final = (0.0, 1.0)  # the lowest and the highest value of most scores

SCORE_TOLERANCE: Final = 1e-12
"""Differences of scores up to this are floating-point rounding; scores are of the order of 1."""


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    low: float
    high: float


def proportion(successes: int, n: int) -> Estimate:
    return Estimate(successes / n, *wilson_interval(successes, n))


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Wilson's 95% score interval of a proportion of n ≥ 1 trials, without continuity correction.

    `(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)` with `p = successes/n`. It lies within [0, 1]. Unlike the
    normal interval, its width is positive even at p = 0 and p = 1.

    Source: Wilson (1927), "Probable inference, the law of succession, and statistical inference".

    >>> [round(bound, 4) for bound in wilson_interval(8, 10)]
    [0.4902, 0.9433]
    """
    p = successes / n
    z2 = Z95**2
    centre = p + z2 / (2 * n)
    margin = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    # At p = 0 and p = 1 one bound is exact; rounding must not move it.
    low = 0.0 if successes == 0 else (centre - margin) / scale
    high = 1.0 if successes == n else (centre + margin) / scale
    return low, high


Interval = tuple[float, float] | None


def mean_interval(values: Sequence[float], *, scale: tuple[float, float] = UNIT, seed: int = 0) -> Interval:
    return mean_intervals([values], scale=scale, seed=seed)[0]


def mean_intervals(
    samples: Sequence[Sequence[float]], *, scale: tuple[float, float] = UNIT, seed: int = 0
) -> list[Interval]:
    """95% confidence intervals of the means of several samples, of the same size, of independent scores.

    The interval of a sample does not depend on the other samples. Either end of the scale may be infinite.

    - Wilson's interval if every score is an end of the scale, such as 0 or 1.
    - If all scores are the same number between the ends, resampling would give zero width. The bounds are then the
      means with unseen scores at the lower and the upper end of the scale; their share is the upper bound of Wilson's
      interval of 0 out of n.
    - Otherwise the BCa bootstrap interval.
    - None for an empty sample, for a single score between the ends, and for equal scores on a scale with an infinite
      end.
    """
    closed_form = [_interval_without_bootstrap(values, scale) for values in samples]
    to_resample = [
        values
        for values, interval in zip(samples, closed_form, strict=True)
        if interval is BOOTSTRAP_REQUIRED
    ]
    if not to_resample:
        return closed_form
    # numpy takes 0.2 s to import, and a run with only 0/1 scores does not need it.
    from pytest_rageval.stats.bootstrap import bca_means  # noqa: PLC0415

    resampled = iter(bca_means(to_resample, seed=seed))
    return [next(resampled) if interval is BOOTSTRAP_REQUIRED else interval for interval in closed_form]


BOOTSTRAP_REQUIRED: Final = (math.nan, math.nan)
"""Placeholder for an interval that only the bootstrap can compute."""


def _interval_without_bootstrap(values: Sequence[float], scale: tuple[float, float]) -> Interval:
    """Return the interval of the mean if no bootstrap is needed, else `BOOTSTRAP_REQUIRED`."""
    if not values:
        return None
    lowest, highest = scale
    bounded = math.isfinite(lowest) and math.isfinite(highest)
    if bounded and set(scale).issuperset(values):
        low, high = wilson_interval(values.count(highest), len(values))
        return lowest + low * (highest - lowest), lowest + high * (highest - lowest)
    if len(values) < 2:  # noqa: PLR2004 - a variance needs two values
        return None
    value = values[0]
    constant = all(other == value for other in values)
    if constant and not bounded:
        return None
    if constant and lowest < value < highest:
        _, unseen = wilson_interval(0, len(values))
        return value - unseen * (value - lowest), value + unseen * (highest - value)
    return BOOTSTRAP_REQUIRED


def quantile_interval(values: Sequence[float], level: float) -> tuple[float, float] | None:
    """95% distribution-free confidence interval of a quantile, between two order statistics of n independent values.

    The l-th and the u-th smallest value, where l is the largest number with `P(B < l) <= 2.5%`, u is the smallest
    number with `P(B >= u) <= 2.5%`, and B is binomial with n trials and probability `level`. None if there is no such l
    or u: with fewer than 6 values for the median, and fewer than 72 for the 95th percentile.

    Source: David and Nagaraja (2003), "Order Statistics", section 7.1.

    >>> quantile_interval(range(1, 101), 0.5)
    (40, 61)
    """
    ordered, n = sorted(values), len(values)
    tail, below, low, high = 0.025, 0.0, 0, 0
    for rank in range(n + 1):
        # Here `below` is P(B < rank).
        if below <= tail:
            low = rank
        if 1 - below <= tail + 1e-12 and not high:
            high = rank
        below += binomial_probability(n, rank, level)
    return (ordered[low - 1], ordered[high - 1]) if low and high else None


MAX_N_EXACT: Final = 1000
"""Up to this number of trials the number of ways is an exact integer; above, the error is about 1e-11."""


def binomial_probability(trials: int, successes: int, probability: float) -> float:
    if probability in {0, 1}:
        return float(successes == trials * probability)
    if trials <= MAX_N_EXACT:
        powers = probability**successes * (1 - probability) ** (trials - successes)
        return math.comb(trials, successes) * powers
    log_ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    return math.exp(
        log_ways + successes * math.log(probability) + (trials - successes) * math.log1p(-probability)
    )


@dataclass(frozen=True, slots=True)
class Mean:
    """The arithmetic mean; its intervals are those of `mean_intervals`."""

    name: str = "mean"

    def compute(self, values: Sequence[float]) -> float:
        return math.fsum(values) / len(values)

    def intervals(
        self, samples: Sequence[Sequence[float]], *, scale: tuple[float, float], seed: int
    ) -> list[Interval]:
        return mean_intervals(samples, scale=scale, seed=seed)


MEAN: Final = Mean()


@dataclass(frozen=True, slots=True)
class Quantile:
    """The smallest value v such that at least the share `level` of the values are at most v.

    Its intervals are those of `quantile_interval`.

    >>> Quantile(0.95).compute(range(1, 101)), Quantile(0.95).name
    (95, 'p95')
    """

    level: float

    @property
    def name(self) -> str:
        return f"p{100 * self.level:g}"

    def index(self, n: int) -> int:
        # A product such as 0.07 * 100 is slightly above the exact value, and must not be rounded up.
        return max(math.ceil(self.level * n - 1e-9), 1) - 1

    def compute(self, values: Sequence[float]) -> float:
        return sorted(values)[self.index(len(values))]

    def intervals(
        self, samples: Sequence[Sequence[float]], *, scale: tuple[float, float], seed: int
    ) -> list[Interval]:
        del scale, seed
        return [quantile_interval(values, self.level) for values in samples]


Statistic = Mean | Quantile
"""Reduces the scores of the examples to one number, with a confidence interval."""
