"""The majority of several annotators."""

import pytest

from pytest_rageval.stats.agreement import majority


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 1, -1], 1),
        ([-1, -1, -1], -1),
        ([0, 0, 1], 0),
        ([1, -1, 0], 0),
        ([1, -1], 0),
        ([1, 1, -1, 0], 0),
        ([1], 1),
    ],
)
def test_majority(labels: list[int], expected: int) -> None:
    """A label needs more than half of the votes; otherwise the result is a tie, even for the most frequent label."""
    assert majority(labels, tie=0) == expected


def test_no_labels_have_no_majority() -> None:
    with pytest.raises(ValueError, match="at least one label"):
        majority([], tie=0)
