"""The p-value of 0/1 scores equals a sum of scipy's binomial tails; that of other scores a simulation of its own."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.sign_flips import sign_flip_test

pytestmark = pytest.mark.slow

CASES = 200
DRAWS = 20_000


def _sum_of_tails(lost: int, gained: int, n: int) -> float:
    changed = lost + gained
    j = np.arange(1, n + 1)
    least = (j + (lost - gained) * np.sqrt(j / changed)) / 2
    return float(binom.pmf(j, n, changed / n) @ binom.sf(np.ceil(least - 1e-9) - 1, j, 0.5))


def test_verdicts_equal_the_binomial_distribution() -> None:
    """200 random tables of up to 10,000 changes among up to 100,000 questions agree to a relative error of 1e-9."""
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        changed = int(10 ** rng.uniform(0, 4))
        n = int(changed * 10 ** rng.uniform(0, 1))
        lost = int(np.clip(changed / 2 + abs(rng.normal(0, 2 * math.sqrt(changed))) + 1, 1, changed))
        expected = _sum_of_tails(lost, changed - lost, n)
        assert mcnemar_p_value(lost, changed - lost, n) == pytest.approx(expected, rel=1e-9)


KINDS = {
    "0/1": lambda rng, n: rng.integers(0, 2, n) - rng.integers(0, 2, n),
    "sixths": lambda rng, n: (rng.integers(0, 7, n) - rng.integers(0, 7, n)) / 6,
    "reciprocal ranks": lambda rng, n: 1 / rng.integers(1, 11, n) - 1 / rng.integers(1, 11, n),
    "graded": lambda rng, n: rng.beta(0.5, 2, n) - rng.beta(0.5, 2, n) * (rng.random(n) < 0.7),
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_scores_equal_a_simulation(kind: str) -> None:
    """Ten random cases of each kind of score with 5 to 60 questions agree within five standard errors."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        n = int(rng.integers(5, 61))
        drops = np.asarray(KINDS[kind](rng, n), dtype=float)
        samples = rng.choice(drops, (DRAWS, n)) * rng.choice([-1, 1], (DRAWS, n))
        statistics = samples.sum(axis=1) / np.sqrt(np.maximum((samples**2).sum(axis=1), 1e-300))
        observed = drops.sum() / np.sqrt((drops**2).sum())
        expected = float(np.mean(statistics >= observed - 1e-9))
        found = sign_flip_test(drops[:, None], alpha=0.05)
        spread = math.sqrt(expected * (1 - expected) * (1 / DRAWS + 1 / found.draws))
        assert found.p_values[0] == pytest.approx(expected, abs=5 * spread + 2e-4)
