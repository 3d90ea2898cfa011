"""The mid-p McNemar test and sign flips equal scipy's binomial and permutation tests, with ties counting half."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, permutation_test

from pytest_rageval.stats.mcnemar import mid_p
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test
from pytest_rageval.stats.sign_flips import sign_flip_test

pytestmark = pytest.mark.slow

CASES = 200


def _binomial(lost: int, changed: int) -> float:
    """Return P(X > lost) + P(X = lost) / 2, the mean of two upper tails."""
    tails = [binomtest(k, changed, 0.5, "greater").pvalue if k <= changed else 0.0 for k in (lost, lost + 1)]
    return sum(tails) / 2


def _permutation(drops: np.ndarray) -> float:
    """Return the p-value over all sign patterns: permuting pairs in one sample flips signs."""
    result = permutation_test(
        (drops, np.zeros_like(drops)),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    gap = result.null_distribution - result.statistic
    return float(np.mean(gap > 1e-12) + np.mean(abs(gap) <= 1e-12) / 2)


def test_mid_p_equals_the_binomial_test() -> None:
    """200 random tables of up to 10,000 changes agree to a relative error of 1e-9."""
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        changed = int(10 ** rng.uniform(0, 4))
        lost = int(np.clip(rng.normal(changed / 2, 2 * math.sqrt(changed)), 0, changed))
        assert mid_p(lost, changed - lost) == pytest.approx(_binomial(lost, changed), rel=1e-9)


KINDS = {
    "0/1": lambda rng, n: rng.integers(0, 2, n) - rng.integers(0, 2, n),
    "sixths": lambda rng, n: (rng.integers(0, 7, n) - rng.integers(0, 7, n)) / 6,
    "reciprocal ranks": lambda rng, n: 1 / rng.integers(1, 11, n) - 1 / rng.integers(1, 11, n),
    "graded": lambda rng, n: rng.beta(0.5, 2, n) - rng.beta(0.5, 2, n) * (rng.random(n) < 0.7),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sign_flips_equal_the_permutation_test(kind: str) -> None:
    """50 random cases of each kind of score with 2 to 11 questions agree to 1e-12."""
    rng = np.random.default_rng(2)
    for _ in range(CASES // len(KINDS)):
        drops = np.asarray(KINDS[kind](rng, int(rng.integers(2, 12))), dtype=float)
        if not drops.any():
            continue
        expected = pytest.approx(_permutation(drops), abs=1e-12, rel=0)
        assert sign_flip_test(drops[:, None], alpha=0.05).p_values[0] == expected
        assert joint_drop_test([PairedDrops(drops.tolist())], alpha=0.05).scores[0].p_value == expected
