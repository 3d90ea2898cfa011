"""Bootstrap intervals of means, of ratios of quantiles, and of Pearson's correlation."""

from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

N_RESAMPLES: Final = 2000
MAX_BLOCK_SIZE: Final = 1 << 16  # indices drawn at a time, so that memory does not grow with n

# scipy has the normal distribution too, but takes twice as long to import as numpy.
NORMAL: Final = NormalDist()

Array = npt.NDArray[np.float64]


def bca_means(samples: Sequence[Sequence[float]], *, seed: int = 0) -> list[tuple[float, float]]:
    """95% bias-corrected and accelerated (BCa) bootstrap intervals of the means of several samples.

    All samples have the same number n ≥ 2 of scores. All samples use the same 2,000 resamples, which are drawn once.
    The interval of a sample depends on its scores and the seed only, not on the other samples. If all scores of a
    sample are equal, both bounds are that score.

    Source: Efron (1987), "Better bootstrap confidence intervals".
    """
    rows = [np.asarray(sample, dtype=float) for sample in samples]
    means = np.empty((len(rows), N_RESAMPLES))
    done = 0
    for indices in _resamples(len(rows[0]), seed):
        for row_means, x in zip(means, rows, strict=True):
            # A product of counts and scores would add the numbers in another order and change the last digits.
            row_means[done : done + len(indices)] = x.take(indices).mean(axis=1)
        done += len(indices)
    observed = [float(np.mean(x)) for x in rows]
    return [
        (mean, mean) if np.ptp(x) == 0 else _bca(resampled, observed=mean, influence=x - mean)
        for x, mean, resampled in zip(rows, observed, means, strict=True)
    ]


def _resamples(n: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield blocks of resamples, 2,000 in total: arrays whose rows are n indices of examples."""
    rng = np.random.default_rng(seed)
    rows = max(1, MAX_BLOCK_SIZE // n)
    for done in range(0, N_RESAMPLES, rows):
        yield rng.integers(0, n, size=(min(rows, N_RESAMPLES - done), n))


def _bca(resampled: Array, *, observed: float, influence: Array) -> tuple[float, float]:
    """95% BCa interval of a statistic; `influence` is how far each example moves it, up to a common factor."""
    largest = np.abs(influence).max()
    if largest == 0:
        return observed, observed
    below = (np.sum(resampled < observed) + np.sum(resampled <= observed)) / (2 * N_RESAMPLES)
    # If all resamples are on one side, the bias is infinite; it is limited to what 2,000 resamples can show.
    bias = NORMAL.inv_cdf(min(max(below, 0.5 / N_RESAMPLES), 1 - 0.5 / N_RESAMPLES))
    scaled = influence / largest  # the common factor cancels
    acceleration = np.sum(scaled**3) / (6 * np.sum(scaled**2) ** 1.5)

    def adjusted_level(level: float) -> float:
        z = bias + NORMAL.inv_cdf(level)
        return NORMAL.cdf(bias + z / (1 - acceleration * z))

    ordered = np.sort(resampled).tolist()
    return _quantile(ordered, adjusted_level(0.025)), _quantile(ordered, adjusted_level(0.975))


def _quantile(ordered: Sequence[float], level: float) -> float:
    """Return what `np.quantile` does, which imports numpy.ma: a tenth of the time that numpy takes."""
    place = level * (len(ordered) - 1)
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    # As in numpy, from the nearer of the two values.
    share = place - below
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)  # noqa: PLR2004


def ratio_of_quantiles(
    a: Sequence[float], b: Sequence[float], *, index: int, seed: int
) -> tuple[float, float]:
    """95% percentile bootstrap interval of a quantile of `a` divided by that of `b`, from 2,000 resamples of pairs.

    All times in `b` are above 0; `index` is that of the quantile among the sorted values, from 0.

    Source: Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapter 13.
    """
    times = np.asarray([a, b], dtype=float)
    ratios = []
    for indices in _resamples(len(a), seed):
        quantiles_a, quantiles_b = np.partition(times[:, indices], index, axis=2)[:, :, index]
        ratios.append(quantiles_a / quantiles_b)
    ordered = np.sort(np.concatenate(ratios)).tolist()
    return _quantile(ordered, 0.025), _quantile(ordered, 0.975)


def bca_correlation(a: Sequence[float], b: Sequence[float], *, seed: int) -> tuple[float, float, float]:
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    r = float(_correlations(x[None], y[None])[0])
    u, v = ((values - values.mean()) / values.std() for values in (x, y))
    # The empirical influence function of a correlation (Efron 1987, section 6).
    low, high = _bca(
        np.concatenate([_correlations(x[indices], y[indices]) for indices in _resamples(len(x), seed)]),
        observed=r,
        influence=u * v - r / 2 * (u**2 + v**2),
    )
    return r, low, high


def _correlations(x: Array, y: Array) -> Array:
    """The correlation of each row of x with the same row of y; 0 if one of the two rows is constant."""
    dx, dy = (values - values.mean(axis=1, keepdims=True) for values in (x, y))
    both_vary = (np.ptp(x, axis=1) > 0) & (np.ptp(y, axis=1) > 0)
    scale = np.sqrt((dx**2).sum(axis=1) * (dy**2).sum(axis=1))
    # Floating-point rounding may move a perfect correlation beyond 1.
    return np.where(both_vary, (dx * dy).sum(axis=1) / np.where(both_vary, scale, 1), 0).clip(-1, 1)
