"""Position bias of judges that compare a pair of answers in both orders."""

from math import comb

import pytest

from pytest_rageval.stats.intervals import Estimate, wilson_interval
from pytest_rageval.stats.systems import PositionBias, position_bias


def test_a_worked_example() -> None:
    """Of ten pairs five flip, four of them in favor of the first place."""
    verdicts = (
        [(1.0, 0.0)] * 2 + [(1.0, 0.5), (0.5, 0.0), (0.0, 1.0)] + [(1.0, 1.0), (0.5, 0.5)] * 2 + [(0, 0)]
    )
    assert position_bias(verdicts) == PositionBias(
        flips=Estimate(0.5, *wilson_interval(5, 10)),
        first=Estimate(0.8, *wilson_interval(4, 5)),
        p_value=2 * (comb(5, 0) + comb(5, 1)) / 2**5,
    )


@pytest.mark.parametrize(
    ("pairs", "flips", "first"),
    [
        # Half of the flips favor each place: the middle of the distribution is not counted twice.
        ([(1, 0), (0, 1)] * 3, 1, 0.5),
        # A steady judge has no preference to measure.
        ([(1, 1), (0, 0)], 0, None),
    ],
)
def test_without_a_bias_p_is_1(pairs, flips, first):
    bias = position_bias(pairs)
    assert bias is not None
    assert (bias.flips.value, bias.first and bias.first.value, bias.p_value) == (flips, first, 1)


def test_the_other_answer_tells_the_same() -> None:
    verdicts = [(1, 0), (1, 0.5), (0, 1), (0.5, 0.5)]
    assert position_bias(verdicts) == position_bias([(1 - second, 1 - first) for first, second in verdicts])


def test_no_pairs_have_no_bias() -> None:
    assert position_bias([]) is None


def test_many_flips_are_exact() -> None:
    """The p-value of 2,000 flips is computed although 2^2000 is too large for a float."""
    bias = position_bias([(1, 0)] * 1000 + [(0, 1)] * 910 + [(1, 0)] * 90)
    assert 1e-5 < bias.p_value < 1e-4
