"""Tests of the mean difference that do not assume symmetry, by empirical likelihood.

- `noninferiority_p_value`: does the mean drop by less than a margin? The burden of proof is on the new system.
- `inferiority_p_value`: the reverse, does the mean drop by more than is allowed?

The null distribution is a reweighting of the observed differences.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FLOAT_TOL = 1e-9  # numbers that differ by less are equal up to floating-point rounding
MAX_ITER = 80  # steps of the bisection: more than the precision of a float
GRID_STEPS = (1, 12, 60, 240)
"""Numbers of grid steps from 0 to the largest difference. The grids contain 0/1 scores and common fractions."""
MAX_GRID_POINTS = 1 << 20  # grid points of the distribution of a sum; limits memory
MIN_AMPLITUDE = 1e-140  # smaller Fourier amplitudes are set to 0
TAIL_EXPONENT = 32.0
"""Sums beyond a tail probability of e^-32 on either side are ignored: less than the rounding of the transform."""

Floats = NDArray[np.float64]


def noninferiority_p_value(
    drops: Sequence[float], margin: float, *, largest: float = 1.0, points: int = MAX_GRID_POINTS
) -> float:
    """p-value of the null hypothesis that the true mean drop is `margin` or more; a small value excludes such a drop.

    The null distribution is the distribution of mean drop `margin` under which the observed differences have the
    greatest likelihood. It reweights the observed differences. If no reweighting has this mean (too few losses were
    observed), it adds probability at `largest`: whole losses that were not observed. The p-value is the probability
    that n examples from this distribution have a mean drop of at most the observed one. It is computed by convolution,
    without random numbers.

    A drop is the score of an example in the baseline minus its new score; `largest` is the largest possible difference
    in either direction. Differences that do not lie on a coarser grid are put on the finest of the grids of 12, 60 or
    240 steps to `largest` on which at most `points` values of the sum are likely. A difference between two steps is
    divided between both; this keeps the mean and makes the p-value slightly larger. It makes the p-value smaller only
    if nearly all non-zero differences have the same such size: the probability of the observed sum then counts half.

    The result is in (0, 1], exact to 1e-9 apart from the effect of the grid; 1 if the observed mean drop is `margin` or
    more, or there are no examples. ValueError for a margin or a difference that is out of range.

    Properties: if nothing changed, the p-value is `(1 - margin)^n`; so at level 0.05 at least 149 examples are needed
    to exclude a drop of 0.02, and 59 for 0.05. For 0/1 scores the null distribution is the restricted maximum
    likelihood estimate of Tango's score test. In `tests/benchmarks/false_alarms.py`, a true drop of `margin` is
    excluded at level 0.05 in at most 6% of runs (up to simulation error), and hardly ever with few examples. Sign-flip,
    t and bootstrap-t tests of the differences minus the margin do not keep the level: if losses are rare, most small
    samples contain none, and these tests then exclude a drop that exists.

    Source: Owen (2001), "Empirical likelihood", for the reweighting; Honda and Takemura (2010), "An
    asymptotically optimal bandit algorithm for bounded support models", for adding the largest value;
    Lloyd (2008), "Exact p-values for discrete models obtained by estimation and maximization"; Tango (1998),
    "Equivalence test and confidence interval for the difference in proportions for the paired-sample design".

    >>> round(noninferiority_p_value([0.0] * 149, 0.02), 4)
    0.0493
    """
    if not 0 <= margin < largest:
        raise ValueError(
            f"a margin is at least 0 and below {largest}, the largest difference; found {margin}"
        )
    return _mean_p_value(np.asarray(drops, dtype=float), margin, largest, points)


def inferiority_p_value(
    drops: Sequence[float], allowed: float = 0.0, *, largest: float = 1.0, points: int = MAX_GRID_POINTS
) -> float:
    """p-value of the null hypothesis that the true mean drop is `allowed` or less; a small value shows a larger drop.

    This is the reverse of `noninferiority_p_value`, with the signs of the differences exchanged: the null distribution
    of mean drop `allowed` reweights the observed differences and, if needed, adds whole gains that were not observed.
    A sign-flip test assumes that the differences are symmetric under the null hypothesis. This test does not, and
    keeps its level even if a few large gains make up for many small losses.

    `largest` is the largest gain that is assumed possible. A smaller value gives a smaller p-value: n examples without
    a gain leave room, at level 0.05, for a share of `1 - 0.05^(1/n)` of gains of this size.

    >>> [round(inferiority_p_value([0.03] * 60, largest=largest), 4) for largest in (1, 0.12)]
    [0.0936, 0.0]
    """
    if not -largest < allowed < largest:
        raise ValueError(
            f"an allowed drop is between {-largest} and {largest}, the largest difference; found {allowed}"
        )
    return _mean_p_value(-np.asarray(drops, dtype=float), -allowed, largest, points)


def _mean_p_value(numbers: Floats, margin: float, largest: float, points: int) -> float:
    """The probability, under the null distribution of mean `margin`, of the observed mean or a smaller one."""
    values, counts = np.unique(numbers, return_counts=True)
    if not np.all(np.abs(values) <= largest):
        raise ValueError(f"a difference of scores must be a number from {-largest} to {largest}")
    n = len(numbers)
    if n == 0 or (mean := float(counts @ values) / n) >= margin - FLOAT_TOL:
        return 1.0
    weights = null_weights(values, counts / n, margin, largest)
    return _sum_cdf(n * mean / largest, np.append(values / largest, 1.0), weights, n, points)


def null_weights(values: Floats, shares: Floats, margin: float, largest: float) -> Floats:
    """The null distribution: among the distributions of mean `margin`, the one with the greatest empirical likelihood.

    It has the probability `share / (1 + tilt·(margin - value))` of each distinct observed value, whose mean is below
    `margin`, followed by the rest, which is that of `largest`.
    """
    below = margin - values
    low, high = 0.0, 1 / (largest - margin)
    for _ in range(MAX_ITER):
        tilt = (low + high) / 2
        low, high = (tilt, high) if shares @ (below / (1 + tilt * below)) > 0 else (low, tilt)
    weights = shares / (1 + low * below)
    # If no probability is left for `largest`, rounding may leave a tiny number of either sign.
    probabilities = np.append(weights, max(0.0, 1 - weights.sum()))
    return np.asarray(probabilities / probabilities.sum())


def _sum_cdf(bound: float, values: Floats, weights: Floats, n: int, points: int) -> float:
    """The probability that n independent draws of these values, each within [-1, 1], sum to at most the bound.

    The distribution of the sum is the n-fold convolution of the distribution of one value, computed by Fourier
    transform on a circular grid that is long enough for all sums that are likely.
    """
    mean = float(weights @ values)
    reach = _bernstein_reach(n * float(weights @ (values - mean) ** 2), 1 + abs(mean))
    steps = _grid_steps(values, n, reach, points)
    positions = (values + 1) * steps
    left = np.minimum(np.floor(positions + FLOAT_TOL), 2 * steps - 1).astype(int)
    fraction = np.clip(positions - left, 0, 1)
    pmf = np.bincount(left, weights * (1 - fraction), 2 * steps + 1)
    pmf += np.bincount(left + 1, weights * fraction, 2 * steps + 1)
    # Dividing a value between two steps increases the variance.
    variance = float(pmf @ (np.arange(2 * steps + 1) - (mean + 1) * steps) ** 2)
    spread = _bernstein_reach(n * variance, (1 + abs(mean)) * steps)
    centre = n * (mean + 1) * steps
    first, last = max(0, int(centre - spread)), min(2 * steps * n, int(centre + spread) + 1)
    size = 1 << (last - first).bit_length()
    total = np.roll(np.fft.irfft(_elementwise_power(np.fft.rfft(pmf, size), n), size), -(first % size))
    end = int(np.floor((bound + n) * steps + FLOAT_TOL * n * steps)) - first
    # The rounding error of the transform is of the order of 1e-13; smaller probabilities cannot be told from 0.
    return float(np.clip(total[: max(0, end + 1)].sum(), np.finfo(float).eps, 1.0))


def _bernstein_reach(variance: float, largest: float) -> float:
    """The distance of a sum from its mean that it exceeds with a probability of at most e^-32 per side (Bernstein)."""
    third = TAIL_EXPONENT * largest / 3
    return third + float(np.sqrt(third**2 + 2 * TAIL_EXPONENT * variance))


def _elementwise_power(base: NDArray[np.complex128], n: int) -> NDArray[np.complex128]:
    """Each number to the n-th power, by squaring: several times as fast as numpy's power and as exact."""
    result = np.ones_like(base)
    for bit in f"{n:b}":
        result *= result
        # Squares that underflow make arithmetic slow, and are negligible.
        result[np.abs(result) < MIN_AMPLITUDE] = 0
        if bit == "1":
            result *= base
    return result


def _grid_steps(values: Floats, n: int, reach: float, points: int) -> int:
    """The steps of the coarsest grid that contains all values; if there is none, of the finest within `points`."""
    sums = 2 * min(n, reach)
    allowed = [steps for steps in GRID_STEPS if steps == GRID_STEPS[0] or steps * sums < points]
    for steps in allowed:
        if np.all(np.abs(values * steps - np.round(values * steps)) < FLOAT_TOL):
            return steps
    return allowed[-1]
