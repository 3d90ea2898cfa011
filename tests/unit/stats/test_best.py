"""The best of several systems, and the systems that do not differ significantly from it."""

import random

import pytest

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.systems import Standing, compare_with_best


def _system(*scores: float | None) -> dict[str, float]:
    return {f"q{number}": score for number, score in enumerate(scores) if score is not None}


def test_two_systems_are_compared_two_sided() -> None:
    """With five gains and no loss, the one-sided p-value is doubled: either system could have been best."""
    worse, best = compare_with_best([_system(0, 0, 0, 0, 0, 1), _system(1, 1, 1, 1, 1, 1)])
    assert best == Standing(1.0, 6, best=True, shared=6, p_value=None)
    assert worse == Standing(1 / 6, 6, best=False, shared=6, p_value=2 * mcnemar_p_value(5, 0, 6))


@pytest.mark.parametrize(("systems", "pairs"), [(2, 2), (3, 6), (4, 12)])
def test_each_pair_that_could_have_been_the_one_counts(systems: int, pairs: int) -> None:
    """With ten gains, the p-value of 1 / 2^10 is multiplied by the number of ordered pairs of systems."""
    best, *others = compare_with_best([_system(*[1] * 10), *[_system(*[0] * 10)] * (systems - 1)])
    assert best.best
    assert [other and other.p_value for other in others] == [pytest.approx(pairs / 1024)] * (systems - 1)


def test_only_what_both_have_is_compared() -> None:
    """On the three shared examples the best system scores 1 and the other 1 / 3; two of them changed."""
    best, other = compare_with_best([_system(None, 1, 1, 1, 1), _system(1, 0, 0, None, 1)])
    assert best == Standing(1.0, 4, best=True, shared=4, p_value=None)
    assert other == Standing(
        0.5, 4, best=False, shared=3, p_value=2 * mcnemar_p_value(2, 0, 3), common=(1 / 3, 1.0)
    )


def test_systems_without_a_score_are_in_no_pair() -> None:
    """A system without scores has no standing, and its pairs do not count in the correction."""
    assert compare_with_best([{}, {}]) == [None, None]
    best, none, other = compare_with_best([_system(*[1] * 6), {}, _system(*[0] * 6)])
    assert best.best
    assert none is None
    assert other.p_value == pytest.approx(2 / 64)


def test_nothing_shared_tells_nothing() -> None:
    """If two systems share no example, the p-value is 1, however different their means are."""
    _, other = compare_with_best([{"a": 1.0}, {"b": 0.0}])
    assert other == Standing(0.0, 1, best=False, shared=0, p_value=1.0)


def test_several_may_be_best() -> None:
    standings = compare_with_best([_system(0.1, 0.2, 0.3), _system(0.3, 0.2, 0.1), _system(0, 0.2, 0.1)])
    assert [standing and standing.best for standing in standings] == [True, True, False]


@pytest.mark.slow
def test_many_systems_can_still_differ_significantly() -> None:
    rng = random.Random(3)
    best = _system(*(0.6 + rng.random() for _ in range(40)))
    others = [_system(*(rng.random() / 2 for _ in range(40))) for _ in range(39)]
    assert all(
        other and other.p_value and other.p_value < 0.05 for other in compare_with_best([best, *others])[1:]
    )


def test_equal_systems_seldom_differ_significantly() -> None:
    """Of 400 sets of five equal systems, at most 5% plus the simulation error have a significant difference."""
    rng = random.Random(7)
    false_alarms = 0
    for _ in range(400):
        systems = [_system(*(rng.randint(0, 1) for _ in range(60))) for _ in range(5)]
        standings = compare_with_best(systems)
        false_alarms += any(
            standing and standing.p_value is not None and standing.p_value <= 0.05 for standing in standings
        )
    assert false_alarms <= 400 * 0.05 + 10
