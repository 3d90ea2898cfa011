"""The BCa bootstrap interval of a mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.stats import bootstrap
from pytest_rageval.stats.bootstrap import bca_means

SKEWED = [0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.9, 1.0]


@pytest.mark.parametrize("values", [[0.3, 0.3], [0.5] * 20, [0.0, 0.0, 0.0]])
def test_equal_values_have_no_width(values: list[float]) -> None:
    assert bca_means([values])[0] == pytest.approx((values[0], values[0]), abs=0)


@pytest.mark.parametrize("values", [[0.2, 0.8], [0.1, 0.1, 0.1 + 2e-17 * 8], [0.0] * 99 + [0.5], SKEWED])
def test_the_bounds_lie_around_the_mean_and_within_the_values(values: list[float]) -> None:
    low, high = bca_means([values])[0]
    mean = sum(values) / len(values)
    assert min(values) <= low <= mean + 1e-15
    assert mean - 1e-15 <= high <= max(values)


def test_the_seed_decides() -> None:
    assert bca_means([SKEWED], seed=1)[0] == bca_means([SKEWED], seed=1)[0]
    assert bca_means([SKEWED], seed=1)[0] != bca_means([SKEWED], seed=2)[0]
    assert bca_means([SKEWED], seed=1)[0] == pytest.approx(bca_means([SKEWED], seed=2)[0], abs=0.1)


def test_right_skew_shifts_the_interval_to_the_right() -> None:
    """In a right-skewed sample, the upper bound is farther from the mean than the lower bound."""
    low, high = bca_means([SKEWED])[0]
    mean = sum(SKEWED) / len(SKEWED)
    assert high - mean > mean - low


def test_many_examples_are_resampled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing the resamples in small blocks gives the same interval as drawing them all at once."""
    whole = bca_means([SKEWED])[0]
    monkeypatch.setattr(bootstrap, "MAX_BLOCK_SIZE", 7 * len(SKEWED))
    assert bca_means([SKEWED])[0] == pytest.approx(whole, abs=1e-12)


def test_samples_of_one_size_have_the_intervals_that_each_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples computed together share resamples, and their intervals equal those computed alone, in any block size."""
    samples = [SKEWED, [1 - score for score in SKEWED], [0.3] * len(SKEWED), [score**3 for score in SKEWED]]
    alone = [bca_means([sample], seed=3)[0] for sample in samples]
    monkeypatch.setattr(bootstrap, "MAX_BLOCK_SIZE", 7 * len(SKEWED))
    assert bca_means(samples, seed=3) == alone


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 1))
def test_a_quantile_is_that_of_numpy_to_the_last_bit(values: list[float], level: float) -> None:
    assert bootstrap._quantile(sorted(values), level) == np.quantile(values, level)
