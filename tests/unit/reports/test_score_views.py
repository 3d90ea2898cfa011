"""Scores as the page of a run shows them."""

from pytest_rageval.reports.score_views import Histogram


def test_times_reach_over_their_histogram() -> None:
    """Shares are drawn from 0 to 1; times of milliseconds would all be in the first bar of that."""
    times = Histogram.of_scores([0.004, 0.008, 0.04], is_time=True)
    assert times.high == 0.04
    assert [count for _, count in times.bars if count] == [1, 1, 1]
    assert Histogram.of_scores([0.0], is_time=True).high == 1
    assert Histogram.of_scores([0.04]).high == 1
