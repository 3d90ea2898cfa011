"""Coverage of rating intervals if each question has several battles."""

from itertools import combinations

import numpy as np
import pytest

from pytest_rageval.stats.systems import Battle, bradley_terry

pytestmark = pytest.mark.slow

QUALITY = {"reference": 0.2, "a": 0.6, "b": 0.2, "c": 0.0, "d": -0.5}
"""Mean log strength of each system's answers."""

VARIES = 1.5
"""Standard deviation of the log strength between questions."""


def _run(rng: np.random.Generator, questions: int) -> tuple[list[Battle], list[str]]:
    strengths = np.array(list(QUALITY.values())) + VARIES * rng.normal(size=(questions, len(QUALITY)))
    battles, battle_questions = [], []
    for question, row in enumerate(strengths):
        for first, second in combinations(range(len(QUALITY)), 2):
            won = rng.random() < 1 / (1 + np.exp(row[second] - row[first]))
            battles.append(Battle(list(QUALITY)[first], list(QUALITY)[second], float(won)))
            battle_questions.append(str(question))
    return battles, battle_questions


@pytest.mark.long
def test_intervals_by_questions_hold_the_true_rating() -> None:
    """Intervals by questions cover in 95% of runs (standard error 1.3 points); those by battles are too narrow."""
    truth = bradley_terry(_run(np.random.default_rng(0), 10_000)[0])
    rng = np.random.default_rng(1)
    held = np.zeros((60, 2, len(QUALITY)))
    for n in range(len(held)):
        battles, battle_questions = _run(rng, 120)
        for way, questions in enumerate(([], battle_questions)):
            ratings = bradley_terry(battles, questions=questions, seed=n)
            held[n, way] = [ratings[name].low <= truth[name].value <= ratings[name].high for name in QUALITY]
    by_battles, by_questions = held.mean(axis=(0, 2))
    assert by_questions >= 0.91
    assert by_battles <= 0.91
