"""The test of a fall that may be looked at every day."""

from fractions import Fraction
from random import Random
from statistics import median

import numpy as np
import pytest

from pytest_rageval.extensions.monitor.command import BETS, YEAR, Counts, evidence, lower_end, pooled

ALPHA = 0.025  # of the test; as much is for the reference


def slow_evidence(days: list[list[float]], allowed: float) -> float:
    """The evidence after all days by its definition: the sum over starts, each a product over questions, exactly."""
    total = Fraction(0)
    for bet in BETS:
        stake = Fraction(bet) / (1 - Fraction(allowed))
        for start in range(len(days)):
            capital = Fraction(1, YEAR * len(BETS))
            for value in (value for day in days[start:] for value in day):
                capital *= 1 + stake * (Fraction(allowed) - Fraction(value))
            total += capital
    return float(total)


@pytest.mark.parametrize("seed", range(20))
def test_evidence_is_that_of_its_definition(seed: int) -> None:
    rng = Random(seed)
    days = [[rng.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(rng.randint(1, 9))] for _ in range(6)]
    allowed = rng.uniform(0.05, 0.95)
    counted: list[Counts] = [{value: day.count(value) for value in day} for day in days]
    for last, found in enumerate(evidence(counted, allowed), 1):
        assert found == pytest.approx(slow_evidence(days[:last], allowed), rel=1e-9)


def test_on_average_a_year_without_a_fall_gives_evidence_of_one() -> None:
    """All 2¹⁰ outcomes of ten questions in two days, weighted by their probabilities: an exact mean."""
    p = 0.7
    total = 0.0
    for outcome in range(2**10):
        ones = [bool(outcome >> bit & 1) for bit in range(10)]
        chance = float(np.prod([p if one else 1 - p for one in ones]))
        days = [{1.0: sum(part), 0.0: 5 - sum(part)} for part in (ones[:5], ones[5:])]
        total += chance * list(evidence(days, p))[-1]
    assert total == pytest.approx(2 / YEAR)


def test_evidence_of_many_questions_stays_a_number() -> None:
    days: list[Counts] = [{0.0: 100_000}, {0.0: 100_000}, {1.0: 1_000_000}, {0.0: 10}]
    found = list(evidence(days, 0.9))
    assert found[1] > 1e100
    assert 0 <= found[3] < found[1]


@pytest.mark.parametrize(("ones", "n"), [(80, 100), (100, 100), (0, 30), (1, 7)])
def test_the_lower_end_of_two_values_is_that_of_agresti_and_coull(ones: int, n: int) -> None:
    z = 1.959963984540054
    p = (ones + z * z / 2) / (n + z * z)
    assert lower_end({1.0: ones, 0.0: n - ones}, 0.025) == pytest.approx(
        p - z * (p * (1 - p) / (n + z * z)) ** 0.5
    )


def first_alarm(
    rng: np.random.Generator, means: list[float], size: tuple[int, int], max_drop: float = 0.0
) -> int:
    """The day of the first alarm, from 1, after a reference of 14 days with the first mean; 0 without an alarm."""

    def day(mean: float) -> Counts:
        n = int(rng.integers(*size, endpoint=True))
        ones = int(rng.binomial(n, mean))
        return {0.0: n - ones, 1.0: ones}

    allowed = lower_end(pooled(day(means[0]) for _ in range(14)), ALPHA) - max_drop
    watched = map(day, means)
    return next((at for at, found in enumerate(evidence(watched, allowed), 1) if found >= 1 / ALPHA), 0)


@pytest.mark.slow
def test_at_most_five_of_a_hundred_years_have_a_false_alarm() -> None:
    """1,000 years without a fall, in which no drop is allowed, with 20 to 200 questions a day."""
    rng = np.random.default_rng(1)
    alarms = sum(first_alarm(rng, [(0.5, 0.8, 0.95)[n % 3]] * YEAR, (20, 200)) > 0 for n in range(1000))
    assert alarms <= 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "fall", "days"), [(50, 0.1, 20), (100, 0.05, 50), (100, 0.1, 10), (200, 0.05, 20), (200, 0.1, 5)]
)
def test_a_fall_after_two_months_is_found(size: int, fall: float, days: int) -> None:
    """The days until the alarm that the page about `rageval monitor` states, as the median of 200 years."""
    rng = np.random.default_rng(2)
    means = [0.8] * 60 + [0.8 - fall] * 305
    found = [first_alarm(rng, means, (size, size)) or YEAR for _ in range(200)]
    assert 0 < median(found) - 60 <= days
