"""The test of a canary: did the models change?"""

import pytest

from pytest_rageval.extensions.canary import canary


@pytest.mark.parametrize(
    ("drops", "alarm"),
    [
        ([-1.0] * 10 + [0.0] * 20, True),
        ([1.0] * 10 + [0.0] * 20, True),
        ([-0.2] * 10 + [0.0] * 20, False),
        ([0.2] * 10 + [0.0] * 20, False),
        ([1.0] * 12 + [0.2] * 10 + [-0.2] * 10 + [0.0] * 68, True),
        ([0.0] * 20, False),
    ],
    ids=["rise", "drop", "means of 0.8", "means of 0.2", "drop beside means", "no change"],
)
def test_a_mean_of_several_runs_is_no_change_of_the_models(drops: list[float], *, alarm: bool) -> None:
    """A model that is right in four of five runs is right now: no rise, in however many questions."""
    assert (canary._two_sided_p_value(drops) <= canary.ALPHA) == alarm
