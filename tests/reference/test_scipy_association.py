"""Kendall's tau and Spearman's rho equal scipy's and their definitions."""

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from pytest_rageval.stats.agreement import kendall_tau, spearman_rho

pytestmark = pytest.mark.slow

PAIRS = {
    "no ties": lambda rng: (rng.random(80), rng.random(80)),
    "related": lambda rng: (x := rng.random(80), x + 0.3 * rng.random(80)),
    "hits and shares": lambda rng: (rng.integers(0, 2, 120), rng.integers(0, 5, 120) / 4),
    "hits and misses": lambda rng: (rng.integers(0, 2, 120), rng.integers(0, 2, 120)),
    "two": lambda _: (np.array([0.0, 1.0]), np.array([3.0, 2.0])),
}


@pytest.mark.parametrize("name", PAIRS)
def test_association_equals_scipy(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = PAIRS[name](rng)
        assert kendall_tau(a.tolist(), b.tolist()) == pytest.approx(kendalltau(a, b).statistic, abs=1e-12)
        assert spearman_rho(a.tolist(), b.tolist()) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_association_with_ties_equals_scipy() -> None:
    """The same holds for 500 samples of 2 to 60 items, from two values (many ties) to forty (few)."""
    rng = np.random.default_rng(2)
    compared = 0
    for _ in range(500):
        n, levels_a, levels_b = rng.integers(2, 61), *rng.integers(2, 41, 2)
        shared = rng.integers(0, levels_a, n)
        a = shared / 7
        b = (rng.integers(0, levels_b, n) + rng.integers(-1, 2) * shared) / 3
        if len(set(a)) > 1 < len(set(b)):
            compared += 1
            assert kendall_tau(a.tolist(), b.tolist()) == pytest.approx(kendalltau(a, b).statistic, abs=1e-12)
            assert spearman_rho(a.tolist(), b.tolist()) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)
    assert compared > 475
