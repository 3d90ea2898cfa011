"""Ranking measures computed from the ranks of gold passages."""

import random

import numpy as np
import pytest

from pytest_rageval.scores.measures.gold_measures import GOLD_MEASURES, GoldRanks, compute_measure
from pytest_rageval.scores.measures.ranking import MEASURES


def _row(rng: random.Random, cutoff: int) -> GoldRanks:
    depth = rng.randint(0, cutoff + 3)
    found = [(at, rng.randint(1, 4)) for at in range(depth) if rng.random() < rng.choice((0.02, 0.3, 0.9))]
    missed = [rng.randint(1, 4) for _ in range(rng.randint(0, 3) + (not found))]
    return GoldRanks(
        tuple(found), tuple(sorted([*missed, *(grade for _, grade in found)], reverse=True)), cutoff
    )


@pytest.mark.parametrize("name", GOLD_MEASURES)
@pytest.mark.parametrize("cutoff", [1, 2, 7, 8, 9, 10, 16, 20, 100, 127, 128, 129, 137, 260, 1000])
def test_they_equal_those_on_arrays_to_the_last_bit(name: str, cutoff: int) -> None:
    """The measures equal those on NumPy arrays to the last bit: NumPy is imported only for fractional labels."""
    rng = random.Random(cutoff)
    for _ in range(60):
        row = _row(rng, cutoff)
        labels, ideal = np.zeros((1, cutoff + 4)), np.zeros((1, max(cutoff, len(row.ideal))))
        for at, grade in row.found:
            labels[0, at] = grade
        ideal[0, : len(row.ideal)] = row.ideal
        assert compute_measure(name, [row]) == MEASURES[name](labels, ideal, cutoff).tolist()


def test_both_have_the_same_measures() -> None:
    """Both implementations have the same measures under the same names."""
    assert list(GOLD_MEASURES) == list(MEASURES)
