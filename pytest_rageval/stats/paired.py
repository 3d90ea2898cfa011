"""Paired randomisation tests: did the mean drop, and which of several systems is best?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

__all__ = ["RESAMPLES", "PairedTest", "Standing", "against_best", "paired_test"]

RESAMPLES: Final = 20_000
"""Draws of a Monte Carlo test, and most different sums of an exact one."""
BLOCK: Final = 1 << 22
"""Most coins held at once, so that memory does not grow with the number of examples."""
NO_CHANGE: Final = 1e-12
"""Differences up to this are rounding of scores, which are of the order of 1."""
TIE: Final = 1e-11
"""Sums closer than this share of the sum of all are equal but for rounding."""
DRAWS_PER_COMPARISON: Final = 400
"""Of several comparisons: about 20 draws then lie beyond a sum at the corrected level of 0.05."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The result of a paired randomisation test.

    Attributes:
        p_value: of "the mean difference is not above 0", up to 1; 0 only where too small for a float.
        exact: whether all sign patterns were counted; otherwise some were drawn.
        n: number of differences.
        changed: number of differences other than 0.
    """

    p_value: float
    exact: bool
    n: int
    changed: int


def paired_test(drops: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> PairedTest:
    """One-sided sign-flip test that the mean of differences is above 0.

    If two systems are equivalent, each difference is as likely to be positive as negative. The p-value is the share
    of the 2^k ways to choose the signs of the k differences other than 0 whose sum is at least the one observed.

    It is exact where all k are of one size, by the binomial distribution: for 0/1 scores it is the exact McNemar
    test, at any n. It is also exact where no more than `resamples` different sums can arise: up to 14 differences of
    any sizes, or many that are multiples of a common step. Elsewhere `resamples` sign patterns are drawn and p is `(b
    + 1) / (resamples + 1)`, with b draws of at least the observed sum.

    Args:
        drops: score of the baseline less the new score, an example each, in any order and on any scale; up to 1e-12
            is no difference.
        seed: of the draws; the same seed and differences give the same p-value.
        resamples: at least 1. The smallest p-value of a Monte Carlo test is `1 / (resamples + 1)`, which must be
            below the level it is compared to.

    Returns:
        The p-value and how it was found. The p-value is 1 where nothing changed, and without differences.

    Raises:
        ValueError: a difference is no finite number.

    The level holds at any n where differences are symmetric around 0 if nothing got worse, as those of two equivalent
    systems are. Where they are lopsided with mean 0 (a few large gains for many small losses) it holds for large n
    only: flipping signs leaves the sum of squares as it is, so that this is the test of the t statistic as well.

    Source: Fisher (1935), "The design of experiments", section 21; McNemar (1947); for the p-value of draws Phipson
    and Smyth (2010), "Permutation p-values should never be zero".

    >>> paired_test([1, 1, 1, 1, 0, 0, -1]).p_value  # (5 + 1) / 2^5
    0.1875
    """
    if not all(map(math.isfinite, drops)):
        raise ValueError("a difference of scores is a finite number")
    changes = sorted((drop for drop in drops if abs(drop) > NO_CHANGE), key=abs)
    sizes = [abs(change) for change in changes]
    losses = [change for change in changes if change > 0]
    if not sizes or sizes[-1] - sizes[0] <= TIE * sizes[-1]:
        return PairedTest(_even_odds(len(losses), len(sizes)), True, len(drops), len(sizes))  # noqa: FBT003
    # A run of 0/1 scores needs no numpy.
    import numpy as np  # noqa: PLC0415

    array, lost = np.array(sizes), math.fsum(losses)
    tail = _every_pattern(array, lost, resamples)
    exact = tail is not None
    p_value = _drawn_patterns(array, lost, seed, resamples) if tail is None else tail
    return PairedTest(p_value, exact, len(drops), len(sizes))


def _even_odds(successes: int, n: int) -> float:
    """Probability of at least this many heads of n fair coins, in integers."""
    ways = term = math.comb(n, successes)
    for heads in range(successes + 1, n + 1):
        term = term * (n - heads + 1) // heads
        ways += term
    return ways / (1 << n)


def _every_pattern(sizes: "np.ndarray", lost: float, limit: int) -> float | None:
    """Probability that the sizes whose coins show heads sum to `lost` or more.

    The distribution of the sum grows size by size, and equal sums are merged; None where more than `limit` different
    ones remain.
    """
    import numpy as np  # noqa: PLC0415 - as above

    tie = TIE * sizes.sum()
    sums, weights = np.zeros(1), np.ones(1)
    for size in sizes:
        sums = np.concatenate([sums, sums + size])
        order = np.argsort(sums, kind="stable")
        sums, weights = sums[order], np.tile(weights / 2, 2)[order]
        distinct = np.flatnonzero(np.diff(sums, prepend=-np.inf) > tie)
        if len(distinct) > limit:
            return None
        sums, weights = sums[distinct], np.add.reduceat(weights, distinct)
    return min(1.0, float(weights[sums >= lost - tie].sum()))


def _drawn_patterns(sizes: "np.ndarray", lost: float, seed: int, resamples: int) -> float:
    """The same from drawn coins, with the observed pattern counted among the draws."""
    import numpy as np  # noqa: PLC0415 - as above

    rng = np.random.default_rng(seed)
    least = lost - TIE * sizes.sum()
    k = len(sizes)
    rows = max(1, BLOCK // k)
    reached = 0
    for done in range(0, resamples, rows):
        octets = rng.integers(0, 256, size=(min(rows, resamples - done), -(-k // 8)), dtype=np.uint8)
        reached += int(np.count_nonzero(np.unpackbits(octets, axis=1, count=k) @ sizes >= least))
    return (reached + 1) / (resamples + 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """A system compared with the best one.

    Attributes:
        mean: of its scores.
        n: number of its scores.
        best: whether no mean is higher.
        shared: number of examples with a score of this system and of the best.
        p_value: of "its true mean is not below that of the best", corrected; None for the best.
    """

    mean: float
    n: int
    best: bool
    shared: int
    p_value: float | None


def against_best(systems: Sequence[Mapping[str, float]], *, seed: int = 0) -> list[Standing | None]:
    """Compare each system with the one of the highest mean, over the examples that both have.

    The same data choose the best system and test it, so any ordered pair could have been compared: the p-value of
    each one-sided paired randomisation test is multiplied by the m (m - 1) pairs of m systems (Bonferroni). At level
    0.05 the probability that any system is called worse than one that is no better is at most 0.05. For two systems
    it is the two-sided test.

    Args:
        systems: the scores of each by example; examples without a score are left out. Of several highest means the
            first is the best.
        seed: of the draws, where sign patterns are drawn.

    Returns:
        One a system, in the same order; None for a system without a score.

    >>> one, other = against_best([{"a": 1, "b": 1, "c": 1, "d": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}])
    >>> one.best, other.p_value  # 2 × 1 / 2^3
    (True, 0.25)
    """
    means = [sum(scores.values()) / len(scores) if scores else None for scores in systems]
    known = [mean for mean in means if mean is not None]
    if not known:
        return [None] * len(systems)
    highest = max(known)
    best = systems[means.index(highest)]
    pairs = len(known) * (len(known) - 1)
    standings: list[Standing | None] = []
    for scores, mean in zip(systems, means, strict=True):
        if mean is None:
            standings.append(None)
            continue
        drops = [best[example] - score for example, score in scores.items() if example in best]
        p_value = None
        if mean < highest - NO_CHANGE:
            test = paired_test(drops, seed=seed, resamples=max(RESAMPLES, DRAWS_PER_COMPARISON * pairs))
            p_value = min(1.0, pairs * test.p_value)
        standings.append(Standing(mean, len(scores), p_value is None, len(drops), p_value))
    return standings
