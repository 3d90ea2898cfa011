"""Paired scores of 0 or 1: the mid-p McNemar test, and Tango's score interval."""

import math
from statistics import NormalDist

MAX_N_EXACT = 1000
"""Up to this number of discordant pairs the tail is an exact integer sum; above, its error is about 1e-11."""
TAIL_RTOL = 1e-17  # terms below this share of the tail do not change a float
MAX_ITER = 60  # steps of the bisection on [-1, 1]: more than the precision of a float


def mid_p(lost: int, gained: int) -> float:
    """One-sided p-value of the mid-p McNemar test of the alternative that more questions are lost than gained.

    `P(X > lost) + P(X = lost) / 2`, where X is binomial with `lost + gained` trials and probability 1/2. This is the
    p-value of the exact conditional test, except that the probability of the observed table counts half.

    The size of the exact conditional test is far below its level if few questions changed. The size of the mid-p test
    at level 0.05 is at most 5.02% for any number of questions if at most half of them change
    (`python tests/benchmarks/false_alarms.py 1 size`); if all change it is up to 7.3%, with 12 questions.

    Args:
        lost: number of pairs that changed from 1 to 0.
        gained: number of pairs that changed from 0 to 1.

    Returns:
        A number in (0, 1]; 1 if nothing changed.

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
    if changed <= MAX_N_EXACT:
        ways = term = math.comb(changed, lost)
        for heads in range(lost + 1, changed + 1):
            term = term * (changed - heads + 1) // heads
            ways += 2 * term
        return ways / (1 << changed + 1)
    log_ways = math.lgamma(changed + 1) - math.lgamma(lost + 1) - math.lgamma(gained + 1)
    term_probability = math.exp(log_ways - changed * math.log(2))
    tail = term_probability / 2
    for heads in range(lost + 1, changed + 1):
        term_probability *= (changed - heads + 1) / heads
        tail += term_probability
        if term_probability < tail * TAIL_RTOL:
            break
    return min(tail, 1.0)


def tango_interval(lost: int, gained: int, n: int, *, alpha: float) -> tuple[float, float]:
    """Tango's score interval of the difference of two paired proportions of n questions, `lost/n - gained/n`.

    All drops δ with `|lost - gained - n·δ| ≤ z·sqrt(n·(2q + δ - δ²))`, where q is the restricted maximum likelihood
    estimate of the share of gains given the drop δ, and z the `1 - alpha` quantile of the normal distribution. At δ = 0
    this is McNemar's test, `(lost - gained) / sqrt(lost + gained) ≤ z`.

    Args:
        lost: number of pairs that changed from 1 to 0.
        gained: number of pairs that changed from 0 to 1.
        n: number of pairs, unchanged ones included; at least 1.
        alpha: one-sided error probability of each bound, in (0, 0.5).

    Returns:
        `(low, high)` within [-1, 1], around the observed drop; `±z²/(n + z²)` if nothing changed.

    Source: Tango (1998), "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17.

    >>> [round(bound, 3) for bound in tango_interval(9, 2, 100, alpha=0.025)]
    [0.006, 0.146]
    """
    z = NormalDist().inv_cdf(1 - alpha)
    observed = (lost - gained) / n

    def bound(end: float) -> float:
        inside, outside = observed, end
        for _ in range(MAX_ITER):
            middle = (inside + outside) / 2
            if abs(_score_statistic(lost, gained, n, middle)) <= z:
                inside = middle
            else:
                outside = middle
        return inside

    return bound(-1.0), bound(1.0)


def _score_statistic(lost: int, gained: int, n: int, drop: float) -> float:
    """Tango's score statistic under the null hypothesis of this drop: the observed deviation in standard deviations."""
    b = -lost - gained + (2 * n - lost + gained) * drop
    c = -gained * drop * (1 - drop)
    q = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * q + drop * (1 - drop))
    deviation = lost - gained - n * drop
    # The variance is 0 at the drops -1 and 1, and at 0 if nothing changed; any other observed drop then is infinitely
    # many standard deviations away.
    if variance <= 0:
        return 0.0 if deviation == 0 else math.copysign(math.inf, deviation)
    return deviation / math.sqrt(variance)
