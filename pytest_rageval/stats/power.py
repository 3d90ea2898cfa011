"""Power of the paired test: the smallest detectable drop, the number of examples needed, the effect of clusters.

The power for scores of 0 and 1 is exact. For other scores it is a normal approximation. With q the mean square of the
differences, a threshold fails on an observed mean drop above `max(max_drop, z_alpha·sqrt(q/n))`. A true drop that is
larger by `z_80·sqrt(q/n)` is observed above this limit in 80% of runs.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from statistics import NormalDist, fmean, pvariance
from typing import Final

from pytest_rageval.stats.intervals import SCORE_TOLERANCE, binomial_probability
from pytest_rageval.stats.mcnemar import binomial_tail, mcnemar_p_value
from pytest_rageval.stats.paired_tests import cluster_sums

POWER: Final = 0.8  # the share of runs in which a drop is to be detected
MIN_CHANGES: Final = 5  # with fewer changed questions, the number of questions that is needed is unknown
MAX_EXACT_GAINS: Final = 20  # with more losses and gains by noise, the normal approximation is used
REACH: Final = 4  # standard deviations from the mean beyond which numbers of changes are ignored
BISECTIONS: Final = 8  # of an interval whose ends differ by a factor of 2


def detectable_drop(  # noqa: PLR0913 - the parameters of the test
    drops: Sequence[float],
    *,
    alpha: float,
    max_drop: float = 0.0,
    beyond: float = 0.0,
    loss: float | None = None,
    design_effect: float = 1.0,
) -> float | None:
    """The true drop that fails the threshold in at least 80% of runs with this n and the noise of these differences.

    A drop of d is assumed to consist of losses of one size in addition to the noise, with no fewer gains. The noise is
    estimated from the given differences without the losses that make up their mean.

    If all differences are 0 or of that size, as for scores of 0 and 1, the result is exact: the probabilities of all
    numbers of losses and gains that fail the threshold (`pytest_rageval.stats.mcnemar`) sum to 80%.

    Otherwise the mean square of the differences is `q(d) = noise + loss·d`, with two more changes than were observed,
    since few examples underestimate the noise. d is the larger solution of `d - beyond = (z_alpha + z_80)·sqrt((q(d) -
    2·beyond·d + beyond²)·D/n)` and `d - max_drop = z_80·sqrt(q(d)·D/n)`.

    The differences are those of this run, or of two runs of the same retriever, which differ by noise only. `alpha` is
    the level of the test of this score: `JointTestResult.level`. `beyond` is the mean drop under the null hypothesis:
    0, or `max_drop` if a drop of more than that must be shown. `loss` is the size of a loss; None for the largest
    absolute difference, or 1 if all are 0. If questions lose their whole score b, it is `Σ b² / Σ b`. D is computed by
    the function `design_effect`.

    The result is above `max_drop`, and larger than any possible drop if there are too few questions; None without
    questions. In simulations with 60 questions and more, the power at this drop is 0.75 to 0.95
    (`tests/unit/stats/test_power.py`).

    >>> round(detectable_drop([0.0] * 30, alpha=0.05), 3)  # 3 of 30 must be lost
    0.138
    """
    n = len(drops)
    if not n:
        return None
    total = math.fsum(map(abs, drops))
    typical_size = math.fsum(drop * drop for drop in drops) / total if total else 0.0
    size = loss or max(map(abs, drops)) or 1.0
    sizes = {abs(drop) for drop in drops if drop}
    is_binary = (
        all(abs(drop - size) <= SCORE_TOLERANCE for drop in sizes) and not beyond and design_effect == 1
    )
    share = (total / size - abs(math.fsum(drops)) / size) / 2 / n
    if is_binary and share * n <= MAX_EXACT_GAINS:
        return size * _exact_detectable_drop(n, share, alpha, max_drop / size)
    noise = typical_size * (total - abs(math.fsum(drops))) / n + 2 * size * size / n
    effective_n = n / design_effect
    z_alpha, z_power = _z_values(alpha)
    return max(
        _solve_drop(beyond, (z_alpha + z_power) ** 2 / effective_n, noise + beyond**2, size - 2 * beyond),
        _solve_drop(max_drop, z_power**2 / effective_n, noise, size),
    )


def examples_needed(
    drops: Sequence[float],
    *,
    alpha: float,
    max_drop: float = 0.0,
    beyond: float = 0.0,
    design_effect: float = 1.0,
) -> int | None:
    """The number of questions with which the observed mean drop fails the threshold in 80% of runs, to two digits.

    `D·max((z_alpha + z_80)²·Σ(d - beyond)² / (n·(mean - beyond)²), z_80²·Σd² / (n·(mean - max_drop)²))`, with the
    symbols of `detectable_drop`, rounded up to two digits. The mean of the drops is taken as the true drop.
    None if it is not above `max_drop` and `beyond`, since then no number is enough; and with fewer than five changed
    questions, which tell too little about the noise.
    """
    if sum(map(bool, drops)) < MIN_CHANGES or (drop := fmean(drops)) <= max(max_drop, beyond, 0.0):
        return None
    z_alpha, z_power = _z_values(alpha)
    for_significance = fmean((d - beyond) ** 2 for d in drops) * ((z_alpha + z_power) / (drop - beyond)) ** 2
    for_max_drop = fmean(d * d for d in drops) * (z_power / (drop - max_drop)) ** 2
    needed = math.ceil(design_effect * max(for_significance, for_max_drop))
    unit: int = 10 ** max(0, len(str(needed)) - 2)
    return -(-needed // unit) * unit


def detectable_drop_unpaired(scores: Sequence[float], *, alpha: float) -> float | None:
    """An upper bound of `detectable_drop` from the scores of one system, for use before there is a baseline.

    The scores of the other system are assumed to have the same variance and to be independent. Those of similar systems
    are correlated and differ less. The size of a loss is the difference between the highest and the lowest score, or 1.
    """
    if not scores:
        return None
    size = max(scores) - min(scores) or 1.0
    scale = sum(_z_values(alpha)) ** 2 / len(scores)
    return _solve_drop(0.0, scale, 2 * pvariance(scores), size)


def design_effect(sizes: Sequence[int], correlation: float = 1.0) -> float:
    """The factor by which clusters increase the variance of a mean: `1 + (Σm²/Σm - 1)·correlation`.

    n questions carry as much information as `n / design_effect` independent questions. m is the size of a cluster, and
    the correlation that of two questions of the same cluster (`intraclass_correlation`); 1 is the worst case. The
    result is 1 without clusters, and below 1 if the correlation is negative.

    Source: Kish (1965), "Survey sampling", section 5.4; for clusters of different sizes Kish (1987), "Weighting in
    deft²".

    >>> design_effect([25] * 8, 0.1)
    3.4000000000000004
    """
    total = sum(sizes)
    return 1 + (sum(size * size for size in sizes) / total - 1) * correlation if total else 1.0


def intraclass_correlation(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """Correlation of two values of the same cluster, by one-way analysis of variance; NaN values are ignored.

    `(B - W) / (B + (m0 - 1)·W)`, with B and W the mean squares between and within clusters and `m0 = (n - Σm²/n) /
    (clusters - 1)`. About 0 if clusters have no effect, 1 if the values within each cluster are equal. None if it is
    undefined: fewer than two clusters, no cluster with two values, or all values equal.

    Source: Fisher (1925), "Statistical methods for research workers", chapter 7; Donner (1986), "A review of inference
    procedures for the intraclass correlation coefficient in the one-way random effects model".

    >>> intraclass_correlation([1, 1, 0, 0, 1, 1], "aabbcc")
    1.0
    """
    pairs = [(v, c) for v, c in zip(values, clusters, strict=True) if not math.isnan(v)]
    sums = cluster_sums(pairs)
    n = len(pairs)
    if len(sums) < 2 or len(sums) == n:  # noqa: PLR2004 - a variance needs two clusters
        return None
    total = math.fsum(v for v, _ in pairs)
    raw_between = math.fsum(cluster_sum * cluster_sum / size for cluster_sum, size in sums)
    between = raw_between - total * total / n
    within = math.fsum(v * v for v, _ in pairs) - raw_between
    b, w = between / (len(sums) - 1), max(0.0, within) / (n - len(sums))
    m0 = (n - sum(size * size for _, size in sums) / n) / (len(sums) - 1)
    variance = b + (m0 - 1) * w
    return (b - w) / variance if variance > 1e-15 else None  # noqa: PLR2004 - rounding


def _exact_detectable_drop(n: int, share: float, alpha: float, max_drop: float) -> float:
    """The `detectable_drop` of scores of 0 and 1; 2 if there is none.

    `share` of the questions are lost by noise, and as many are gained.
    """
    critical = _critical_losses(n, alpha)

    def power(drop: float) -> float:
        changed = min(1.0, 2 * share + drop)
        reach = REACH * (math.sqrt(n * changed * (1 - changed)) + 1)
        fails = 0.0
        for k in range(max(0, math.ceil(n * changed - reach)), min(n, math.floor(n * changed + reach)) + 1):
            least = max(critical(k), math.floor((n * max_drop + k) / 2 + SCORE_TOLERANCE) + 1)
            wins = binomial_tail(k, least, (share + drop) / changed)
            fails += binomial_probability(n, k, changed) * wins
        return fails

    low, high = max_drop, max_drop + 1 / n
    while power(min(high, 1 - 2 * share)) < POWER:
        if high >= 1 - 2 * share:
            return 2.0
        low, high = high, min(max_drop + 2 * (high - max_drop), 1 - 2 * share)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


@lru_cache(maxsize=64)
def _critical_losses(n: int, alpha: float) -> Callable[[int], int]:
    """Return a function that gives, for a number of changes, the least number of losses that is significant."""
    known = [1]

    def critical(changed: int) -> int:
        while len(known) <= changed:
            k = len(known)
            # One more change needs as many losses, or one more.
            lost = known[-1]
            while lost <= k and mcnemar_p_value(lost, k - lost, n) > alpha:
                lost += 1
            known.append(lost)
        return known[changed]

    return critical


def _z_values(alpha: float) -> tuple[float, float]:
    normal = NormalDist()
    return normal.inv_cdf(1 - alpha), normal.inv_cdf(POWER)


def _solve_drop(start: float, scale: float, noise: float, size: float) -> float:
    """The larger solution d of `(d - start)² = scale·(noise + size·d)`."""
    half = start + scale * size / 2
    return half + math.sqrt(max(0.0, half * half - start * start + scale * noise))
