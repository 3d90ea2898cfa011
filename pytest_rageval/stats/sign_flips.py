"""Joint test of several columns by resampling rows and flipping their signs: step-down max-T p-values."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLING_RISK = 1e-4  # probability that drawn patterns lead to another decision than the enumeration of all
MAX_DRAWS = 1_000_000  # draws after which the test gives up, if the p-value is too close to alpha to decide
MAX_SIGNS = 1 << 30  # maximum number of signs drawn: draws times rows
MAX_FOURTH_MOMENT = 2e-3
"""If the fourth powers of a column of unit length sum to at most this, its sum is normal to within 1e-4."""
MIN_DRAWS = 1000  # draws of the first batch; up to ten times as many if that is fast
FIRST_BATCH_SIGNS = 1 << 21  # signs of a fast first batch: about 20 ms
MAX_BLOCK_SIZE = 1 << 15  # numbers held at a time: they fit in the processor's cache
TIE_TOL = 1e-9  # tolerance of ties between statistics, whose standard deviation is 1
JITTER = 1e-12  # added to variances of 1, so that correlations of proportional columns can be factorized
TAIL_FACTOR = 3.178  # P(weighted sum of random signs > t) is at most this multiple of P(normal > t)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SignFlipResult:
    """Result of a joint sign-flip test.

    `p_values` are adjusted for all columns. `draws` is 0 if they are computed from the normal distribution. If
    `settled`, another seed would lead to the same decisions at alpha, except with probability `RESAMPLING_RISK`;
    otherwise the maximum number of draws was reached, and an undecided p-value is set above alpha.
    """

    p_values: tuple[float, ...]
    draws: int
    settled: bool


class _Columns(NamedTuple):
    """Columns of unit length: the rows that are not 0, which of them a column has, and how many rows it has in all."""

    scaled: Floats
    known: NDArray[np.bool_]
    totals: NDArray[np.int64]

    def part(self, columns: list[int]) -> "_Columns":
        rows = self.known[:, columns].any(axis=1)
        return _Columns(self.scaled[rows][:, columns], self.known[rows][:, columns], self.totals[columns])


def sign_flip_test(
    columns: Floats, *, alpha: float, seed: int = 0, max_draws: int = MAX_DRAWS
) -> SignFlipResult:
    """Step-down max-T p-values of the null hypotheses that the mean of a column is at most 0: resample, then flip.

    The test statistic of a column is `T = Σ x / sqrt(Σ x²)`. As many rows as there are, are drawn with replacement, and
    the sign of each drawn row is flipped at random, in all columns at once, which preserves the correlations of the
    columns; T* is the statistic of these rows. A column without a value in some rows is resampled from its own rows
    (`_resampled`), as if it were tested alone. With the columns in descending order of T, the p-value of the j-th is
    `P(max_{l ≥ j} T*_l ≥ T_j)`, and at least the p-value of the column before it. For a single column of 0 and ±1 this
    is `pytest_rageval.stats.mcnemar.mcnemar_p_value`. Sign flips alone are conservative if few rows differ from 0.

    The columns have finite numbers, NaN for a missing value. The p-values are from random draws:

    - of rows and signs, until the Robbins-Lai confidence sequence of every p-value excludes alpha, with a joint risk of
      1e-4. If b of m draws reach the observed statistic, the p-value is `(b + 1/2) / (m + 1)`, or, if smaller, the
      bound `3.178·P(normal > T)` times the number of columns from the j-th on. A p-value that is undecided after
      1,000,000 draws, or 2^30 signs, counts as not significant.
    - of normal variables with the same correlations, if no row has much more weight than the others (`Σ x⁴ ≤ 0.002·(Σ
      x²)²`, which needs at least 500 rows). The p-value then differs by less than 1e-4, and by less than 3e-5 at p ≤
      0.05. A single such column needs no draws.

    A column of zeros has the p-value 1.

    The family-wise error rate is alpha whichever null hypotheses are true (strong control), if the rows of their
    columns are symmetric around 0; with few questions it is slightly larger
    (`pytest_rageval.stats.mcnemar.mcnemar_p_value`).

    Source: Westfall and Young (1993), "Resampling-based multiple testing"; Romano and Wolf (2005), "Exact and
    approximate stepdown methods for multiple hypothesis testing"; Wu (1986), "Jackknife, bootstrap and other resampling
    methods in regression analysis", for random signs of resampled rows; for the stopping rule Robbins (1970),
    "Statistical methods related to the law of the iterated logarithm", Lai (1976), "On confidence sequences",
    and Ding, Gandy and Hahn (2020), "A simple method for implementing Monte Carlo tests"; for the tail Bentkus and
    Dzindzalieta (2015), "A tight Gaussian bound for weighted sums of Rademacher random variables".
    """
    known, values = ~np.isnan(columns), np.nan_to_num(columns)
    changed = np.any(values != 0, axis=1)
    rows = values[changed]
    length = np.sqrt((rows**2).sum(axis=0))
    p_values = np.ones(rows.shape[1])
    nonzero = np.flatnonzero(length > 0)
    if not len(nonzero):
        return SignFlipResult(tuple(p_values), 0, settled=True)
    scaled = rows[:, nonzero] / length[nonzero]
    order = np.argsort(-scaled.sum(axis=0), kind="stable")
    known = known[:, nonzero[order]]
    ordered = _Columns(scaled[:, order], known[changed], known.sum(axis=0))
    ordered_p_values, draws, settled = _monte_carlo_p_values(
        ordered, alpha, np.random.default_rng(seed), max_draws
    )
    p_values[nonzero[order]] = np.minimum(np.maximum.accumulate(ordered_p_values), 1.0)
    return SignFlipResult(tuple(map(float, p_values)), draws, settled)


def marginal_level(columns: Floats, alpha: float, *, seed: int = 0) -> float:
    """The level of a test of a single column that corresponds to a joint max-T test at alpha, in (0, 0.5].

    `P(T_1 > c)` with c from `P(max_j T_j > c) = alpha`, for a normal T with the correlations of the columns under
    random signs, from 50,000 draws. It is alpha for columns that are multiples of each other, and about `alpha / m` for
    m independent columns. The confidence interval and the power of a single column are computed at this level.
    """
    columns = np.nan_to_num(columns)
    length = np.sqrt((columns**2).sum(axis=0))
    scaled = columns[:, length > 0] / length[length > 0]
    count = scaled.shape[1]
    if count <= 1:
        return alpha
    blocks = _draw_normal_sums(scaled, np.random.default_rng(seed), 50_000)
    largest = np.concatenate([block.max(axis=1) for block in blocks])
    level = NormalDist().cdf(-float(np.quantile(largest, 1 - alpha)))
    return float(min(max(level, alpha / count), alpha))


def _monte_carlo_p_values(
    columns: _Columns, alpha: float, rng: np.random.Generator, max_draws: int
) -> tuple[Floats, int, bool]:
    """Return p-values from random draws, the number of draws, and whether the decisions at alpha are settled."""
    scaled = columns.scaled
    k, m = scaled.shape
    observed = scaled.sum(axis=0)
    # The tails of NormalDist are 0 beyond 8.3.
    tails = np.array([max(math.erfc(t / math.sqrt(2)) / 2, sys.float_info.min) for t in observed])
    draw: Callable[[int], Iterator[Floats]] = partial(_draw_statistics, columns, rng)
    if np.all((scaled**4).sum(axis=0) <= MAX_FOURTH_MOMENT):
        if m == 1:
            return tails, 0, True
        draw, k = partial(_draw_normal_sums, scaled, rng), m
    bounds = TAIL_FACTOR * np.arange(m, 0, -1) * tails
    limit = max(1, min(max_draws, MAX_SIGNS // k))
    batch = min(limit, max(MIN_DRAWS, min(10 * MIN_DRAWS, FIRST_BATCH_SIGNS // k)))
    log_evidence = math.log(m / RESAMPLING_RISK)
    exceedances, draws = np.zeros(m), 0
    while True:
        for block in draw(min(batch, limit - draws)):
            largest = np.maximum.accumulate(block[:, ::-1], axis=1)[:, ::-1]
            exceedances += (largest >= observed - TIE_TOL).sum(axis=0)
            draws += len(block)
        undecided = _first_undecided(exceedances, draws, bounds, alpha, log_evidence)
        if undecided is None or draws >= limit:
            break
        batch = max(batch, draws // 4)
    p_values = np.minimum((exceedances + 0.5) / (draws + 1), bounds)
    if undecided is not None:
        p_values[undecided] = _confidence_upper_bound(exceedances[undecided], draws, log_evidence)
    return p_values, draws, undecided is None


def _draw_statistics(columns: _Columns, rng: np.random.Generator, draws: int) -> Iterator[Floats]:
    """Yield the statistics of resampled rows with random signs, in blocks of draws.

    Columns without a common row, such as those of slices, are drawn one after the other.
    """
    parts: list[list[int]] = []
    for column, overlaps in enumerate(columns.known.T.astype(int) @ columns.known > 0):
        joined = [part for part in parts if overlaps[part].any()]
        parts = [part for part in parts if part not in joined] + [[*chain(*joined), column]]
    samples = [(part, columns.part(part)) for part in parts]
    size = max(1, MAX_BLOCK_SIZE // len(columns.scaled))
    for done in range(0, draws, size):
        block = np.empty((min(size, draws - done), columns.scaled.shape[1]))
        for part, own in samples:
            sums, squares = _resampled(own, rng, len(block))
            block[:, part] = sums / np.sqrt(np.where(squares > 0, squares, 1))
        yield block


def _resampled(columns: _Columns, rng: np.random.Generator, draws: int) -> tuple[Floats, Floats]:
    """Return the sum and the sum of squares of each column, for each draw.

    Of the n rows that are drawn for a column a binomial number is not 0. If the columns have different rows, all take
    their rows from one random sequence, each the first ones that it has: so the statistic of each column is distributed
    as if it were tested alone, and common rows have a common sign.
    """
    scaled, known, totals = columns
    k = len(scaled)
    if known.all() and np.all(totals == totals[0]):
        counts = rng.binomial(totals[0], k / totals[0], size=draws)
        # A cell for each draw, sign and row.
        cells = rng.integers(0, 2 * k, size=counts.sum()) + np.repeat(np.arange(draws) * 2 * k, counts)
        plus, minus = np.moveaxis(
            np.bincount(cells, minlength=2 * k * draws).reshape(-1, 2, k).astype(float), 1, 0
        )
        return (plus - minus) @ scaled, (plus + minus) @ scaled**2
    chances = rng.random(draws)
    left = np.stack(
        [_binomial_quantiles(*n, chances) for n in zip(totals, known.sum(axis=0), strict=True)], 1
    )
    sums, squares = np.zeros((2, *left.shape))
    while len(unfinished := np.flatnonzero(left.any(axis=1))):
        rows, signs = np.divmod(rng.integers(0, 2 * k, size=(len(unfinished), k)), 2)
        has = known[rows]
        taken = has & (has.cumsum(axis=1) <= left[unfinished, None])
        values = np.where(taken, scaled[rows], 0.0)
        left[unfinished] -= taken.sum(axis=1)
        sums[unfinished] += (values * (2 * signs - 1)[:, :, None]).sum(axis=1)
        squares[unfinished] += (values**2).sum(axis=1)
    return sums, squares


def _binomial_quantiles(n: int, k: int, chances: Floats) -> NDArray[np.int64]:
    """The quantiles of the number of n rows drawn that are among k of n rows."""
    if k == n:
        return np.full(len(chances), n)
    counts = np.arange(1, n + 1)
    logs = np.cumsum(np.r_[0.0, np.log((n - counts + 1) / counts * k / (n - k))])
    below = np.cumsum(np.exp(logs - logs.max()))
    return np.searchsorted(below / below[-1], chances)


def _draw_normal_sums(scaled: Floats, rng: np.random.Generator, draws: int) -> Iterator[Floats]:
    correlations = scaled.T @ scaled + JITTER * np.eye(scaled.shape[1])
    factor = np.linalg.cholesky(correlations).T
    rows = max(1, MAX_BLOCK_SIZE // len(factor))
    for done in range(0, draws, rows):
        yield rng.standard_normal((min(rows, draws - done), len(factor))) @ factor


def _first_undecided(
    exceedances: Floats, draws: int, bounds: Floats, alpha: float, log_evidence: float
) -> int | None:
    """The index of the first column whose decision is open.

    None if every decision is clear, or if a column before the first open one is not significant: in a step-down test
    all columns after it are not significant either.
    """
    for j, count in enumerate(exceedances):
        if bounds[j] <= alpha:
            continue
        if _log_martingale(count, draws, alpha) < log_evidence:
            return j
        if count > alpha * draws:
            return None
    return None


def _log_martingale(count: float, draws: int, p: float) -> float:
    """Logarithm of the evidence against the probability p; if p is true, the evidence is a martingale.

    `∫ (q/p)^b ((1-q)/(1-p))^(m-b) dq` for b of m draws.
    """
    rest = draws - count
    log_beta = math.lgamma(count + 1) + math.lgamma(rest + 1) - math.lgamma(draws + 2)
    return log_beta - count * math.log(p) - rest * math.log1p(-p)


def _confidence_upper_bound(count: float, draws: int, log_evidence: float) -> float:
    low, high = count / draws, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle < 1 and _log_martingale(count, draws, middle) < log_evidence:
            low = middle
        else:
            high = middle
    return high
