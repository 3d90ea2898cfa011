"""What holds of the tests of differences, whatever the scores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_rageval.stats.paired import paired_test

from pytest_rageval.stats.noninferiority import noninferiority

SCORES = st.sampled_from([0.0, 1 / 3, 0.5, 2 / 3, 1.0]) | st.floats(0, 1)
DROPS = st.lists(st.builds(lambda a, b: a - b, SCORES, SCORES), max_size=25)
MANY = 99


@given(drops=DROPS, data=st.data())
def test_the_order_of_examples_does_not_matter(drops: list[float], data: st.DataObject) -> None:
    """To neither test, be it exact or drawn."""
    shuffled = data.draw(st.permutations(drops))
    assert paired_test(shuffled, resamples=MANY) == paired_test(drops, resamples=MANY)
    assert noninferiority(shuffled, 0.05) == pytest.approx(noninferiority(drops, 0.05), abs=1e-9)


@given(drops=DROPS, extra=st.integers(0, 40))
def test_examples_that_did_not_change_say_nothing_of_a_drop(drops: list[float], extra: int) -> None:
    """The p-value is that without them."""
    more = paired_test([*drops, *[0.0] * extra], resamples=MANY)
    assert more.p_value == paired_test(drops, resamples=MANY).p_value


@given(drops=DROPS)
def test_p_values_are_probabilities(drops: list[float]) -> None:
    """Above 0, and at most 1; the two directions together leave nothing out."""
    worse = paired_test(drops, resamples=MANY)
    better = paired_test([-drop for drop in drops], resamples=MANY)
    assert 0 < worse.p_value <= 1
    if worse.exact:
        assert worse.p_value + better.p_value >= 1 - 1e-9
    assert 0 < noninferiority(drops, 0.05) <= 1


@given(drops=DROPS.filter(len), data=st.data())
def test_a_worse_score_is_never_less_suspicious(drops: list[float], data: st.DataObject) -> None:
    """Turning a gain into a loss lowers the p-value of a drop."""
    i = data.draw(st.integers(0, len(drops) - 1))
    worse = [*drops[:i], abs(drops[i]), *drops[i + 1 :]]
    before, after = paired_test(drops, resamples=MANY), paired_test(worse, resamples=MANY)
    assert after.p_value <= before.p_value + 1e-12
