"""The interval of a mean paired difference, which agrees with the tests of it."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from statistics import NormalDist
from typing import Final

from pytest_rageval.stats.mcnemar import tango

__all__ = ["ROUNDING", "drop_interval", "sums_by", "unseen_reach"]

ROUNDING: Final = 1e-12
"""Differences up to this are rounding of scores, which are of the order of 1."""
FEW: Final = 8
"""With fewer gains than this their sizes are unknown."""
MANY: Final = 20_000
"""With more questions, unseen changes would move a bound by less than 0.0002: they are left out."""
NEAR: Final = 1e-5
"""How exact a bound is that is searched for, as a share of the largest difference."""
NOTHING: Final = 1e-15
"""The p-value assumed at the far end of the search."""
MOST: Final = 0.7
"""p-values above this are cut off in the search: no level is larger."""
PROBES: Final = 40
"""Most evaluations of a search; about eight are usual."""

NORMAL: Final = NormalDist()


def drop_interval(
    drops: Sequence[float],
    *,
    alpha: float,
    largest: float = 1.0,
    clusters: Sequence[Hashable] | None = None,
    guard: float | None = None,
) -> tuple[float, float]:
    """Interval of the true mean drop: what the tests at level alpha do not reject, in either direction.

    - Differences of 0 and ±`largest` alone, as those of 0/1 scores: Tango's score interval, whose lower bound agrees
      with the McNemar test (`pytest_rageval.stats.mcnemar.tango`).
    - Otherwise the lower bound is that of the sign-flip test, inverted: the δ at which
      `Σ(d - δ) = z·sqrt(Σ(d - δ)²)`, with z the `1 - alpha` quantile of the normal distribution; the upper bound is
      that of the test of `strict` thresholds (`pytest_rageval.stats.noninferiority`), which allows for losses that
      were not seen (as `unseen_reach` does for gains).
    - By clusters, both bounds are those of the sign-flip test, with the sums of `d - δ` of each cluster in place
      of the differences.

    Args:
        drops: score of the baseline less the new score, a question each; NaN where one of them has no score.
        alpha: of each bound, in (0, 0.5]; the interval covers the true drop with probability 1 - 2·alpha.
        largest: the largest difference there can be, either way.
        clusters: of each question, what it moves together with; None where questions are independent.
        guard: level of a second lower bound, which allows for gains that were not seen; the lower of the two is
            returned. None for no second bound.

    Returns:
        `(low, high)` within ±largest: `(-largest, largest)` where there is no difference, or where there are no more
        than `z²` clusters of one size.

    In simulations on 31 variants of BM25 with 30 to 1,000 questions, each bound is wrong in at most 6% of
    runs at alpha 0.05 (`tests/benchmarks/drop_tests.py`).

    >>> [round(bound, 3) for bound in drop_interval([0.5, 0, 0, 0.25, 0, -0.25, 0, 0] * 10, alpha=0.05)]
    [0.024, 0.105]
    """
    units = [
        (drop, 0 if clusters is None else clusters[i])
        for i, drop in enumerate(drops)
        if drop == drop  # noqa: PLR0124 - NaN is not itself
    ]
    kept = [drop for drop, _ in units]
    if not kept:
        return -largest, largest
    if clusters is None:
        if all(abs(drop) in (0, largest) for drop in kept) or max(map(abs, kept)) <= ROUNDING:
            return _whole(kept, len(kept), alpha, largest)
        sums = [(drop, 1) for drop in kept]
    else:
        sums = sums_by(units)
        if all(abs(total) <= ROUNDING for total, _ in sums):
            return _whole(kept, len(sums), alpha, largest)
    low, high = _flipped(sums, alpha, largest)
    if clusters is None and len(kept) <= MANY:
        high = -_reweighted([-drop for drop in kept], alpha, largest, -high)
        if guard is not None:
            low = min(low, _reweighted(kept, guard, largest, low))
    return low, high


def sums_by(units: Iterable[tuple[float, Hashable]]) -> list[tuple[float, int]]:
    """The sum of the numbers of each cluster, and how many they are, in the order of first occurrence."""
    found: defaultdict[Hashable, list[float]] = defaultdict(list)
    for number, cluster in units:
        found[cluster].append(number)
    return [(math.fsum(numbers), len(numbers)) for numbers in found.values()]


def unseen_reach(drops: Sequence[float], largest: float, *, whole_scale: bool = False) -> float:
    """The largest gain that is allowed for although none of that size was seen.

    Four times the largest change where fewer than eight gains were seen, twice the largest change otherwise; at
    most `largest`, and `largest` where nothing changed. Gains of the whole scale are not always allowed for, because
    then no drop could be shown for scores whose differences are all small, such as similarities.

    Args:
        drops: at least one.
        largest: the largest difference there can be.
        whole_scale: whether to return `largest` in place of four times the largest change.
    """
    if sum(drop < 0 for drop in drops) >= FEW:
        return min(largest, 2 * max(map(abs, drops)))
    return largest if whole_scale else min(largest, 4 * max(map(abs, drops))) or largest


def _whole(drops: Sequence[float], n: int, alpha: float, largest: float) -> tuple[float, float]:
    lost, gained = (sum(sign * drop > ROUNDING for drop in drops) for sign in (1, -1))
    low, high = tango(lost, gained, n, alpha=alpha)
    return low * largest, high * largest


def _flipped(sums: Sequence[tuple[float, int]], alpha: float, largest: float) -> tuple[float, float]:
    """The δ with `(S - δ·N)² = z²·Σ(s - δ·n)²`, of the sum s and the number n of each unit, and of all."""
    z2 = NORMAL.inv_cdf(1 - alpha) ** 2
    total, number = math.fsum(s for s, _ in sums), sum(n for _, n in sums)
    square = number**2 - z2 * sum(n * n for _, n in sums)
    if square <= 0:
        return -largest, largest
    middle = total * number - z2 * math.fsum(s * n for s, n in sums)
    constant = total**2 - z2 * math.fsum(s * s for s, _ in sums)
    half = math.sqrt(max(0.0, middle**2 - square * constant))
    return max(-largest, (middle - half) / square), min(largest, (middle + half) / square)


def _reweighted(drops: Sequence[float], alpha: float, largest: float, guess: float) -> float:
    """The lower bound of the reweighted test: the δ at which its p-value is alpha."""
    # Imported late: 0/1 scores need no numpy.
    from pytest_rageval.stats.noninferiority import reweighted_drop  # noqa: PLC0415

    reach = unseen_reach(drops, largest)
    goal = NORMAL.inv_cdf(alpha)

    def excess(bound: float) -> float:
        p_value = reweighted_drop(drops, bound, largest=reach)
        return NORMAL.inv_cdf(min(p_value, MOST)) - goal

    # Quantiles of the p-value are nearly a straight line: false position, with the Illinois rule for an end that stays.
    low, below = -reach, NORMAL.inv_cdf(NOTHING) - goal
    high, above = math.fsum(drops) / len(drops), NORMAL.inv_cdf(MOST) - goal
    last, probe, moved = math.inf, guess, 0
    for _ in range(PROBES):
        probe = min(max(probe, low + NEAR * reach), high - NEAR * reach)
        if high - low <= 2 * NEAR * reach or abs(probe - last) <= NEAR * reach:
            break
        height = excess(probe)
        if height > 0:
            high, above, below = probe, height, below / 2 if moved > 0 else below
        else:
            low, below, above = probe, height, above / 2 if moved < 0 else above
        last, moved = probe, 1 if height > 0 else -1
        probe = (low * above - high * below) / (above - below)
    return probe
