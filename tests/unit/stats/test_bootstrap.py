"""The BCa bootstrap interval of a mean."""

import pytest

from pytest_rageval.stats import bootstrap
from pytest_rageval.stats.bootstrap import bca_mean

SKEWED = [0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.9, 1.0]


@pytest.mark.parametrize("values", [[0.3, 0.3], [0.5] * 20, [0.0, 0.0, 0.0]])
def test_equal_values_have_no_width(values: list[float]) -> None:
    """Where nothing varies, both bounds are the value."""
    assert bca_mean(values) == pytest.approx((values[0], values[0]), abs=0)


@pytest.mark.parametrize("values", [[0.2, 0.8], [0.1, 0.1, 0.1 + 2e-17 * 8], [0.0] * 99 + [0.5], SKEWED])
def test_the_bounds_lie_around_the_mean_and_within_the_values(values: list[float]) -> None:
    """Two values, nearly equal ones, a single outlier and a usual sample all have an interval."""
    low, high = bca_mean(values)
    mean = sum(values) / len(values)
    assert min(values) <= low <= mean + 1e-15
    assert mean - 1e-15 <= high <= max(values)


def test_the_seed_decides() -> None:
    """The same seed gives the same interval, another one nearly the same."""
    assert bca_mean(SKEWED, seed=1) == bca_mean(SKEWED, seed=1)
    assert bca_mean(SKEWED, seed=1) != bca_mean(SKEWED, seed=2)
    assert bca_mean(SKEWED, seed=1) == pytest.approx(bca_mean(SKEWED, seed=2), abs=0.1)


def test_right_skew_shifts_the_interval_to_the_right() -> None:
    """The bound on the side of the long tail is farther from the mean."""
    low, high = bca_mean(SKEWED)
    mean = sum(SKEWED) / len(SKEWED)
    assert high - mean > mean - low


def test_many_examples_are_resampled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing a few rows at once, as for large sets, gives an interval like that of one draw."""
    whole = bca_mean(SKEWED)
    monkeypatch.setattr(bootstrap, "BLOCK", 7 * len(SKEWED))
    assert bca_mean(SKEWED) == pytest.approx(whole, abs=1e-12)
