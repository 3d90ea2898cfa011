"""Tests of the mean difference that do not assume symmetry, by reweighting the observed differences.

`noninferiority` tests whether a drop is excluded, which puts the burden of proof on the new system; `reweighted_drop`
tests the reverse, whether a drop is shown.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["noninferiority", "null_weights", "reweighted_drop"]

TIE = 1e-9  # numbers closer than this are equal but for rounding
HALVINGS = 80  # steps of the bisection: more than enough for every bit of a number
GRIDS = (1, 12, 60, 240)
"""Steps from 0 to the largest difference. Between them they hold 0/1 scores, and common shares."""
POINTS = 1 << 20  # most points of the distribution of a sum that are followed, which bounds memory
VANISHED = 1e-140  # amplitudes below are 0
TAIL = 32.0
"""Sums beyond a probability of e^-32 on either side are not followed: less than the transform's rounding."""

Floats = NDArray[np.float64]


def noninferiority(
    drops: Sequence[float], margin: float, *, largest: float = 1.0, points: int = POINTS
) -> float:
    """p-value of "the true mean drop is `margin` or more": small where such a drop is excluded.

    Of all worlds with a mean drop of `margin`, the one that explains the observed differences best is
    found: it reweights them, and where they alone cannot do (too few losses were seen) it adds whole
    losses that never were. p is the probability that n examples of that world have a mean drop no larger
    than the one observed. It is computed, not drawn: there is no seed.

    Args:
        drops: score of the baseline less the new score, an example each, in any order.
        margin: the mean drop to exclude, 0 ≤ margin < largest.
        largest: the largest difference there can be, either way; 1 for scores in [0, 1].
        points: values that share no coarser grid are put on the finest of 12, 60 or 240 steps to `largest`
            on which no more than so many values of the sum are likely; a value between two steps is divided
            between them, which leaves the mean as it is and makes p a little larger. Only where nearly all
            that differ are of one such size is p smaller: the observed sum itself counts half.

    Returns:
        A number in (0, 1], right to 1e-9 but for what `points` says. 1 where the observed drop is `margin` or more, or
        there is none.

    Raises:
        ValueError: the margin is not in [0, largest), or a difference is not a number or beyond `largest`.

    What holds: without any change p is `(1 - margin)^n`, so that at level 0.05 no fewer than 149 examples
    exclude a drop of 2 points, and 59 one of 5. For 0/1 scores the world is the restricted maximum
    likelihood estimate of Tango's score test. In `tests/benchmarks/false_alarms.py` a true drop
    of `margin` passes, at level 0.05, in at most 6% of runs but for the error of the simulation, and with few
    examples in hardly any. Sign-flip, t and bootstrap-t tests of the differences less the margin do not hold: where
    losses are rare, most small samples have none, and these tests then exclude a drop that is there.

    Source: Owen (2001), "Empirical likelihood", for the reweighting; Honda and Takemura (2010), "An
    asymptotically optimal bandit algorithm for bounded support models", for adding the largest value;
    Lloyd (2008), "Exact p-values for discrete models obtained by estimation and maximization"; Tango (1998),
    "Equivalence test and confidence interval for the difference in proportions for the paired-sample design".

    >>> round(noninferiority([0.0] * 149, 0.02), 4)
    0.0493
    """
    if not 0 <= margin < largest:
        raise ValueError(
            f"a margin is at least 0 and below {largest}, the largest difference; found {margin}"
        )
    return _mean_at_most(np.asarray(drops, dtype=float), margin, largest, points)


def reweighted_drop(
    drops: Sequence[float], allowed: float = 0.0, *, largest: float = 1.0, points: int = POINTS
) -> float:
    """p-value of "the true mean drop is at most `allowed`": small where a larger drop is shown.

    `noninferiority` turned round. The world of mean drop `allowed` that explains the observed differences best
    reweights them and, where they alone cannot do, adds whole gains that never were. p is the probability
    that n examples of that world have a mean drop no smaller than the one observed. Flipping signs takes
    the differences to be symmetric if nothing got worse; this test does not, and holds where a few large gains
    make up for many small losses.

    The smaller `largest` is the smaller is p: n examples without a gain leave room for `1 - 0.05^(1/n)` of gains of
    that size. It lies in (0, 1] as that of `noninferiority`; 1 where the observed drop is `allowed` or less, or there
    is none.

    Raises:
        ValueError: `allowed` is not in (-largest, largest), or a difference is not a number or beyond `largest`.

    >>> [round(reweighted_drop([0.03] * 60, largest=largest), 4) for largest in (1, 0.12)]
    [0.0936, 0.0]
    """
    if not -largest < allowed < largest:
        raise ValueError(
            f"an allowed drop is between {-largest} and {largest}, the largest difference; found {allowed}"
        )
    return _mean_at_most(-np.asarray(drops, dtype=float), -allowed, largest, points)


