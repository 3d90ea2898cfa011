"""Paired scores of 0 or 1: McNemar's test by resampling and sign flips, Tango's interval, repeats."""

import math
import sys
from collections.abc import Mapping
from statistics import NormalDist
from typing import Final, NamedTuple

from pytest_rageval.stats.intervals import binomial_probability

REACH = 10
"""Numbers of changes that are further from their mean than this, in standard deviations, are not summed over."""
TAIL_RTOL = 1e-17  # terms below this share of the tail do not change a float
MAX_ITER = 60  # steps of the bisection on [-1, 1]: more than the precision of a float


def mcnemar_p_value(lost: int, gained: int, n: int) -> float:
    """One-sided p-value of the alternative that more of n questions are lost than gained: resample, then flip.

    A question is lost if its score changed from 1 to 0, and gained if from 0 to 1.
    The statistic is McNemar's, `T = (lost - gained) / sqrt(lost + gained)`. Under the null hypothesis n questions are
    drawn from the observed ones with replacement, and each that changed is lost or gained by a fair coin:
    `Σ_j Binomial(j; n, k/n) · P(T(X, j) ≥ T)` with `k = lost + gained`, X the heads of j coins, and `T(X, j) =
    (2X - j) / sqrt(j)`.

    McNemar's exact test is conditional on k. It is conservative, since with a small k the statistic has few values.
    This test allows for another k in another sample of questions. Over samples of questions, its size at level 0.05 is
    at most 5.3% (`python tests/benchmarks/false_alarms.py 1 size`). Over runs of a fixed set of questions, of which the
    same few change in every run, it is that of the t-test: 12.5% if it is always the same three, 6.2% if four.

    The result is in (0, 1], after at most 0.1 s: 1 if nothing changed, `1 / 2^n` if all are lost.

    Source: Lloyd (2008), "Exact p-values for discrete models obtained by estimation and maximization", for a p-value at
    the estimate of the nuisance parameter, here the share of questions that change.

    >>> round(mcnemar_p_value(3, 0, 30), 3), mcnemar_p_value(4, 0, 4)
    (0.046, 0.0625)
    """
    changed = lost + gained
    if not changed:
        return 1.0
    reach = REACH * (math.sqrt(changed * (1 - changed / n)) + 1) if changed < n else 0
    first, last = max(0, math.ceil(changed - reach)), min(n, math.floor(changed + reach))
    # Below this number of changes, no outcome of the coins has as large a statistic.
    first = max(first, -(-((lost - gained) ** 2) // changed) if lost > gained else 1)
    p_value = (1 - changed / n) ** n if lost <= gained and first == 1 else 0.0
    heads = _least_heads(lost - gained, changed, first)
    weight, chance = binomial_probability(n, first, changed / n), binomial_probability(first, heads, 0.5)
    # The tail P(X ≥ heads) and the probability P(X = heads) of j coins follow from those of j - 1.
    tail = binomial_tail(first, heads, 0.5)
    for j in range(first, last + 1):
        p_value += weight * tail
        weight *= (n - j) * changed / ((j + 1) * (n - changed)) if changed < n else 0
        if _least_heads(lost - gained, changed, j + 1) == heads:
            tail += chance / 2 * heads / (j - heads + 1)
            chance *= (j + 1) / (2 * (j + 1 - heads))
        else:
            tail -= chance / 2
            heads += 1
            chance *= (j + 1) / (2 * heads)
    return min(max(p_value, sys.float_info.min), 1.0)


def _least_heads(difference: int, changed: int, coins: int) -> int:
    """The smallest number of heads, at least 0, with `(heads - tails)/sqrt(coins) ≥ difference/sqrt(changed)`."""
    square = difference * difference * coins
    root = math.isqrt(square // changed)
    if difference > 0:
        root += root * root * changed < square
    else:
        root = -root
    return max(0, (coins + root + 1) // 2)


def binomial_tail(trials: int, successes: int, probability: float) -> float:
    if successes <= trials * probability:
        return 1 - binomial_tail(trials, trials - successes + 1, 1 - probability)
    tail, chance = 0.0, binomial_probability(trials, successes, probability) if successes <= trials else 0.0
    while chance > tail * TAIL_RTOL:
        tail += chance
        chance *= (trials - successes) * probability / ((successes + 1) * (1 - probability))
        successes += 1
    return tail


def tango_interval(lost: int, gained: int, n: int, *, alpha: float) -> tuple[float, float]:
    """Tango's score interval of the difference of two paired proportions of n questions, `lost/n - gained/n`.

    All drops δ with `|lost - gained - n·δ| ≤ z·sqrt(n·(2q + δ - δ²))`, where q is the restricted maximum likelihood
    estimate of the share of gains given the drop δ, and z the `1 - alpha` quantile of the normal distribution. At δ = 0
    this is McNemar's test, `(lost - gained) / sqrt(lost + gained) ≤ z`. If nothing changed, the bounds are
    `±z²/(n + z²)`.

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


MIN_RUNS: Final = 3
"""With fewer repeats on either side not even 2 of 2 against 0 of 2 is significant at 5%."""


class Counts(NamedTuple):
    """In how many repeats a question was right, out of those of the baseline, and of this run."""

    right_before: int
    runs_before: int
    right_now: int
    runs_now: int

    def __str__(self) -> str:
        return f"{self.right_before} of {self.runs_before} to {self.right_now} of {self.runs_now}"

    @property
    def p_value(self) -> float:
        """The probability of so few right repeats now, or fewer, given how many are right in all repeats.

        >>> round(Counts(5, 5, 0, 5).p_value, 4)  # 1 / 252
        0.004
        """
        return self._tail(self.right_now)

    @property
    def smallest_p_value(self) -> float:
        """The p-value if as few of the right repeats as possible were now."""
        return self._tail(max(0, self.right_before + self.right_now - self.runs_before))

    def _tail(self, right_now: int) -> float:
        right = self.right_before + self.right_now
        least = max(0, right - self.runs_before)
        ways = sum(
            math.comb(self.runs_now, x) * math.comb(self.runs_before, right - x)
            for x in range(least, right_now + 1)
        )
        return ways / math.comb(self.runs_before + self.runs_now, right)


def surely_worse(counts: Mapping[str, Counts], alpha: float) -> dict[str, Counts]:
    """Return the questions that got worse by more than chance does to any of them, at the level alpha.

    The questions, changed or not, are tested one by one (Fisher's exact test, one-sided), and the level is divided
    among those that could be significant at all (Tarone): k is the smallest number for which at most k questions have a
    smallest p-value of alpha / k or less. A question that is right, or wrong, in every repeat of both runs costs
    nothing.

    Source: Tarone (1990), "A modified Bonferroni method for discrete data".

    >>> stable = {f"q{n}": Counts(5, 5, 5, 5) for n in range(100)}
    >>> [*surely_worse(stable | {"q17": Counts(5, 5, 0, 5)}, 0.05)]
    ['q17']
    """
    tested = {
        name: count for name, count in counts.items() if min(count.runs_before, count.runs_now) >= MIN_RUNS
    }
    smallest = sorted(count.smallest_p_value for count in tested.values())
    divisor = next(k for k in range(1, len(smallest) + 2) if sum(p <= alpha / k for p in smallest) <= k)
    return {name: count for name, count in tested.items() if count.p_value <= alpha / divisor}
