"""Non-inferiority: whether a drop of the mean is excluded. The burden of proof is on the new system."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["noninferiority", "null_weights"]

TIE: Final = 1e-9
"""Numbers closer than this are equal but for rounding."""
HALVINGS: Final = 80
"""Steps of the bisection: more than a float has bits."""
GRIDS: Final = (1, 12, 60, 240)
"""Steps from 0 to the largest difference. They hold 0/1 scores and common shares."""
POINTS: Final = 1 << 20
"""Most points that the distribution of a sum may have, which bounds memory."""

Floats = NDArray[np.float64]


def noninferiority(
    drops: Sequence[float], margin: float, *, largest: float = 1.0, points: int = POINTS
) -> float:
    """p-value of "the true mean drop is `margin` or more": small where such a drop is excluded.

    Of all distributions with a mean drop of `margin`, the null distribution is the one that explains the observed
    differences best. It reweights them and, where they alone do not reach the mean (too few losses were seen), adds
    whole losses that were not observed. p is the probability that n examples of it have a mean drop no larger than
    the one observed. It is computed, not drawn: there is no seed.

    Args:
        drops: score of the baseline less the new score, an example each, in any order.
        margin: the mean drop to exclude, 0 ≤ margin < largest.
        largest: the largest possible difference, either way; 1 for scores in [0, 1].
        points: values that share no coarser grid are put on the finest of 12, 60 or 240 steps to `largest` on which
            sums of n take no more than this many values; a value between two steps is divided between them, which
            keeps the mean and makes p a little larger.

    Returns:
        A number in (0, 1], right to 1e-9. 1 where the observed drop is `margin` or more, and without differences.

    Raises:
        ValueError: the margin is not in [0, largest), or a difference is not a number or beyond `largest`.

    Without any change p is `(1 - margin)^n`, so that at level 0.05 it takes 149 examples to exclude a drop of 2
    points, and 59 for one of 5. For 0/1 scores the null distribution is the restricted maximum likelihood estimate of
    Tango's score test. In `tests/benchmarks/false_alarms.py` a true drop of `margin` passes, at level 0.05, in at
    most 6% of runs but for the error of the simulation, and with few examples in hardly any. Sign-flip, t and
    bootstrap-t tests of the differences less the margin do not hold their level: where losses are rare, most small
    samples have none, and these tests then exclude a drop that exists.

    Source: Owen (2001), "Empirical likelihood", for the reweighting; Honda and Takemura (2010), "An asymptotically
    optimal bandit algorithm for bounded support models", for adding the largest value; Lloyd (2008), "Exact p-values
    for discrete models obtained by estimation and maximization"; Tango (1998), "Equivalence test and confidence
    interval for the difference in proportions for the paired-sample design".

    >>> round(noninferiority([0.0] * 149, 0.02), 4)
    0.0493
    """
    if not 0 <= margin < largest:
        raise ValueError(
            f"a margin is at least 0 and below {largest}, the largest difference; found {margin}"
        )
    values, counts = np.unique(np.asarray(drops, dtype=float), return_counts=True)
    if not np.all(np.abs(values) <= largest):
        raise ValueError(f"a difference of scores is a number from {-largest} to {largest}")
    n = len(drops)
    if n == 0 or (mean := float(counts @ values) / n) >= margin - TIE:
        return 1.0
    weights = null_weights(values, counts / n, margin, largest)
    return _sum_at_most(n * mean / largest, np.append(values / largest, 1.0), weights, n, points)


def null_weights(values: Floats, shares: Floats, margin: float, largest: float) -> Floats:
    """Return the distribution of mean `margin` that is nearest to the one observed.

    Args:
        values: the distinct differences, their mean below `margin`.
        shares: how often each was observed, summing to 1.
        margin: the mean of the result.
        largest: the value that may be added.

    Returns:
        Probabilities of the values, and, last, of `largest`, with which the mean is `margin` and the likelihood of
        the shares greatest: `shares / (1 + tilt·(margin - values))`, and the rest.
    """
    below = margin - values
    low, high = 0.0, 1 / (largest - margin)
    for _ in range(HALVINGS):
        tilt = (low + high) / 2
        low, high = (tilt, high) if shares @ (below / (1 + tilt * below)) > 0 else (low, tilt)
    weights = shares / (1 + low * below)
    # Where nothing is left for whole losses, rounding may leave a trace of either sign.
    weights = np.append(weights, max(0.0, 1 - weights.sum()))
    return np.asarray(weights / weights.sum())


def _sum_at_most(bound: float, values: Floats, weights: Floats, n: int, points: int) -> float:
    """Probability that n independent values, each within [-1, 1], sum to no more than the bound.

    The distribution of the sum is the n-th power of that of one value under the Fourier transform.
    """
    steps = _grid(values, n, points)
    place = (values + 1) * steps
    left = np.minimum(np.floor(place + TIE), 2 * steps - 1).astype(int)
    beyond = np.clip(place - left, 0, 1)
    one = np.bincount(left, weights * (1 - beyond), 2 * steps + 1)
    one += np.bincount(left + 1, weights * beyond, 2 * steps + 1)
    size = 1 << (2 * steps * n).bit_length()
    total = np.fft.irfft(_power(np.fft.rfft(one, size), n), size)
    last = int(np.floor((bound + n) * steps + TIE * n * steps))
    # The transform rounds at the order of 1e-13.
    return float(np.clip(total[: last + 1].sum(), np.finfo(float).eps, 1.0))


def _power(base: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """By squaring, which is several times as fast as numpy's own and no less exact."""
    result = np.ones_like(base)
    for bit in f"{n:b}":
        result *= result
        if bit == "1":
            result *= base
    return result


def _grid(values: Floats, n: int, points: int) -> int:
    """The coarsest grid that holds all values, or else the finest that is allowed."""
    allowed = [steps for steps in GRIDS if steps == GRIDS[0] or 2 * steps * n < points]
    for steps in allowed:
        if np.all(np.abs(values * steps - np.round(values * steps)) < TIE):
            return steps
    return allowed[-1]
