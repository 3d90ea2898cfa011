"""p-values of the paired test equal scipy's."""

import math

import numpy as np
import pytest
from pytest_rageval.stats.paired import RESAMPLES, paired_test
from scipy.stats import binomtest, permutation_test

pytestmark = pytest.mark.slow

CASES = 200


def _permutation(drops: np.ndarray) -> float:
    """Scipy's exact test: with one sample of pairs, permuting is flipping signs."""
    result = permutation_test(
        (drops, np.zeros_like(drops)),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
    )
    return float(result.pvalue)


def test_binary_scores_equal_the_binomial_test() -> None:
    """200 random cases of up to 500 examples, to 1e-12."""
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        n = int(rng.integers(1, 500))
        share = rng.dirichlet([1, 1, 3])
        drops = rng.choice([1.0, -1.0, 0.0], size=n, p=share)
        lost, changed = int(np.sum(drops > 0)), int(np.sum(drops != 0))
        theirs = binomtest(lost, changed, 0.5, "greater").pvalue if changed else 1.0
        ours = paired_test(drops.tolist())
        assert ours.exact
        assert ours.p_value == pytest.approx(theirs, abs=1e-12, rel=0)


KINDS = {
    "0/1": (1, lambda rng, n: rng.integers(0, 2, n) - rng.integers(0, 2, n)),
    "sixths": (6, lambda rng, n: (rng.integers(0, 7, n) - rng.integers(0, 7, n)) / 6),
    "reciprocal ranks": (2520, lambda rng, n: 1 / rng.integers(1, 11, n) - 1 / rng.integers(1, 11, n)),
    "real": (None, lambda rng, n: rng.beta(0.5, 2, n) - rng.beta(0.5, 2, n) * (rng.random(n) < 0.7)),
}
"""Each kind of difference, and what makes it whole: scipy misses ties with an observed sum of 0."""


@pytest.mark.parametrize("kind", KINDS)
def test_small_sets_equal_the_exact_permutation_test(kind: str) -> None:
    """50 random cases of each kind of score, 2 to 11 examples, to 1e-12."""
    rng = np.random.default_rng(2)
    whole, draw = KINDS[kind]
    for _ in range(CASES // len(KINDS)):
        drops = np.asarray(draw(rng, int(rng.integers(2, 12))), dtype=float)
        theirs = _permutation(np.round(drops * whole) if whole else drops)
        ours = paired_test(drops.tolist())
        assert ours.exact
        assert ours.p_value == pytest.approx(theirs, abs=1e-12, rel=0)


def test_larger_sets_are_within_the_error_of_draws() -> None:
    """50 random cases of 16 real differences, each within five standard errors of the share of all patterns.

    These are counted here: scipy takes seconds for 2^16. p is (b + 1) / (m + 1) with whole b throughout.
    """
    rng = np.random.default_rng(3)
    signs = 1 - 2 * (np.arange(1 << 16)[:, None] >> np.arange(16) & 1)
    for case in range(50):
        drops = rng.gamma(0.7, 0.2, 16) * rng.choice([-1, 1, 1], 16)
        exact = float(np.mean(signs @ np.abs(drops) >= drops.sum() - 1e-12))
        ours = paired_test(drops.tolist(), seed=case)
        assert not ours.exact
        assert ours.p_value == pytest.approx(
            exact, abs=5 * math.sqrt(exact * (1 - exact) / RESAMPLES) + 2 / RESAMPLES, rel=0
        )
        reached = ours.p_value * (RESAMPLES + 1) - 1
        assert reached == pytest.approx(round(reached), abs=1e-6)
        assert reached > -1e-6
