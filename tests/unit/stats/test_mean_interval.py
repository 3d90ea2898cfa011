"""Which interval a mean of scores gets."""

import pytest

from pytest_rageval.stats import mean_interval
from pytest_rageval.stats.bootstrap import bca_mean
from pytest_rageval.stats.proportion import wilson

GRADED = [0.0, 0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.9, 1.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([0.4], None),
        ([1.0], wilson(1, 1)),
        ([0.0], wilson(0, 1)),
        ([1, 0, 1.0, 0.0], wilson(2, 4)),
        ([1.0] * 20, wilson(20, 20)),
        (GRADED, bca_mean(GRADED)),
    ],
)
def test_the_scores_choose_the_interval(values: list[float], expected: tuple[float, float] | None) -> None:
    """Wilson for 0 and 1, BCa for the rest, none where nothing can be said."""
    assert mean_interval(values) == expected


def test_the_seed_reaches_the_bootstrap() -> None:
    """Graded scores are resampled with the seed given."""
    assert mean_interval(GRADED, seed=2) == bca_mean(GRADED, seed=2) != bca_mean(GRADED, seed=0)
