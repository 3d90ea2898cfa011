"""p-values equal an enumeration of all resamples and sign patterns; Tango's interval its definition."""

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from pytest_rageval.stats.mcnemar import mcnemar_p_value, tango_interval
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test
from pytest_rageval.stats.sign_flips import sign_flip_test

CASES = 200


def test_the_p_value_of_verdicts_equals_every_sample() -> None:
    """For 200 random tables of up to 24 questions, the p-value is the sum over all numbers of changes and of heads."""
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        n = int(rng.integers(1, 25))
        changed = int(rng.integers(1, n + 1))
        lost = int(rng.integers(0, changed + 1))
        observed = 2 * lost - changed
        share, expected = Fraction(changed, n), Fraction(0)
        for j in range(n + 1):
            # (heads - tails) / sqrt(j) ≥ observed / sqrt(changed), compared as squares with a sign; 0 without coins.
            ways = sum(
                math.comb(j, heads)
                for heads in range(j + 1)
                if (2 * heads - j) * abs(2 * heads - j) * changed >= observed * abs(observed) * max(j, 1)
            )
            expected += math.comb(n, j) * share**j * (1 - share) ** (n - j) * Fraction(ways, 2**j)
        assert mcnemar_p_value(lost, changed - lost, n) == pytest.approx(float(expected), rel=1e-12)
        values = [1.0] * lost + [-1.0] * (changed - lost) + [0.0] * (n - changed)
        joint = joint_drop_test([PairedDrops(values)], alpha=0.05).scores[0].p_value
        assert joint == mcnemar_p_value(lost, changed - lost, n)


def _max_t(columns: np.ndarray) -> list[float]:
    """Return max-T p-values by definition, over all resamples of the rows and all their sign patterns."""
    n, count = columns.shape

    def statistics(rows: np.ndarray) -> np.ndarray:
        squares = (rows**2).sum(axis=-2)
        return rows.sum(axis=-2) / np.sqrt(np.where(squares > 0, squares, 1))

    observed = statistics(columns)
    order = sorted(range(count), key=lambda j: -observed[j])
    drawn = np.array(list(itertools.product(range(n), repeat=n)))
    signs = np.array(list(itertools.product((1, -1), repeat=n)))
    all_statistics = statistics(signs[None, :, :, None] * columns[drawn][:, None]).reshape(-1, count)
    p_values, least = [1.0] * count, 0.0
    for place, j in enumerate(order):
        if columns[:, j].any():
            largest = all_statistics[:, [other for other in order[place:] if columns[:, other].any()]].max(
                axis=1
            )
            p_values[j] = least = max(least, float(np.mean(largest >= observed[j] - 1e-9)))
    return p_values


def _assert_near(p_values: Iterable[float], expected: Iterable[float], draws: int) -> None:
    """Assert that drawn p-values are within five standard errors of the exact ones."""
    for ours, theirs in zip(p_values, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=5 * math.sqrt(theirs * (1 - theirs) / (draws or 1)) + 1e-3)


@pytest.mark.parametrize("kind", ["verdicts", "sixths", "percents", "mixed"])
def test_max_t_equals_every_sample_and_pattern(kind: str) -> None:
    """50 random cases of each kind, with 2 to 4 questions and 1 to 4 scores, some of them zero."""
    rng = np.random.default_rng([3, len(kind)])
    for _ in range(CASES // 4):
        rows, count = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        top = {"verdicts": 1, "sixths": 6, "percents": 100, "mixed": 6}[kind]
        columns = rng.integers(-top, top + 1, (count, rows))
        alike = rng.random(rows) < 0.4  # questions with the same difference in all scores
        columns[:, alike] = columns[:1, alike]
        if kind == "mixed":
            columns[0] = np.sign(columns[0])
        columns[rng.random(columns.shape) < 0.2] = 0
        result = sign_flip_test(columns.T.astype(float), alpha=0.05)
        _assert_near(result.p_values, _max_t(columns.T.astype(float)), result.draws)


def test_clusters_are_resampled_and_flipped_as_a_whole() -> None:
    """50 random cases with four clusters whose questions share a sign."""
    rng = np.random.default_rng(4)
    for _ in range(CASES // 4):
        clusters = np.r_[0:4, rng.integers(0, 4, 16)]
        columns = rng.integers(-2, 3, (2, 20))
        sums = np.array([[column[clusters == c].sum() for c in range(4)] for column in columns]).T
        scores = [PairedDrops((column / 4).tolist()) for column in columns]
        result = joint_drop_test(scores, alpha=0.05, clusters=clusters.tolist())
        _assert_near([score.p_value for score in result.scores], _max_t(sums.astype(float)), 10_000)


@pytest.mark.parametrize("alpha", [0.05, 0.025])
def test_tango_is_the_score_test_inverted(alpha: float) -> None:
    """At each bound, the score statistic at the maximum-likelihood share of gains is the normal quantile."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        n = int(rng.integers(8, 120))
        lost, gained = (int(x) for x in rng.multinomial(n, rng.dirichlet([1, 1, 3]))[:2])
        for bound in tango_interval(lost, gained, n, alpha=alpha):
            if abs(bound) > 0.999:
                continue

            def cost(gain: float, bound: float = bound, table: tuple[int, ...] = (lost, gained, n)) -> float:
                b, c, total = table
                shares = (gain + bound, gain, 1 - 2 * gain - bound)
                return -sum(
                    k * math.log(max(p, 1e-300))
                    for k, p in zip((b, c, total - b - c), shares, strict=True)
                    if k
                )

            low, high = max(0.0, -bound), (1 - bound) / 2
            gain = minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
            spread = math.sqrt(n * (2 * gain + bound - bound**2))
            assert abs(lost - gained - n * bound) / spread == pytest.approx(norm.isf(alpha), abs=2e-3)
