"""Paired scores of 0 or 1: did the second system lose more than it gained?"""

import math
from statistics import NormalDist

__all__ = ["mid_p", "mid_p_size", "tango"]

WHOLE = 1000
"""Up to so many changes the tail is summed in whole numbers; beyond, floats are right to about 1e-11."""
NOTHING = 1e-17
"""A share that changes no float."""
SHARES = 200
"""Shares of changed questions at which the size is computed."""
HALVINGS = 60
"""Steps of a bisection on [-1, 1]: more than a float can tell apart."""


def mid_p(lost: int, gained: int) -> float:
    """One-sided mid-p McNemar test that more questions were lost than gained by chance.

    `P(X > lost) + P(X = lost) / 2` with X binomial of `lost + gained` fair coins: the exact McNemar p-value,
    of which the probability of the observed table counts half.

    Args:
        lost: questions that were right and are wrong now, at least 0.
        gained: the reverse.

    Returns:
        A number in (0, 1); 1 where nothing changed.

    The exact test keeps its level for every number of changes, and is far below it for few of them. The mid-p test
    keeps it on average over the number of changes, which is itself random: `mid_p_size` is its true size.

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


def mid_p_size(n: int, alpha: float = 0.05, *, most_changed: float = 1.0) -> float:
    """True size of the mid-p McNemar test with n questions: how often it is wrong where nothing got worse, at worst.

    The largest probability, over the share π of questions that change, of `mid_p(lost, gained) ≤ alpha`, where
    a question that changes is as likely to be lost as gained:
    `max_π Σ_k Binomial(k; n, π) · P(mid_p(X, k - X) ≤ alpha)`.

    Args:
        n: questions, at least 1.
        alpha: the nominal level, in (0, 0.5].
        most_changed: the largest π that is looked at, in (0, 1]. Two retrievers that differ on more than half of
            the questions are hardly versions of one.

    Returns:
        A probability, to about 0.0001. At alpha 0.05 and n = 10, 20, 30, 60, 100, 200 it is 5.5, 5.8, 5.6, 5.1, 5.0
        and 5.2 % with any share of changes, and 3.3, 4.3, 4.9, 5.0, 5.0 and 5.0 % with at most half.

    >>> f"{mid_p_size(60):.3f}"
    '0.051'
    """
    rejected = [_rejected(changed, alpha) for changed in range(n + 1)]
    log_ways = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]

    def size(share: float) -> float:
        if share == 1:
            return rejected[n]
        log_odds, log_none = math.log(share) - math.log1p(-share), n * math.log1p(-share)
        return math.fsum(
            chance * math.exp(ways + k * log_odds + log_none)
            for k, (ways, chance) in enumerate(zip(log_ways, rejected, strict=True))
        )

    return max(size(most_changed * step / SHARES) for step in range(1, SHARES + 1))


def _rejected(changed: int, alpha: float) -> float:
    """Probability that so many fair coins are significant: a tail of the binomial distribution."""
    if not changed:
        return 0.0
    total, tail, term = 1 << changed, 0, 1
    # From all heads downward; `tail` counts the patterns with more heads, `term` those with so many.
    for heads in range(changed, -1, -1):
        if (2 * tail + term) / (2 * total) > alpha:
            break
        tail += term
        term = term * heads // (changed - heads + 1)
    return tail / total


def tango(lost: int, gained: int, n: int, *, alpha: float) -> tuple[float, float]:
    """Tango's score interval of the difference of two paired proportions, `lost/n - gained/n`.

    The drops δ that the score test does not reject in either direction at level alpha: those with
    `|lost - gained - n·δ| ≤ z·sqrt(n·(2q + δ - δ²))`, where q is the maximum likelihood estimate of the share of gains
    if the drop is δ, and z the `1 - alpha` quantile of the normal distribution. At δ = 0 it is McNemar's statistic
    `(lost - gained) / sqrt(lost + gained)`.

    Args:
        lost: at least 0.
        gained: at least 0.
        n: questions, at least 1 and `lost + gained`.
        alpha: of each bound, in (0, 0.5); the interval covers the true drop with probability 1 - 2·alpha.

    Returns:
        `(low, high)` within [-1, 1], around the observed drop; of no zero width, also where nothing changed:
        there it is `±z²/(n + z²)`.

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
    # The variance is 0 at the ends only, of which an observed drop between them is infinitely far away.
    variance = n * (2 * q + drop * (1 - drop))
    distance = lost - gained - n * drop
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)
