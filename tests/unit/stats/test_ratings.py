"""Bradley-Terry ratings."""

import random
from math import log10, sqrt

import pytest

from pytest_rageval.stats.systems import Battle, UnratableError, bradley_terry


def _battles(first: str, second: str, won: int, tied: int, lost: int) -> list[Battle]:
    scores = [1.0] * won + [0.5] * tied + [0.0] * lost
    return [Battle(first, second, score) for score in scores]


def test_two_systems_have_the_odds_of_their_score() -> None:
    """Six wins and four ties in ten battles are odds of 8 : 2, or 400 · log10(4) points around a mean of 1000."""
    ratings = bradley_terry(_battles("a", "b", 6, 4, 0))
    assert list(ratings) == ["a", "b"]
    assert ratings["a"].value == pytest.approx(1000 + 200 * log10(4), abs=1e-9)
    assert ratings["b"].value == pytest.approx(1000 - 200 * log10(4), abs=1e-9)


def test_a_chain_adds_up() -> None:
    """Two systems that never met are rated through a third: the rating differences add up."""
    ratings = bradley_terry([*_battles("a", "b", 3, 0, 1), *_battles("b", "c", 9, 0, 1)])
    assert ratings["a"].value - ratings["b"].value == pytest.approx(400 * log10(3), abs=1e-9)
    assert ratings["b"].value - ratings["c"].value == pytest.approx(400 * log10(9), abs=1e-9)
    assert sum(rating.value for rating in ratings.values()) == pytest.approx(3000, abs=1e-9)


def test_equal_scores_are_equal_ratings() -> None:
    circle = [battle for pair in ("ab", "bc", "ca") for battle in _battles(*pair, 5, 0, 0)]
    for rating in bradley_terry(circle).values():
        assert rating.value == pytest.approx(1000, abs=1e-9)


def test_lopsided_battles_settle() -> None:
    """With one tie in 100,000 battles, the difference is large but finite, and the fit converges."""
    ratings = bradley_terry(_battles("a", "b", 99_999, 1, 0))
    assert ratings["a"].value - ratings["b"].value == pytest.approx(400 * log10(99_999.5 / 0.5), abs=1e-6)


def test_the_interval_of_two_systems_is_that_of_their_odds() -> None:
    """The interval follows from the standard error of the log odds, sqrt(n / (won · lost)) by the delta method."""
    ratings = bradley_terry(_battles("a", "b", 240, 0, 160))
    error = 200 / 2.302585 * (400 / (240 * 160)) ** 0.5
    for rating in ratings.values():
        assert rating.high - rating.value == pytest.approx(rating.value - rating.low, abs=1e-9)
        assert rating.high - rating.value == pytest.approx(1.96 * error, rel=0.05)


def test_ties_narrow_the_interval() -> None:
    tied, split = bradley_terry(_battles("a", "b", 1, 98, 1)), bradley_terry(_battles("a", "b", 50, 0, 50))
    assert tied["a"].high - tied["a"].low < 0.3 * (split["a"].high - split["a"].low)


def test_neither_order_nor_side_matters() -> None:
    """The same battles, shuffled and with first and second system swapped, give the same ratings and intervals."""
    battles = [*_battles("a", "b", 5, 2, 3), *_battles("b", "c", 4, 1, 2), *_battles("a", "c", 6, 0, 1)]
    turned = [Battle(b.second, b.first, 1 - b.score) for b in battles]
    random.Random(0).shuffle(turned)
    assert bradley_terry(turned) == bradley_terry(battles)


def test_the_seed_of_ratings_decides() -> None:
    battles = _battles("a", "b", 5, 2, 3)
    first, second = bradley_terry(battles, seed=1)["a"], bradley_terry(battles, seed=2)["a"]
    assert first.value == second.value
    assert first.low != second.low


@pytest.mark.parametrize(
    ("battles", "message"),
    [
        ([], "no battle"),
        (_battles("a", "b", 9, 0, 0), "a won every battle against b"),
        ([*_battles("a", "b", 2, 0, 2), *_battles("c", "a", 0, 0, 3)], "a, b won every battle against c"),
        ([*_battles("a", "b", 2, 0, 2), *_battles("c", "a", 3, 0, 0)], "c won every battle against a, b"),
        ([*_battles("a", "b", 2, 1, 2), *_battles("c", "d", 0, 1, 0)], "a, b never met c, d"),
        ([*_battles("a", "b", 1, 0, 0), *_battles("b", "c", 1, 0, 0)], "a won every battle against b, c"),
    ],
)
def test_an_unbounded_distance_is_an_error(battles: list[Battle], message: str) -> None:
    with pytest.raises(UnratableError, match=message):
        bradley_terry(battles)


@pytest.mark.parametrize(
    "battle",
    [Battle("a", "a", 1), Battle("a", "b", 1.5), Battle("a", "b", -1), Battle("a", "b", float("nan"))],
)
def test_no_battle_is_an_error(battle: Battle) -> None:
    with pytest.raises(ValueError, match="a battle is of two systems"):
        bradley_terry([battle])


def test_battles_on_one_question_are_weighted_together() -> None:
    """Repeating each battle on its question does not narrow the interval; on new questions it is √2 narrower."""
    once = [Battle("a", "b", 1)] * 30 + [Battle("a", "b", 0)] * 20 + [Battle("b", "c", 0.5)] * 10
    once += [Battle("c", "a", 0)] * 25 + [Battle("c", "b", 1)] * 15
    questions = [f"q{n}" for n in range(len(once))]
    single = bradley_terry(once, questions=questions)
    twice = bradley_terry(once * 2, questions=questions * 2)
    apart = bradley_terry(once * 2)
    for name, rating in single.items():
        assert twice[name].value == pytest.approx(rating.value) == pytest.approx(apart[name].value)
        margin = rating.high - rating.value
        assert twice[name].high - twice[name].value == pytest.approx(margin, rel=1e-6)
        assert apart[name].high - apart[name].value == pytest.approx(margin / sqrt(2), rel=0.08)


def test_the_order_of_questions_does_not_matter() -> None:
    battles = [Battle("a", "b", score) for score in (1, 0, 0.5, 1, 1)]
    questions = ["x", "y", "x", "z", "y"]
    assert bradley_terry(battles, questions=questions) == bradley_terry(
        battles[::-1], questions=questions[::-1]
    )
    with pytest.raises(ValueError, match=r"shorter|longer"):
        bradley_terry(battles, questions=questions[1:])
