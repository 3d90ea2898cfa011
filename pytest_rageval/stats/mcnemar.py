"""Paired scores of 0 or 1: the mid-p McNemar test, and Tango's interval."""

import math
from statistics import NormalDist

__all__ = ["mid_p", "tango"]

WHOLE = 1000
"""Up to so many changes the tail is summed in whole numbers; beyond, floats are right to about 1e-11."""
NOTHING = 1e-17  # a share that changes no float
HALVINGS = 60  # steps of a bisection on [-1, 1]: more than a float can tell apart


def mid_p(lost: int, gained: int) -> float:
    """One-sided p-value of the mid-p McNemar test: were more questions lost than gained?

    `P(X > lost) + P(X = lost) / 2` with X binomial of `lost + gained` fair coins: the exact McNemar p-value, in
    which the probability of the observed table counts half. A number in (0, 1); 1 where nothing changed.

    The size of the exact test is far below its level where few questions changed. The size of the mid-p test at level
    0.05 is at most 5.02% for any number of questions if at most half of them change
    (`python tests/benchmarks/false_alarms.py 1 size`); if all do it is up to 7.3%, with 12 questions.

    Source: Fagerland, Lydersen and Laake (2013), "The McNemar test for binary matched-pairs data: mid-p and
    asymptotic are better than exact conditional", BMC Medical Research Methodology 13:91.

    >>> mid_p(4, 0)  # half of 1/16
    0.03125
    """
    changed = lost + gained
    if not changed:
        return 1.0
    if lost < gained:
        return 1.0 - mid_p(gained, lost)
    if changed <= WHOLE:
        ways = term = math.comb(changed, lost)
        for heads in range(lost + 1, changed + 1):
            term = term * (changed - heads + 1) // heads
            ways += 2 * term
        return ways / (1 << changed + 1)
    log_ways = math.lgamma(changed + 1) - math.lgamma(lost + 1) - math.lgamma(gained + 1)
    chance = math.exp(log_ways - changed * math.log(2))
    tail = chance / 2
    for heads in range(lost + 1, changed + 1):
        chance *= (changed - heads + 1) / heads
        tail += chance
        if chance < tail * NOTHING:
            break
    return min(tail, 1.0)


def tango(lost: int, gained: int, n: int, *, alpha: float) -> tuple[float, float]:
    """Tango's score interval of the difference of two paired proportions of n questions, `lost/n - gained/n`.

    All drops δ with `|lost - gained - n·δ| ≤ z·sqrt(n·(2q + δ - δ²))`, where q is the maximum likelihood estimate of
    the share of gains if the drop is δ, and z the `1 - alpha` quantile of the normal distribution. At δ = 0 this is
    McNemar's test, `(lost - gained) / sqrt(lost + gained) ≤ z`. alpha, in (0, 0.5), is that of each bound.

    Returns:
        `(low, high)` within [-1, 1], around the observed drop; `±z²/(n + z²)` where nothing changed.

    Source: Tango (1998), "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17.

    >>> [round(bound, 3) for bound in tango(9, 2, 100, alpha=0.025)]
    [0.006, 0.146]
    """
    z = NormalDist().inv_cdf(1 - alpha)
    observed = (lost - gained) / n

    def bound(end: float) -> float:
        inside, outside = observed, end
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            if abs(_score(lost, gained, n, middle)) <= z:
                inside = middle
            else:
                outside = middle
        return inside

    return bound(-1.0), bound(1.0)


def _score(lost: int, gained: int, n: int, drop: float) -> float:
    """Tango's statistic for a drop: how many standard deviations the observed one lies from it."""
    b = -lost - gained + (2 * n - lost + gained) * drop
    c = -gained * drop * (1 - drop)
    q = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    # The variance is 0 at -1 and 1 only, infinitely many standard deviations from any other drop.
    variance = n * (2 * q + drop * (1 - drop))
    distance = lost - gained - n * drop
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)
