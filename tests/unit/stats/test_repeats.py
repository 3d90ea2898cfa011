"""Single questions that got worse, from repeats."""

from itertools import combinations, product

import numpy as np
import pytest

from pytest_rageval.stats.mcnemar import Counts, surely_worse


@pytest.mark.parametrize(("before", "now"), [(3, 3), (5, 5), (5, 3), (3, 6)])
def test_the_p_value_is_that_of_all_ways_to_divide_the_repeats(before: int, now: int) -> None:
    for right_before, right_now in product(range(before + 1), range(now + 1)):
        ways = [
            sum(place >= before for place in places)
            for places in combinations(range(before + now), right_before + right_now)
        ]
        counts = Counts(right_before, before, right_now, now)
        assert counts.p_value == pytest.approx(sum(way <= right_now for way in ways) / len(ways))
        assert counts.smallest_p_value == pytest.approx(sum(way == min(ways) for way in ways) / len(ways))


def test_a_question_that_no_result_could_show_costs_nothing() -> None:
    """The level is divided among those that could be significant, whether they changed or not."""
    lost = {"q17": Counts(5, 5, 0, 5)}
    assert surely_worse(lost, 0.05) == lost
    assert surely_worse(lost | {f"right {n}": Counts(5, 5, 5, 5) for n in range(1000)}, 0.05) == lost
    assert surely_worse(lost | {f"wrong {n}": Counts(0, 5, 0, 5) for n in range(1000)}, 0.05) == lost
    assert surely_worse(lost | {f"half {n}": Counts(2, 5, 3, 5) for n in range(11)}, 0.05) == lost
    assert surely_worse(lost | {f"half {n}": Counts(2, 5, 3, 5) for n in range(12)}, 0.05) == {}


def test_fewer_than_three_repeats_show_nothing() -> None:
    assert surely_worse({"a": Counts(3, 3, 0, 3)}, 0.05) == {"a": Counts(3, 3, 0, 3)}
    assert surely_worse({"a": Counts(9, 9, 0, 2)}, 0.05) == {}
    assert surely_worse({"a": Counts(2, 2, 0, 9)}, 0.05) == {}
    assert surely_worse({}, 0.05) == {}


def test_a_gain_is_no_loss() -> None:
    assert surely_worse({"a": Counts(0, 5, 5, 5)}, 0.05) == {}
    assert str(Counts(5, 5, 0, 4)) == "5 of 5 to 0 of 4"


@pytest.mark.parametrize("flips", [0.06, 0.23])
@pytest.mark.parametrize("runs", [3, 5])
def test_false_alarms_are_rare(flips: float, runs: int) -> None:
    """With 100 questions of which 80 are right, and verdicts that flip, any question is red in at most 5% of runs."""
    rng = np.random.default_rng(1)
    chance = np.where(np.arange(100) < 80, 1 - flips, flips)
    alarms = 0
    for _ in range(400):
        right = rng.binomial(runs, chance, (2, 100))
        counts = {str(n): Counts(int(a), runs, int(b), runs) for n, (a, b) in enumerate(right.T)}
        alarms += bool(surely_worse(counts, 0.05))
    assert alarms / 400 <= 0.05
