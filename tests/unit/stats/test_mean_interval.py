"""Which method computes the interval of a mean score; Wilson's interval of a proportion."""

import pytest

from pytest_rageval.stats.bootstrap import bca_means
from pytest_rageval.stats.intervals import mean_interval, mean_intervals, wilson_interval

GRADED = [0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.9, 1.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([0.4], None),
        ([1.0], wilson_interval(1, 1)),
        ([0.0], wilson_interval(0, 1)),
        ([1, 0, 1.0, 0.0], wilson_interval(2, 4)),
        ([1.0] * 20, wilson_interval(20, 20)),
        (GRADED, bca_means([GRADED])[0]),
    ],
)
def test_the_scores_choose_the_interval(values: list[float], expected: tuple[float, float] | None) -> None:
    assert mean_interval(values) == expected


def test_the_seed_reaches_the_bootstrap() -> None:
    assert mean_interval(GRADED, seed=2) == bca_means([GRADED], seed=2)[0] != bca_means([GRADED], seed=0)[0]


@pytest.mark.parametrize(
    ("values", "ones"), [([1.0] * 20, 0), ([5.0] * 20, 20), ([5.0, 1.0, 1.0, 5.0, 5.0], 3)]
)
def test_the_ends_of_another_scale_are_a_proportion_too(values: list[float], ones: int) -> None:
    low, high = wilson_interval(ones, len(values))
    assert mean_interval(values, scale=(1.0, 5.0)) == pytest.approx((1 + 4 * low, 1 + 4 * high))


@pytest.mark.parametrize(("value", "scale"), [(1 / 3, (0.0, 1.0)), (3.0, (1.0, 5.0))])
def test_equal_scores_are_no_certainty(value: float, scale: tuple[float, float]) -> None:
    """Equal scores between the ends get an interval of positive width, which narrows as their number grows."""
    widths = []
    for n in (2, 20, 200):
        low, high = mean_interval([value] * n, scale=scale) or (value, value)
        assert scale[0] < low < value < high < scale[1]
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    share = widths[1] / (scale[1] - scale[0])
    assert share == pytest.approx(wilson_interval(0, 20)[1])


def test_equal_scores_of_an_unknown_scale_stay_unchanged() -> None:
    assert mean_interval([40.0] * 9) == (40.0, 40.0)


def test_between_its_ends_grades_are_resampled() -> None:
    grades = [1.0, 1.0, 3.0, 5.0, 4.0]
    assert mean_interval(grades, scale=(1.0, 5.0)) == bca_means([grades])[0]


def test_on_a_scale_without_an_end_equal_scores_have_no_interval() -> None:
    scale = (0.0, float("inf"))
    assert mean_interval([2.0] * 9, scale=scale) is None
    assert mean_interval([0.0] * 9, scale=scale) is None
    assert mean_interval([0.0, 1.0, 3.0], scale=scale) == bca_means([[0.0, 1.0, 3.0]])[0]


def test_each_sample_of_several_chooses_its_own_interval() -> None:
    samples = [[0.0, 1.0, 1.0], [0.2, 0.4, 0.9], [0.5] * 3, [0.1, 0.1, 0.6]]
    assert mean_intervals(samples, seed=4) == [mean_interval(sample, seed=4) for sample in samples]


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
