"""Properties of the tests of drops, for any scores."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.stats.mcnemar import tango_interval
from pytest_rageval.stats.noninferiority import noninferiority_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, drop_interval, joint_drop_test
from pytest_rageval.stats.sequential import CurtailedDropTest

pytestmark = pytest.mark.slow

NAN = math.nan
DIFFERENCES = st.sampled_from([0.0, 0.0, 1 / 3, 0.5, -0.5, 1.0, -1.0, NAN]) | st.floats(-1, 1)
SETS = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(DIFFERENCES, min_size=n, max_size=n), min_size=1, max_size=3)
)
"""Small sets of questions, also unscored ones."""

DRAWN = 0.03
"""How far p-values of resamples from different seeds differ: several times their standard error."""
DROPS = st.lists(DIFFERENCES.filter(lambda drop: not math.isnan(drop)), min_size=1, max_size=16)


def _tests(columns: list[list[float]], **words: object) -> list[tuple[float, float, float]]:
    found = joint_drop_test([PairedDrops(column) for column in columns], alpha=0.05, **words)
    return [(score.p_value, score.low, score.high) for score in found.scores]


@given(columns=SETS)
def test_p_values_and_intervals_are_such(columns: list[list[float]]) -> None:
    tests = joint_drop_test([PairedDrops(column) for column in columns], alpha=0.05)
    assert 0.05 / len(columns) <= tests.level <= 0.05
    assert tests.settled or any(abs(score.p_value - 0.05) < 0.01 for score in tests.scores)
    for score in tests.scores:
        assert 0 < score.p_value <= 1
        assert -1 <= score.low <= score.high <= 1
        if score.drop is not None:
            assert score.low - 1e-4 <= score.drop <= score.high + 1e-4
        assert score.low >= 0 if score.p_value <= 0.05 else score.low <= 0


@given(columns=SETS, data=st.data())
def test_the_order_of_questions_does_not_matter(columns: list[list[float]], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(columns[0]))))
    shuffled = [[column[i] for i in order] for column in columns]
    for original, reordered in zip(_tests(columns), _tests(shuffled), strict=True):
        assert original[0] == pytest.approx(reordered[0], abs=DRAWN)
    backwards = [p_value for p_value, *_ in _tests(columns[::-1])][::-1]
    assert backwards == pytest.approx([p_value for p_value, *_ in _tests(columns)], abs=DRAWN)


@given(drops=DROPS, data=st.data())
def test_a_loss_in_place_of_a_gain_never_raises_the_p_value(drops: list[float], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(drops) - 1))
    worse = [*drops[:i], abs(drops[i]), *drops[i + 1 :]]
    before, after = (_tests([column])[0][0] for column in (drops, worse))
    # The same rows and signs are drawn for both; of these 10,000 a few may count for one alone.
    assert after <= before + 0.001


@given(drops=st.lists(st.sampled_from([1.0, 0.0, -1.0]), min_size=1, max_size=16), data=st.data())
def test_a_loss_in_place_of_a_gain_never_lowers_the_p_value_of_an_exclusion(
    drops: list[float], data: st.DataObject
) -> None:
    """For 0/1 scores, turning a gain into a loss never lowers the p-value.

    With differences of many sizes this need not hold, since the null weights change too.
    """
    i = data.draw(st.integers(0, len(drops) - 1))
    worse = [*drops[:i], abs(drops[i]), *drops[i + 1 :]]
    assert noninferiority_p_value(worse, 0.05) >= noninferiority_p_value(drops, 0.05) - 1e-9


@given(drops=DROPS, data=st.data())
def test_the_exclusion_of_a_drop_has_a_p_value(drops: list[float], data: st.DataObject) -> None:
    """The p-value is above 0 and at most 1, and does not depend on the order of questions."""
    p_value = noninferiority_p_value(drops, 0.05)
    assert 0 < p_value <= 1
    assert noninferiority_p_value(data.draw(st.permutations(drops)), 0.05) == pytest.approx(p_value, abs=1e-9)


@given(columns=SETS)
def test_another_score_never_helps(columns: list[list[float]]) -> None:
    joint = [p_value for p_value, *_ in _tests(columns)]
    alone = [_tests([column])[0][0] for column in columns]
    for together, single in zip(joint, alone, strict=True):
        assert together >= single - DRAWN


@given(
    drops=st.lists(st.floats(-1, 1), min_size=1, max_size=30),
    alphas=st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)),
)
def test_a_smaller_level_makes_a_wider_interval(drops: list[float], alphas: tuple[float, float]) -> None:
    """A smaller level gives an interval at least as wide, up to the precision of the search."""
    (low, high), (wide_low, wide_high) = (
        drop_interval(drops, alpha=alpha) for alpha in sorted(alphas, reverse=True)
    )
    assert wide_low <= low + 1e-4
    assert high <= wide_high + 1e-4


@given(
    lost=st.integers(0, 40), gained=st.integers(0, 40), same=st.integers(1, 60), alpha=st.floats(0.001, 0.5)
)
def test_one_more_loss_moves_the_interval_up(lost: int, gained: int, same: int, alpha: float) -> None:
    """Replacing an unchanged question by a loss never lowers the bounds."""
    n = lost + gained + same
    low, high = tango_interval(lost, gained, n, alpha=alpha)
    more_low, more_high = tango_interval(lost + 1, gained, n, alpha=alpha)
    assert more_low >= low - 1e-9
    assert more_high >= high - 1e-9


@given(
    drops=st.lists(st.floats(-1, 1), min_size=1, max_size=60),
    max_drop=st.floats(0, 0.5),
    more=st.integers(0, 60),
)
def test_stopping_is_never_contradicted_by_certainty(drops: list[float], max_drop: float, more: int) -> None:
    stop = CurtailedDropTest(questions=len(drops) + more, changed=len(drops), max_drop=max_drop, alpha=0.05)
    total = 0.0
    for i, drop in enumerate(drops):
        before = stop.verdict
        if total + len(drops) - i <= max_drop * (len(drops) + more):
            assert before is not None
        stop.add(drop)
        total += drop
        assert before is None or stop.verdict == before
