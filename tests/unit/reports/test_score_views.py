"""Scores as the page of a run shows them."""

from pytest_rageval.reports.score_views import Histogram, ScoreView


def test_times_reach_over_their_histogram() -> None:
    """Shares are drawn from 0 to 1; times of milliseconds would all be in the first bar of that."""
    times = Histogram.from_scores([0.004, 0.008, 0.04], is_time=True)
    assert times.high == 0.04
    assert [count for _, count in times.bars if count] == [1, 1, 1]
    assert Histogram.from_scores([0.0], is_time=True).high == 1
    assert Histogram.from_scores([0.04]).high == 1


def test_a_scale_is_shown_from_end_to_end() -> None:
    """Grades go from 1 to 5: none is 0, and 5 is the best."""
    entry = {"spec": "judged.correctness@5", "where": {}, "mean": 3.0, "ci95": [2.5, 3.5], "scale": [1, 5]}
    view = ScoreView({**entry, "threshold": None, "examples": [{"score": 3.0}, {"score": 5.0}]})
    assert view.scale == (1, 5)
    assert (view.distribution.low, view.distribution.high) == (1, 5)
    assert view.distribution.label == "scores of 2 questions, from 1 to 5"
    assert [at for at, (_, count) in enumerate(view.distribution.bars) if count] == [5, 9]
