"""Joint sign-flip permutation test of several columns: step-down max-T p-values."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

MAX_EXACT_ROWS = 16  # with up to this number of rows, all sign patterns are enumerated
RESAMPLING_RISK = 1e-4  # probability that drawn patterns lead to another decision than the enumeration of all
MAX_DRAWS = 1_000_000  # draws after which the test gives up, if the p-value is too close to alpha to decide
MAX_SIGNS = 1 << 32  # maximum number of signs drawn: draws times rows
MAX_FOURTH_MOMENT = 2e-3
"""If the fourth powers of a column of unit length sum to at most this, its sum is normal to within 1e-4."""
MIN_DRAWS = 1000  # draws of the first batch; up to ten times as many if that is fast
FIRST_BATCH_SIGNS = 1 << 24  # signs of a fast first batch: about 10 ms
MAX_BLOCK_SIZE = 1 << 20  # signs held at a time, so that memory does not grow with the number of questions
EXACT_TIE_TOL = 1e-9
"""Tolerance of ties between enumerated sums, whose standard deviation is 1."""
DRAWN_TIE_TOL = 2e-5  # tolerance of ties between drawn sums, which are computed in single precision
JITTER = (
    1e-12  # added to variances of 1, so that the correlation matrix of proportional columns can be factorized
)
TAIL_FACTOR = 3.178  # P(weighted sum of random signs > t) is at most this multiple of P(normal > t)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SignFlipResult:
    """Result of a joint sign-flip test.

    Attributes:
        p_values: the p-value of each column, adjusted for all columns.
        draws: number of sign patterns that were drawn; 0 if the p-values are exact or computed from the normal
            distribution.
        settled: True if another seed would lead to the same decisions at alpha, except with probability
            `RESAMPLING_RISK`. False if the maximum number of draws was reached; an undecided p-value is then set above
            alpha.
    """

    p_values: tuple[float, ...]
    draws: int
    settled: bool


def sign_flip_test(
    columns: Floats, *, alpha: float, seed: int = 0, max_draws: int = MAX_DRAWS
) -> SignFlipResult:
    """Step-down max-T p-values of the null hypotheses that the mean of a column is at most 0, by sign flips of rows.

    The test statistic of a column is `T = Σ x / sqrt(Σ x²)`. The sign of a row is flipped in all columns at once, which
    preserves the correlations of the columns. With the columns in descending order of T, the p-value of the j-th is
    `P(max_{l ≥ j} T*_l > T_j) + P(max_{l ≥ j} T*_l = T_j) / 2` under random signs, and at least the p-value of the
    column before it. Ties count half, so that a single column of 0 and ±1 gives the mid-p McNemar test.

    Args:
        columns: array of rows × columns, finite numbers; 0 for a missing value.
        alpha: the level that the p-values are compared with, in (0, 1).
        seed: seed of the draws.
        max_draws: maximum number of draws, at least 1.

    Returns:
        Exact p-values if at most 16 rows have a number other than 0. Otherwise p-values from random draws:

        - of signs, until the Robbins-Lai confidence sequence of every p-value excludes alpha, with a joint risk of
          1e-4. If b of m draws exceed the observed statistic, the p-value is `(b + 1/2) / (m + 1)`, or, if smaller, the
          bound `3.178·P(normal > T)` times the number of columns from the j-th on. A p-value that is undecided after
          1,000,000 draws, or 2^32 signs, counts as not significant.
        - of normal variables with the same correlations, if no row has much more weight than the others
          (`Σ x⁴ ≤ 0.002·(Σ x²)²`, which needs at least 500 rows). The p-value then differs by less than 1e-4, and by
          less than 3e-5 at p ≤ 0.05. A single such column needs no draws.

        A column of zeros has the p-value 1.

    The family-wise error rate is at most alpha whichever null hypotheses are true (strong control), if the rows of
    their columns are symmetric around 0. With ties, which count half, it is slightly larger
    (`pytest_rageval.stats.mcnemar.mid_p`).

    Source: Westfall and Young (1993), "Resampling-based multiple testing"; Romano and Wolf (2005), "Exact and
    approximate stepdown methods for multiple hypothesis testing"; for the stopping rule Robbins (1970),
    "Statistical methods related to the law of the iterated logarithm", Lai (1976), "On confidence sequences",
    and Ding, Gandy and Hahn (2020), "A simple method for implementing Monte Carlo tests"; for the tail Bentkus and
    Dzindzalieta (2015), "A tight Gaussian bound for weighted sums of Rademacher random variables".
    """
    rows = columns[np.any(columns != 0, axis=1)]
    length = np.sqrt((rows**2).sum(axis=0))
    p_values = np.ones(rows.shape[1])
    nonzero = np.flatnonzero(length > 0)
    if not len(nonzero):
        return SignFlipResult(tuple(p_values), 0, settled=True)
    scaled = rows[:, nonzero] / length[nonzero]
    observed = scaled.sum(axis=0)
    order = np.argsort(-observed, kind="stable")
    scaled, observed = scaled[:, order], observed[order]
    if len(scaled) <= MAX_EXACT_ROWS:
        above, ties, patterns = _count_exceedances(_enumerate_sums(scaled), observed, EXACT_TIE_TOL)
        ordered_p_values, draws, settled = (above + ties / 2) / patterns, 0, True
    else:
        ordered_p_values, draws, settled = _monte_carlo_p_values(
            scaled, observed, alpha, np.random.default_rng(seed), max_draws
        )
    p_values[nonzero[order]] = np.minimum(np.maximum.accumulate(ordered_p_values), 1.0)
    return SignFlipResult(tuple(map(float, p_values)), draws, settled)


def marginal_level(columns: Floats, alpha: float, *, seed: int = 0) -> float:
    """The level of a test of a single column that corresponds to a joint max-T test at alpha, in (0, 0.5].

    `P(T_1 > c)` with c from `P(max_j T_j > c) = alpha`, for a normal T with the correlations of the columns under
    random signs, from 50,000 draws. It is alpha for columns that are multiples of each other, and about `alpha / m` for
    m independent columns. The confidence interval and the power of a single column are computed at this level.
    """
    length = np.sqrt((columns**2).sum(axis=0))
    scaled = columns[:, length > 0] / length[length > 0]
    count = scaled.shape[1]
    if count <= 1:
        return alpha
    blocks = _draw_normal_sums(scaled, 50_000, np.random.default_rng(seed))
    largest = np.concatenate([block.max(axis=1) for block in blocks])
    level = NormalDist().cdf(-float(np.quantile(largest, 1 - alpha)))
    return float(min(max(level, alpha / count), alpha))


def _enumerate_sums(scaled: Floats) -> Iterator[Floats]:
    """Yield the column sums under all patterns of signs, as one block."""
    k = len(scaled)
    bits = np.arange(1 << k)[:, None] >> np.arange(k) & 1
    yield (1.0 - 2.0 * bits) @ scaled


def _count_exceedances(
    sums: Iterator[Floats], observed: Floats, tie_tol: float
) -> tuple[Floats, Floats, int]:
    """Count, per column, the patterns whose maximum over it and later columns is above its statistic, or ties with it.

    Returns:
        The counts above, the counts of ties, and the number of all patterns.
    """
    above, ties, patterns = np.zeros(len(observed)), np.zeros(len(observed)), 0
    for block in sums:
        excess = np.maximum.accumulate(block[:, ::-1], axis=1)[:, ::-1] - observed
        is_above = excess > tie_tol
        above += is_above.sum(axis=0)
        ties += (excess >= -tie_tol).sum(axis=0) - is_above.sum(axis=0)
        patterns += len(block)
    return above, ties, patterns


def _monte_carlo_p_values(
    scaled: Floats, observed: Floats, alpha: float, rng: np.random.Generator, max_draws: int
) -> tuple[Floats, int, bool]:
    """Return p-values from random draws, the number of draws, and whether the decisions at alpha are settled."""
    k, m = scaled.shape
    tails = np.array([NormalDist().cdf(-float(t)) for t in observed])
    if np.all((scaled**4).sum(axis=0) <= MAX_FOURTH_MOMENT):
        if m == 1:
            return tails, 0, True
        draw_sums, k = _draw_normal_sums, m
    else:
        draw_sums = _draw_sign_sums
    bounds = TAIL_FACTOR * np.arange(m, 0, -1) * tails
    limit = max(1, min(max_draws, MAX_SIGNS // k))
    batch = min(limit, max(MIN_DRAWS, min(10 * MIN_DRAWS, FIRST_BATCH_SIGNS // k)))
    log_evidence = math.log(m / RESAMPLING_RISK)
    exceedances, draws = np.zeros(m), 0
    while True:
        above, ties, new_draws = _count_exceedances(
            draw_sums(scaled, min(batch, limit - draws), rng), observed, DRAWN_TIE_TOL
        )
        exceedances += above + ties / 2
        draws += new_draws
        undecided = _first_undecided(exceedances, draws, bounds, alpha, log_evidence)
        if undecided is None or draws >= limit:
            break
        batch = max(batch, draws // 4)
    p_values = np.minimum((exceedances + 0.5) / (draws + 1), bounds)
    if undecided is not None:
        p_values[undecided] = _confidence_upper_bound(exceedances[undecided], draws, log_evidence)
    return p_values, draws, undecided is None


def _draw_sign_sums(scaled: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the column sums under random signs, in blocks of draws."""
    octets = -(-len(scaled) // 8)
    padded = np.zeros((octets * 8, scaled.shape[1]), dtype=np.float32)
    padded[: len(scaled)] = scaled
    rows = max(1, MAX_BLOCK_SIZE // len(padded))
    # The eight signs of each random byte come from a table, which is faster than unpacking and converting bits.
    signs = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
    for done in range(0, draws, rows):
        random_bytes = rng.integers(0, 256, size=(min(rows, draws - done), octets), dtype=np.uint8)
        yield (np.take(signs, random_bytes, axis=0).reshape(len(random_bytes), -1) @ padded).astype(
            np.float64
        )


def _draw_normal_sums(scaled: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield normal variables with the correlations of the column sums, in blocks of draws."""
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

    `∫ (q/p)^b ((1-q)/(1-p))^(m-b) dq` for b of m draws; valid also if ties count half.
    """
    rest = draws - count
    log_beta = math.lgamma(count + 1) + math.lgamma(rest + 1) - math.lgamma(draws + 2)
    return log_beta - count * math.log(p) - rest * math.log1p(-p)


def _confidence_upper_bound(count: float, draws: int, log_evidence: float) -> float:
    """Upper end of the Robbins-Lai confidence sequence of a probability, by bisection."""
    low, high = count / draws, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle < 1 and _log_martingale(count, draws, middle) < log_evidence:
            low = middle
        else:
            high = middle
    return high
