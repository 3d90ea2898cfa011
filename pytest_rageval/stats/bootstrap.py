"""Bootstrap intervals of means and of ratios of quantiles, and Pearson's correlation with one."""

from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["bca_correlation", "bca_means", "ratio_of_quantiles"]

RESAMPLES: Final = 2000
BLOCK: Final = 1 << 16  # most draws held at once, so that memory does not grow with the number of examples

# scipy has it too, but takes twice as long to import as numpy.
NORMAL: Final = NormalDist()

Array = npt.NDArray[np.float64]


def bca_means(samples: Sequence[Sequence[float]], *, seed: int = 0) -> list[tuple[float, float]]:
    """95% bias-corrected and accelerated bootstrap intervals of the means of samples of n ≥ 2 scores each.

    All have the same 2,000 resamples, which are drawn once. The interval of a sample does not depend on the others: the
    same seed and scores give the same one. Where all scores of a sample are equal, both bounds are that score.

    Source: as `_bca`.
    """
    rows = [np.asarray(sample, dtype=float) for sample in samples]
    means = np.empty((len(rows), RESAMPLES))
    done = 0
    for drawn in _resamples(len(rows[0]), seed):
        for of_sample, x in zip(means, rows, strict=True):
            # Not a product of counts and scores: the order in which numbers are added decides the last digits.
            of_sample[done : done + len(drawn)] = x[drawn].mean(axis=1)
        done += len(drawn)
    observed = [float(np.mean(x)) for x in rows]
    return [
        (mean, mean) if np.ptp(x) == 0 else _bca(resampled, observed=mean, influence=x - mean)
        for x, mean, resampled in zip(rows, observed, means, strict=True)
    ]


def _resamples(n: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield 2,000 rows of n positions of examples, some rows at once; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    rows = max(1, BLOCK // n)
    for done in range(0, RESAMPLES, rows):
        yield rng.integers(0, n, size=(min(rows, RESAMPLES - done), n))


def _bca(resampled: Array, *, observed: float, influence: Array) -> tuple[float, float]:
    """95% bias-corrected and accelerated bootstrap interval of a statistic of independent examples.

    Args:
        resampled: the statistic of each resample.
        observed: the statistic of the examples as they are.
        influence: n numbers: how far each example moves the statistic, up to a common factor (its empirical influence
            function, or the jackknife).

    Returns:
        `(low, high)`; both are the observed value where no example has influence.

    Source: Efron (1987), "Better bootstrap confidence intervals"; 2,000 resamples.
    """
    largest = np.abs(influence).max()
    if largest == 0:
        return observed, observed
    below = (np.sum(resampled < observed) + np.sum(resampled <= observed)) / (2 * RESAMPLES)
    # All on one side would be an infinite bias; 2,000 resamples can show none beyond this.
    bias = NORMAL.inv_cdf(min(max(below, 0.5 / RESAMPLES), 1 - 0.5 / RESAMPLES))
    pull = influence / largest  # the factor cancels
    acceleration = np.sum(pull**3) / (6 * np.sum(pull**2) ** 1.5)

    def share_below(level: float) -> float:
        z = bias + NORMAL.inv_cdf(level)
        return NORMAL.cdf(bias + z / (1 - acceleration * z))

    low, high = np.quantile(resampled, [share_below(0.025), share_below(0.975)])
    return float(low), float(high)


def ratio_of_quantiles(
    a: Sequence[float], b: Sequence[float], *, place: int, seed: int
) -> tuple[float, float]:
    """95% percentile bootstrap interval of the ratio of quantiles of paired times, by 2,000 resamples.

    The quantile is the value at this place, from 0, of the values in their order; those of `b` are above 0. The same
    seed gives the same interval.

    Source: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
    """
    times = np.asarray([a, b], dtype=float)
    ratios = []
    for drawn in _resamples(len(a), seed):
        own, other = np.partition(times[:, drawn], place, axis=2)[:, :, place]
        ratios.append(own / other)
    low, high = np.quantile(np.concatenate(ratios), [0.025, 0.975])
    return float(low), float(high)


def bca_correlation(a: Sequence[float], b: Sequence[float], *, seed: int) -> tuple[float, float, float]:
    """Return Pearson's correlation of two sequences that both vary, with the bounds of its BCa interval."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    r = float(_correlations(x[None], y[None])[0])
    u, v = ((values - values.mean()) / values.std() for values in (x, y))
    # The empirical influence function of a correlation (Efron 1987, section 6).
    low, high = _bca(
        np.concatenate([_correlations(x[drawn], y[drawn]) for drawn in _resamples(len(x), seed)]),
        observed=r,
        influence=u * v - r / 2 * (u**2 + v**2),
    )
    return r, low, high


def _correlations(x: Array, y: Array) -> Array:
    """The correlation of each row of x with that of y; 0 where one of them does not vary."""
    dx, dy = (values - values.mean(axis=1, keepdims=True) for values in (x, y))
    varied = (np.ptp(x, axis=1) > 0) & (np.ptp(y, axis=1) > 0)
    scale = np.sqrt((dx**2).sum(axis=1) * (dy**2).sum(axis=1))
    # Rounding may carry a perfect correlation beyond 1.
    return np.where(varied, (dx * dy).sum(axis=1) / np.where(varied, scale, 1), 0).clip(-1, 1)
