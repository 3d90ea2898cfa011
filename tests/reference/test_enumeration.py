"""Mid-p and max-T p-values equal an enumeration of all tables and sign patterns; Tango's interval its definition."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from pytest_rageval.stats.mcnemar import mid_p, tango_interval
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test
from pytest_rageval.stats.sign_flips import sign_flip_test

CASES = 200


def test_mid_p_equals_every_pattern() -> None:
    """For 200 random tables of up to 14 changes, mid-p equals an enumeration; the observed table counts half."""
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        changed = int(rng.integers(1, 15))
        lost = int(rng.integers(0, changed + 1))
        heads = [sum(pattern) for pattern in itertools.product((0, 1), repeat=changed)]
        expected = Fraction(sum((h > lost) * 2 + (h == lost) for h in heads), 2 ** (changed + 1))
        assert mid_p(lost, changed - lost) == float(expected)
        values = [1.0] * lost + [-1.0] * (changed - lost) + [0.0] * int(rng.integers(0, 9))
        assert joint_drop_test([PairedDrops(values)], alpha=0.05).scores[0].p_value == float(expected)


def _max_t(columns: list[list[int]]) -> list[float]:
    """Return max-T p-values by definition, over all sign patterns, with exact integer sums."""
    count = len(columns)
    norms = [math.sqrt(sum(x * x for x in column)) for column in columns]
    observed = [
        sum(column) / norm_ if norm_ else -math.inf for column, norm_ in zip(columns, norms, strict=True)
    ]
    order = sorted(range(count), key=lambda j: -observed[j])
    sums = [
        [
            sum(s * x for s, x in zip(signs, column, strict=True)) / norm_ if norm_ else -math.inf
            for column, norm_ in zip(columns, norms, strict=True)
        ]
        for signs in itertools.product((1, -1), repeat=len(columns[0]))
    ]
    p_values, least = [1.0] * count, 0.0
    for place, j in enumerate(order):
        if not norms[j]:
            continue
        halves = 0
        for row in sums:
            largest = max(row[other] for other in order[place:])
            tie = math.isclose(largest, observed[j], abs_tol=1e-9)
            halves += 1 if tie else 2 * (largest > observed[j])
        p_values[j] = least = max(least, halves / (2 * len(sums)))
    return p_values


@pytest.mark.parametrize("kind", ["verdicts", "sixths", "percents", "mixed"])
def test_max_t_equals_every_pattern(kind: str) -> None:
    """50 random cases of each kind, with 2 to 9 questions and 1 to 4 scores, some of them zero."""
    rng = np.random.default_rng([3, len(kind)])
    for _ in range(CASES // 4):
        rows, count = int(rng.integers(2, 10)), int(rng.integers(1, 5))
        top = {"verdicts": 1, "sixths": 6, "percents": 100, "mixed": 6}[kind]
        columns = rng.integers(-top, top + 1, (count, rows))
        alike = rng.random(rows) < 0.4  # questions with the same difference in all scores
        columns[:, alike] = columns[:1, alike]
        if kind == "mixed":
            columns[0] = np.sign(columns[0])
        columns[rng.random(columns.shape) < 0.2] = 0
        result = sign_flip_test(columns.T.astype(float), alpha=0.05)
        assert result.draws == 0
        assert result.p_values == pytest.approx(_max_t(columns.tolist()), abs=1e-12)


def test_cluster_sign_flips_equal_an_enumeration_of_all_patterns() -> None:
    """50 random cases with up to nine clusters whose questions share a sign."""
    rng = np.random.default_rng(4)
    for _ in range(CASES // 4):
        clusters = rng.integers(0, 9, 30)
        columns = rng.integers(-2, 3, (2, 30))
        sums = [[int(column[clusters == c].sum()) for c in range(9)] for column in columns]
        scores = [PairedDrops((column / 4).tolist()) for column in columns]
        result = joint_drop_test(scores, alpha=0.05, clusters=clusters.tolist())
        assert [score.p_value for score in result.scores] == pytest.approx(_max_t(sums), abs=1e-12)


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
