"""Has a mean fallen? An e-process that may be looked at every day.

Values are between 0 and 1. A day has counts of values: within a day the bets are the same, so that their order does
not matter.

Source: Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting"; restarted each day:
Shin, Ramdas and Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change detection".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import exp, log1p, sqrt
from statistics import NormalDist, fmean
from typing import Final

Counts = Mapping[float, int]
"""How often each value was observed."""

YEAR: Final = 365
BETS: Final = tuple(
    2.0**-n for n in range(1, 7)
)  # shares of the largest bet with which nothing can be lost entirely
LARGEST_GROWTH: Final = 300.0  # of a day, as a logarithm: more would overflow, and is an alarm anyway


def evidence(days: Iterable[Counts], allowed: float) -> Iterator[float]:
    """Yield after each day the evidence that on some day the mean fell below `allowed`, in (0, 1).

    A gambler gets 1/365 on each day, and bets on each question that its value is below `allowed`: a bet with the stake
    λ multiplies the capital by `1 + λ·(allowed - value)`, which is 1 on average if the mean is `allowed`, and less if
    it is higher. So the capital is at most T/365 on average after T days without a fall, and reaches 1/α within a year
    with a probability of at most α (Ville's inequality), whenever one looks. Money that came later has lost nothing
    before, so that a late fall is found as fast as an early one. The evidence is the mean over `BETS`, as different
    falls need different stakes.
    """
    capital = [0.0] * len(BETS)
    for counts in days:
        for index, bet in enumerate(BETS):
            stake = bet / (1 - allowed)
            growth = sum(n * log1p(stake * (allowed - value)) for value, n in counts.items())
            before = min(capital[index] + 1 / YEAR, exp(LARGEST_GROWTH))
            capital[index] = before * exp(min(growth, LARGEST_GROWTH))
        yield fmean(capital)


def lower_end(counts: Counts, alpha: float) -> float:
    """Return a number that the mean is below with a probability of about `alpha`: with two values, Agresti and Coull's.

    To the values are added z²/2 zeros and z²/2 ones, before the normal interval of the mean is computed. So it is not
    empty if all values are equal.
    """
    z = NormalDist().inv_cdf(1 - alpha)
    n = sum(counts.values()) + z * z
    mean, square = (
        (sum(value**power * times for value, times in counts.items()) + z * z / 2) / n for power in (1, 2)
    )
    return mean - z * sqrt((square - mean * mean) / n)


def pooled(days: Iterable[Counts]) -> Counts:
    total: Counter[float] = Counter()
    for counts in days:
        total.update(counts)
    return total


def mean_of(counts: Counts) -> float:
    return sum(value * n for value, n in counts.items()) / sum(counts.values())
