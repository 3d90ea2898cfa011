"""Joint sign-flip tests of several columns: step-down p-values of the largest statistic (max-T)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT_ROWS", "MOST_DRAWS", "MOST_SIGNS", "RISK", "Flips", "joint_level", "sign_flips"]

EXACT_ROWS = 16  # up to so many rows all sign patterns are enumerated
RISK = 1e-4  # probability that the draws decide otherwise than the enumeration would
MOST_DRAWS = 1_000_000  # draws of a test whose p-value lies so close to alpha that fewer do not decide
MOST_SIGNS = 1 << 32  # signs drawn at most: draws times rows
EVEN = 2e-3
"""Where the fourth powers of a column of length 1 sum to at most this, its sum is normal to within 1e-4."""
LEAST_DRAWS = 1000  # least number of draws; ten times as many where that takes no time
CHEAP_SIGNS = 1 << 24  # so many signs take no time: some 10 ms
BLOCK = 1 << 20  # signs held at once, so that memory does not grow with the number of questions
TIE = 1e-9
"""Sums of all patterns closer than this are equal but for rounding; the standard deviation of each is 1."""
TIE_DRAWN = 2e-5  # the same of draws, which are summed in single precision
JITTER = 1e-12  # added to variances of 1, so that columns may be multiples of each other
TAIL = 3.178  # a weighted sum of random signs is beyond t at most so many times as often as a normal variable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Flips:
    """Result of a joint sign-flip test.

    Attributes:
        p_values: of each column, adjusted for all of them.
        draws: number of sign patterns that were drawn; 0 where p-values are exact or computed.
        settled: whether the decision at alpha does not depend on the seed, but for a probability of `RISK`. Otherwise
            the cap was reached, and a p-value that is still undecided is set above alpha.
    """

    p_values: tuple[float, ...]
    draws: int
    settled: bool


def sign_flips(columns: Floats, *, alpha: float, seed: int = 0, most_draws: int = MOST_DRAWS) -> Flips:
    """Step-down max-T p-values of "the mean of the column is not above 0", by flipping the signs of rows.

    The statistic of a column is `T = Σ x / sqrt(Σ x²)`. A row's sign is flipped in all columns at once, which
    preserves their correlations. With the columns in descending order of T, the p-value of the j-th is
    `P(max_{l ≥ j} T*_l > T_j) + P(max_{l ≥ j} T*_l = T_j) / 2` under random signs, and at least that of the column
    before it. Ties count half, so that one column of 0 and ±1 gives the mid-p McNemar test.

    Args:
        columns: rows × columns, finite numbers; 0 where there is none.
        alpha: the level that the p-values are compared with, in (0, 1).
        seed: of the draws.
        most_draws: at least 1.

    Returns:
        Exact p-values where at most 16 rows have a number other than 0. Otherwise signs are drawn:

        - until the Robbins-Lai confidence sequence of every p-value excludes alpha, with a joint risk of 1e-4. p is
          `(b + 1/2) / (m + 1)`, with b of m draws beyond the observed statistic, or, where that is smaller, the bound
          `3.178·P(normal > T)`, times the columns. What is undecided after 1,000,000 draws, or 2^32 signs,
          counts as not significant.
        - from the normal distribution with the same correlations where no row weighs much more than the others
          (`Σ x⁴ ≤ 0.002·(Σ x²)²`, at least 500 rows). p differs by less than 1e-4, and by less than 3e-5
          at p ≤ 0.05. A single such column needs no draws.

        A column of zeros has the p-value 1.

    The family-wise error rate is at most alpha whichever of the hypotheses are true (strong control), if the rows of
    their columns are symmetric around 0; slightly more where ties count half (`pytest_rageval.stats.mcnemar.mid_p`).

    Source: Westfall and Young (1993), "Resampling-based multiple testing"; Romano and Wolf (2005), "Exact and
    approximate stepdown methods for multiple hypothesis testing"; for the stopping rule Robbins (1970),
    "Statistical methods related to the law of the iterated logarithm", Lai (1976), "On confidence sequences",
    and Ding, Gandy and Hahn (2020), "A simple method for implementing Monte Carlo tests"; for the tail Bentkus and
    Dzindzalieta (2015), "A tight Gaussian bound for weighted sums of Rademacher random variables".
    """
    rows = columns[np.any(columns != 0, axis=1)]
    size = np.sqrt((rows**2).sum(axis=0))
    p_values = np.ones(rows.shape[1])
    live = np.flatnonzero(size > 0)
    if not len(live):
        return Flips(tuple(p_values), 0, settled=True)
    scaled = rows[:, live] / size[live]
    observed = scaled.sum(axis=0)
    order = np.argsort(-observed, kind="stable")
    scaled, observed = scaled[:, order], observed[order]
    if len(scaled) <= EXACT_ROWS:
        above, ties, patterns = _count(_patterns(scaled), observed, TIE)
        found, draws, settled = (above + ties / 2) / patterns, 0, True
    else:
        found, draws, settled = _drawn(scaled, observed, alpha, np.random.default_rng(seed), most_draws)
    p_values[live[order]] = np.minimum(np.maximum.accumulate(found), 1.0)
    return Flips(tuple(map(float, p_values)), draws, settled)


def joint_level(columns: Floats, alpha: float, *, seed: int = 0) -> float:
    """The level of a test of one column to which the joint test at alpha, in (0, 0.5], amounts.

    `P(T_1 > c)` where `P(max_j T_j > c) = alpha`, for a normal T with the correlations of the columns under random
    signs: alpha for columns that are multiples of each other, and about `alpha / m` for m independent ones. By 50,000
    draws. It is the level of the interval and of the power of one column.
    """
    size = np.sqrt((columns**2).sum(axis=0))
    scaled = columns[:, size > 0] / size[size > 0]
    count = scaled.shape[1]
    if count <= 1:
        return alpha
    normal = _normal(scaled, 50_000, np.random.default_rng(seed))
    largest = np.concatenate([block.max(axis=1) for block in normal])
    level = NormalDist().cdf(-float(np.quantile(largest, 1 - alpha)))
    return float(min(max(level, alpha / count), alpha))


def _patterns(scaled: Floats) -> Iterator[Floats]:
    """The sums under every pattern of signs."""
    k = len(scaled)
    bits = np.arange(1 << k)[:, None] >> np.arange(k) & 1
    yield (1.0 - 2.0 * bits) @ scaled


def _count(sums: Iterator[Floats], observed: Floats, tie: float) -> tuple[Floats, Floats, int]:
    """Patterns whose maximum over a column and those after it is above the column's statistic, equal to it, and all."""
    above, ties, patterns = np.zeros(len(observed)), np.zeros(len(observed)), 0
    for block in sums:
        largest = np.maximum.accumulate(block[:, ::-1], axis=1)[:, ::-1] - observed
        beyond = largest > tie
        above += beyond.sum(axis=0)
        ties += (largest >= -tie).sum(axis=0) - beyond.sum(axis=0)
        patterns += len(block)
    return above, ties, patterns