def _mean_at_most(numbers: Floats, margin: float, largest: float, points: int) -> float:
    """Probability of the observed mean or a smaller one in the world of mean `margin`."""
    values, counts = np.unique(numbers, return_counts=True)
    if not np.all(np.abs(values) <= largest):
        raise ValueError(f"a difference of scores must be a number from {-largest} to {largest}")
    n = len(numbers)
    if n == 0 or (mean := float(counts @ values) / n) >= margin - TIE:
        return 1.0
    world = null_weights(values, counts / n, margin, largest)
    return _sum_at_most(n * mean / largest, np.append(values / largest, 1.0), world, n, points)


def null_weights(values: Floats, shares: Floats, margin: float, largest: float) -> Floats:
    """The world of mean `margin` that is nearest to the one observed.

    `values` are different differences, their mean below `margin`, and `shares` how often each was observed, summing to
    1.

    Returns:
        Probabilities of the values, and, last, of `largest`, with which the mean is `margin` and the
        likelihood of the shares greatest: `shares / (1 + tilt·(margin - values))`, and the rest.
    """
    below = margin - values
    low, high = 0.0, 1 / (largest - margin)
    for _ in range(HALVINGS):
        tilt = (low + high) / 2
        low, high = (tilt, high) if shares @ (below / (1 + tilt * below)) > 0 else (low, tilt)
    weights = shares / (1 + low * below)
    # Where nothing is left for whole losses, rounding may leave a trace of either sign.
    world = np.append(weights, max(0.0, 1 - weights.sum()))
    return np.asarray(world / world.sum())


def _sum_at_most(bound: float, values: Floats, weights: Floats, n: int, points: int) -> float:
    """Probability that n independent values, each within [-1, 1], sum to no more than the bound.

    The distribution of the sum is the n-th power of that of one value under the Fourier transform, round a
    circle that is long enough for all sums that are likely.
    """
    mean = float(weights @ values)
    reach = _reach(n * float(weights @ (values - mean) ** 2), 1 + abs(mean))
    steps = _grid(values, n, reach, points)
    place = (values + 1) * steps
    left = np.minimum(np.floor(place + TIE), 2 * steps - 1).astype(int)
    beyond = np.clip(place - left, 0, 1)
    one = np.bincount(left, weights * (1 - beyond), 2 * steps + 1)
    one += np.bincount(left + 1, weights * beyond, 2 * steps + 1)
    # Values that are divided between steps vary more.
    variance = float(one @ (np.arange(2 * steps + 1) - (mean + 1) * steps) ** 2)
    spread = _reach(n * variance, (1 + abs(mean)) * steps)
    centre = n * (mean + 1) * steps
    first, last = max(0, int(centre - spread)), min(2 * steps * n, int(centre + spread) + 1)
    size = 1 << (last - first).bit_length()
    total = np.roll(np.fft.irfft(_power(np.fft.rfft(one, size), n), size), -(first % size))
    end = int(np.floor((bound + n) * steps + TIE * n * steps)) - first
    # The transform's rounding is of the order of 1e-13, beyond which nothing can be said.
    return float(np.clip(total[: max(0, end + 1)].sum(), np.finfo(float).eps, 1.0))


def _reach(variance: float, largest: float) -> float:
    """How far a sum lies from its mean at most, but for a probability of e^-TAIL a side (Bernstein)."""
    third = TAIL * largest / 3
    return third + float(np.sqrt(third**2 + 2 * TAIL * variance))


def _power(base: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """By squaring, which is several times as fast as numpy's own and no less exact."""
    result = np.ones_like(base)
    for bit in f"{n:b}":
        result *= result
        # What squared would leave the range of floats makes them slow, and is nothing.
        result[np.abs(result) < VANISHED] = 0
        if bit == "1":
            result *= base
    return result


def _grid(values: Floats, n: int, reach: float, points: int) -> int:
    """The coarsest grid that holds all values, or else the finest that is allowed."""
    sums = 2 * min(n, reach)
    allowed = [steps for steps in GRIDS if steps == GRIDS[0] or steps * sums < points]
    for steps in allowed:
        if np.all(np.abs(values * steps - np.round(values * steps)) < TIE):
            return steps
    return allowed[-1]
