"""What each factor explains: the contrasts, and their intervals."""

from fractions import Fraction
from itertools import permutations
from random import Random

import numpy as np
import pytest

from pytest_rageval.extensions.why.command import (
    Contrast,
    Run,
    alone,
    contrast,
    effect,
    interaction,
    runs_of,
    shapley,
    total,
)

SIMULATIONS = 2000


def _weighed(weights: Contrast, scores: Contrast) -> Fraction:
    return sum((weight * scores[run] for run, weight in weights.items()), Fraction(0))


@pytest.mark.parametrize("factors", ["a", "ab", "abc", "abcd"])
def test_shapley_values_are_the_mean_over_all_orders_and_sum_to_the_whole_change(factors: str) -> None:
    random = Random(factors)
    scores = {run: Fraction(random.randint(0, 999), 7) for run in runs_of(factors)}
    shares = {factor: _weighed(shapley(factor, factors), scores) for factor in factors}
    orders = list(permutations(factors))
    for factor in factors:
        steps = [frozenset(order[: order.index(factor)]) for order in orders]
        changes = [scores[before | {factor}] - scores[before] for before in steps]
        assert shares[factor] == sum(changes) / len(orders)
    assert sum(shares.values()) == scores[frozenset(factors)] - scores[frozenset()]


@pytest.mark.parametrize(("factors", "count"), [("a", 2), ("abc", 8), ("abcd", 16), ("abcde", 7)])
def test_the_runs_suffice_for_each_contrast(factors: str, count: int) -> None:
    runs = runs_of(factors)
    assert len(set(runs)) == len(runs) == count
    assert runs[:2] == [frozenset(), frozenset(factors)]
    share = shapley if len(factors) < 5 else alone
    contrasts = [total(factors), interaction(factors), *(share(factor, factors) for factor in factors)]
    assert {*runs} == {run for weights in contrasts for run in weights}


def test_shares_and_interaction_of_one_question_by_hand() -> None:
    """Alone, a takes .4 and b .1; both together take .7, which is .2 more."""
    scores = {frozenset(run): [score] for run, score in (("", 0.9), ("a", 0.5), ("b", 0.8), ("ab", 0.2))}
    found = [contrast(weights, scores) for weights in (shapley("a", "ab"), shapley("b", "ab"), total("ab"))]
    assert found == [[-0.5], [-0.2], [-0.7]]
    # Reverting a gives back .6, and reverting b .3.
    assert contrast(interaction("ab"), scores) == [0.2]


def test_a_change_that_no_question_shows_is_possible() -> None:
    scores = {run: [1.0, 0.0] * 15 for run in runs_of("ab")}
    found = effect(shapley("a", "ab"), scores)
    assert found.mean == 0
    assert found.low == -found.high
    assert 0.1 < found.high < 0.25
    assert not found.is_shown


def test_the_interval_of_a_score_in_seconds_is_in_seconds() -> None:
    scores = {frozenset[str](): [1.0, 2.0, 3.0] * 20, frozenset("a"): [21.0, 32.0, 43.0] * 20}
    found = effect(total("a"), scores, span=0.0)
    assert found.mean == 30
    assert 20 < found.low < 30 < found.high < 40
    assert found.is_shown


def _found(run: Run) -> float:
    """How often a passage is found: one factor takes much, one nothing, one little, and two of them more together."""
    return 0.86 - 0.18 * ("much" in run) - 0.03 * ("little" in run) - 0.02 * ({"much", "little"} <= run)


FACTORS = ("much", "nothing", "little")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("passages", [pytest.param(1, id="zero_or_one"), pytest.param(3, id="graded")])
@pytest.mark.parametrize("n", [30, 60, 200])
def test_intervals_cover_known_effects(n: int, passages: int) -> None:
    """Each gold passage of a question has a difficulty, which a model draws anew in a tenth of the runs."""
    rng = np.random.default_rng([n, passages])
    weights = {name: shapley(name, FACTORS) for name in ("much", "little")}
    truth = {
        name: sum(float(weight) * _found(run) for run, weight in each.items())
        for name, each in weights.items()
    }
    covered = dict.fromkeys(weights, 0)
    for _ in range(SIMULATIONS):
        difficulty, scores = rng.random((n, passages)), {}
        for run in runs_of(FACTORS):
            drawn = np.where(rng.random((n, passages)) < 0.1, rng.random((n, passages)), difficulty)
            scores[run] = np.mean(drawn < _found(run), axis=1).tolist()
        for name, each in weights.items():
            found = effect(each, scores)
            covered[name] += found.low <= truth[name] <= found.high
    assert min(covered.values()) >= 0.93 * SIMULATIONS, covered