def _drawn(
    scaled: Floats, observed: Floats, alpha: float, rng: np.random.Generator, most_draws: int
) -> tuple[Floats, int, bool]:
    """p-values from drawn signs, the number of draws, and whether they settle the decision."""
    k, m = scaled.shape
    tails = np.array([NormalDist().cdf(-float(t)) for t in observed])
    if np.all((scaled**4).sum(axis=0) <= EVEN):
        if m == 1:
            return tails, 0, True
        draw, k = _normal, m
    else:
        draw = _signed
    bounds = TAIL * np.arange(m, 0, -1) * tails
    most = max(1, min(most_draws, MOST_SIGNS // k))
    batch = min(most, max(LEAST_DRAWS, min(10 * LEAST_DRAWS, CHEAP_SIGNS // k)))
    evidence = math.log(m / RISK)
    reached, draws = np.zeros(m), 0
    while True:
        above, ties, more = _count(draw(scaled, min(batch, most - draws), rng), observed, TIE_DRAWN)
        reached += above + ties / 2
        draws += more
        undecided = _undecided(reached, draws, bounds, alpha, evidence)
        if undecided is None or draws >= most:
            break
        batch = max(batch, draws // 4)
    found = np.minimum((reached + 0.5) / (draws + 1), bounds)
    if undecided is not None:
        found[undecided] = _highest(reached[undecided], draws, evidence)
    return found, draws, undecided is None


def _signed(scaled: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """The sums under drawn signs, a block of draws at a time."""
    octets = -(-len(scaled) // 8)
    padded = np.zeros((octets * 8, scaled.shape[1]), dtype=np.float32)
    padded[: len(scaled)] = scaled
    rows = max(1, BLOCK // len(padded))
    # The signs of each octet are looked up, which is faster than to unpack and convert its bits.
    signs = 1 - 2 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
    for done in range(0, draws, rows):
        drawn = rng.integers(0, 256, size=(min(rows, draws - done), octets), dtype=np.uint8)
        yield (np.take(signs, drawn, axis=0).reshape(len(drawn), -1) @ padded).astype(np.float64)


def _normal(scaled: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Normal variables with the correlations of the sums, a block of draws at a time."""
    correlations = scaled.T @ scaled + JITTER * np.eye(scaled.shape[1])
    mixing = np.linalg.cholesky(correlations).T
    rows = max(1, BLOCK // len(mixing))
    for done in range(0, draws, rows):
        yield rng.standard_normal((min(rows, draws - done), len(mixing))) @ mixing


def _undecided(reached: Floats, draws: int, bounds: Floats, alpha: float, evidence: float) -> int | None:
    """The first column that draws leave undecided; None where none is, or those before it are not significant."""
    for j, count in enumerate(reached):
        if bounds[j] <= alpha:
            continue
        if _against(count, draws, alpha) < evidence:
            return j
        if count > alpha * draws:
            return None
    return None


def _against(count: float, draws: int, p: float) -> float:
    """Logarithm of the evidence against the probability p: that of a martingale if it is p.

    `∫ (q/p)^b ((1-q)/(1-p))^(m-b) dq` for b of m draws, which also holds where a tie counts half.
    """
    rest = draws - count
    beta = math.lgamma(count + 1) + math.lgamma(rest + 1) - math.lgamma(draws + 2)
    return beta - count * math.log(p) - rest * math.log1p(-p)


def _highest(count: float, draws: int, evidence: float) -> float:
    """Upper end of the confidence sequence of the probability."""
    low, high = count / draws, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle < 1 and _against(count, draws, middle) < evidence:
            low = middle
        else:
            high = middle
    return high
