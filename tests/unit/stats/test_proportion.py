"""Wilson's interval of a proportion."""

import pytest

from pytest_rageval.stats.intervals import wilson_interval


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # If all or none succeed, the interval's width is z²/(n + z²) with z² = 3.8415.
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        (8, 10, 0.4902, 0.9433),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), table I
        (15, 148, 0.0624, 0.1605),  # Newcombe (1998), table I as well
    ],
)
def test_known_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


def test_failures_mirror_successes() -> None:
    low, high = wilson_interval(3, 10)
    assert wilson_interval(7, 10) == pytest.approx((1 - high, 1 - low), abs=1e-15)


def test_more_data_narrows_the_interval() -> None:
    (low, high), (lower, higher) = wilson_interval(80, 100), wilson_interval(8, 10)
    assert lower < low < 0.8 < high < higher
