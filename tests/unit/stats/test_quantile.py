"""Quantiles with their intervals, and the ratio of two quantiles."""

import random

import pytest

from pytest_rageval.stats.bootstrap import ratio_of_quantiles
from pytest_rageval.stats.intervals import MEAN, Quantile, quantile_interval


@pytest.mark.parametrize(
    ("level", "n", "value"),
    [(0.5, 1, 1), (0.5, 2, 1), (0.5, 3, 2), (0.95, 19, 19), (0.95, 20, 19), (0.95, 21, 20), (0.07, 100, 7)],
)
def test_a_quantile_is_the_smallest_value_that_its_share_does_not_exceed(level, n, value):
    values = list(range(1, n + 1))
    random.Random(0).shuffle(values)
    assert Quantile(level).compute(values) == value


def test_the_median_has_an_interval_from_six_values_on_and_p95_from_72() -> None:
    """0.5^n is at most 2.5% from n = 6 on, and 0.95^n from n = 72 on."""
    assert quantile_interval(range(1, 6), 0.5) is None
    assert quantile_interval(range(1, 7), 0.5) == (1, 6)
    assert quantile_interval(range(1, 72), 0.95) is None
    assert quantile_interval(range(1, 73), 0.95) == (64, 72)


@pytest.mark.parametrize(("level", "n"), [(0.5, 24), (0.5, 101), (0.95, 100), (0.95, 400)])
def test_the_interval_is_the_narrowest_that_the_binomial_allows(level: float, n: int) -> None:
    binom = pytest.importorskip("scipy.stats").binom
    low, high = quantile_interval(range(1, n + 1), level) or (0, 0)
    below = binom(n, level).cdf
    assert below(low - 1) <= 0.025 < below(low)
    assert 1 - below(high - 1) <= 0.025 < 1 - below(high - 2)


def test_the_interval_covers_the_quantile() -> None:
    """The interval of the median covers the true value in at least 93% of 400 skewed samples."""
    draw = random.Random(1)
    truth, samples = 0.6931471805599453, 400
    covered = 0
    for _ in range(samples):
        low, high = quantile_interval([draw.expovariate(1) for _ in range(40)], 0.5) or (0, 0)
        covered += low <= truth <= high
    assert covered / samples >= 0.93


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_equal_retrievers_rarely_differ(level: float) -> None:
    """With the fewest questions that are compared, equal noisy times give an interval above 1 in under 8% of runs."""
    draw = random.Random(2)
    n, runs, alarms = 6 if level == 0.5 else 20, 200, 0
    for seed in range(runs):
        size = [draw.lognormvariate(0, 0.7) for _ in range(n)]
        a, b = ([time * draw.lognormvariate(0, 0.1) for time in size] for _ in "ab")
        alarms += ratio_of_quantiles(a, b, index=Quantile(level).index(n), seed=seed)[0] > 1
    assert alarms / runs < 0.08


def test_a_ratio_of_three_is_detected_despite_noise() -> None:
    """Paired times show a ratio of 3 although questions differ more than the two retrievers."""
    draw = random.Random(3)
    size = [draw.lognormvariate(0, 1) for _ in range(60)]
    a, b = ([factor * time * draw.lognormvariate(0, 0.1) for time in size] for factor in (3, 1))
    low, high = ratio_of_quantiles(a, b, index=Quantile(0.5).index(60), seed=0)
    assert 2 < low < 3 < high < 5
    assert (low, high) == ratio_of_quantiles(a, b, index=Quantile(0.5).index(60), seed=0)


def test_the_mean_is_a_statistic_too() -> None:
    assert (MEAN.name, MEAN.compute([0, 1, 1, 0])) == ("mean", 0.5)
    assert MEAN.intervals([[0, 1, 1, 0]], scale=(0, 1), seed=0) == [pytest.approx((0.150, 0.850), abs=0.001)]
