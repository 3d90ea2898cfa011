"""The BCa bootstrap interval of a mean."""

import pytest

from pytest_rageval.stats import bootstrap
from pytest_rageval.stats.bootstrap import bca_means

SKEWED = [0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.9, 1.0]


@pytest.mark.parametrize("values", [[0.3, 0.3], [0.5] * 20, [0.0, 0.0, 0.0]])
def test_equal_values_have_no_width(values: list[float]) -> None:
    """Where nothing varies, both bounds are the value."""
    assert bca_means([values])[0] == pytest.approx((values[0], values[0]), abs=0)


@pytest.mark.parametrize("values", [[0.2, 0.8], [0.1, 0.1, 0.1 + 2e-17 * 8], [0.0] * 99 + [0.5], SKEWED])
def test_the_bounds_lie_around_the_mean_and_within_the_values(values: list[float]) -> None:
    """Two values, nearly equal ones, a single outlier and a usual sample all have an interval."""
    low, high = bca_means([values])[0]
    mean = sum(values) / len(values)
    assert min(values) <= low <= mean + 1e-15
    assert mean - 1e-15 <= high <= max(values)


def test_the_seed_decides() -> None:
    """The same seed gives the same interval, another one nearly the same."""
    assert bca_means([SKEWED], seed=1)[0] == bca_means([SKEWED], seed=1)[0]
    assert bca_means([SKEWED], seed=1)[0] != bca_means([SKEWED], seed=2)[0]
    assert bca_means([SKEWED], seed=1)[0] == pytest.approx(bca_means([SKEWED], seed=2)[0], abs=0.1)


def test_right_skew_shifts_the_interval_to_the_right() -> None:
    """The bound on the side of the long tail is farther from the mean."""
    low, high = bca_means([SKEWED])[0]
    mean = sum(SKEWED) / len(SKEWED)
    assert high - mean > mean - low


def test_many_examples_are_resampled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a few rows at once, as for large sets, gives an interval like that of one draw."""
    whole = bca_means([SKEWED])[0]
    monkeypatch.setattr(bootstrap, "MAX_BLOCK_SIZE", 7 * len(SKEWED))
    assert bca_means([SKEWED])[0] == pytest.approx(whole, abs=1e-12)


def test_samples_of_one_size_have_the_intervals_that_each_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share their resamples; equal scores among them, and the number of blocks, change nothing."""
    samples = [SKEWED, [1 - each for each in SKEWED], [0.3] * len(SKEWED), [each**3 for each in SKEWED]]
    alone = [bca_means([sample], seed=3)[0] for sample in samples]
    monkeypatch.setattr(bootstrap, "MAX_BLOCK_SIZE", 7 * len(SKEWED))
    assert bca_means(samples, seed=3) == alone
