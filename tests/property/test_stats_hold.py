"""Properties of the statistics, for any sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, pearson
from pytest_rageval.stats.systems import Battle, UnratableError, bradley_terry

PREFERENCES = st.sampled_from([-1, 0, 1])
RATERS = st.lists(st.tuples(PREFERENCES, PREFERENCES), max_size=30)
BATTLES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("def"), st.sampled_from([0.0, 0.5, 1.0])), max_size=60
)
SCORES = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0]), min_size=2, max_size=30)


@pytest.mark.parametrize(("measure", "lowest"), [(accuracy, 0), (cohen_kappa, -1), (pearson, -1)])
@given(items=RATERS)
@settings(max_examples=40)
def test_agreement_lies_in_its_interval_and_its_range(measure, lowest: int, items) -> None:
    a, b = [x for x, _ in items], [y for _, y in items]
    estimate = measure(a, b)
    if estimate is None:
        assert measure(b, a) is None
    else:
        assert lowest <= estimate.low <= estimate.high <= 1
        assert estimate.low - 1e-12 <= estimate.value <= estimate.high + 1e-12
        assert measure(b, a).value == pytest.approx(estimate.value, abs=1e-12)


@given(items=RATERS, to=st.permutations([-1, 0, 1]))
def test_names_of_labels_do_not_matter_to_kappa(items, to: list[int]) -> None:
    renamed = [(to[x], to[y]) for x, y in reversed(items)]
    before, after = (cohen_kappa([x for x, _ in pairs], [y for _, y in pairs]) for pairs in (items, renamed))
    assert (before is None) == (after is None)
    assert before is None or after.value == pytest.approx(before.value, abs=1e-12)


@given(labelled=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30), rest=SCORES)
def test_a_corrected_mean_lies_in_its_interval_and_the_scale(labelled, rest: list[float]) -> None:
    human, judge = [y for y, _ in labelled], [f for _, f in labelled]
    estimate = prediction_powered_mean(human, judge, rest)
    assert estimate is not None
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    perfect = prediction_powered_mean(human, human, rest)
    assert perfect is not None
    assert perfect.value == pytest.approx(np.mean([*human, *rest]), abs=1e-9)


@pytest.mark.slow
@given(battles=BATTLES)
@settings(max_examples=50)
def test_ratings_expect_the_scores_that_were_got(battles) -> None:
    """At maximum likelihood, each system's expected score equals its actual score, and the mean rating is 1000."""
    try:
        ratings = bradley_terry(Battle(*battle) for battle in battles)
    except UnratableError:
        return
    values = {name: rating.value for name, rating in ratings.items()}
    assert sum(values.values()) == pytest.approx(1000 * len(values), abs=1e-6)
    for name in values:
        actual = expected = 0.0
        for first, second, score in battles:
            if name in {first, second}:
                sign = 1 if name == first else -1
                expected += 1 / (1 + 10 ** (sign * (values[second] - values[first]) / 400))
                actual += score if name == first else 1 - score
        assert expected == pytest.approx(actual, abs=1e-6)
    ties_alone = {score for *_, score in battles} == {0.5}
    for rating in ratings.values():
        assert (rating.low == rating.value == rating.high) == ties_alone
