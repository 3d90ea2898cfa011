"""Intervals equal scipy's."""

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from pytest_rageval.stats.bootstrap import bca_means
from pytest_rageval.stats.intervals import wilson_interval

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("n", [1, 2, 3, 10, 47, 240, 2889])
def test_wilson_equals_scipy(n: int) -> None:
    """Bounds agree to 1e-12 for every number of successes, or about forty of them."""
    for successes in sorted({*range(0, n + 1, max(1, n // 40)), 1, n - 1, n} - {-1}):
        theirs = binomtest(successes, n).proportion_ci(method="wilson")
        assert wilson_interval(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12, rel=0)


SKEWED = {
    "few hits": lambda rng: rng.beta(0.3, 2.0, 60),
    "nearly all right": lambda rng: 1 - rng.exponential(0.1, 240).clip(0, 1),
    "half are zero": lambda rng: rng.beta(1, 3, 120) * (rng.random(120) < 0.5),
    "thirds": lambda rng: rng.choice([0, 1 / 3, 2 / 3, 1], 100, p=[0.7, 0.1, 0.1, 0.1]),
    "a small set": lambda rng: rng.beta(0.5, 3.0, 15),
}


@pytest.mark.parametrize("name", SKEWED)
def test_bca_is_close_to_scipy(name: str) -> None:
    """Both bounds are within 8% of the interval's width.

    Ours draws 2,000 resamples, scipy's here 50,000: the standard error of a bound is then about 2% of the
    width, and four standard errors are allowed.
    """
    values = SKEWED[name](np.random.default_rng(5))
    theirs = bootstrap(
        (values,), np.mean, method="BCa", n_resamples=50_000, rng=np.random.default_rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert bca_means([values.tolist()])[0] == pytest.approx(
        (theirs.low, theirs.high), abs=0.08 * width, rel=0
    )


def test_bca_is_no_percentile_interval() -> None:
    """On skewed data, the BCa correction moves a bound by more than the tolerance of 8%."""
    values = [0.0] * 12 + [1 / 3, 1 / 2, 1.0]
    plain = bootstrap(
        (values,), np.mean, method="percentile", n_resamples=50_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert bca_means([values])[0][1] - plain.high > 0.08 * (plain.high - plain.low)
