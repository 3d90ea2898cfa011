"""Extrapolated RBO equals a second computation from the definition, of 1,000 pairs of rankings with ties."""

import random
from fractions import Fraction
from itertools import pairwise

import pytest

from pytest_rageval.stats.agreement import rank_biased_overlap

P = Fraction(9, 10)


def _direct(first: list[list[str]], second: list[list[str]]) -> Fraction:
    """Compute the sum of Webber et al. over contributions of items to depths, in fractions.

    An item that is not seen of the shorter ranking is in the longer one with the probability A_s. The sum is over the
    differences of agreements, each weighted by the share of readers who come to that depth: Σ p^(d-1) (A_d - A_(d-1)).
    """

    def tops(ranking: list[list[str]]) -> dict[str, int]:
        before = [sum(map(len, ranking[:n])) for n in range(len(ranking))]
        return {item: top + 1 for top, group in zip(before, ranking, strict=True) for item in group}

    shorter, longer = sorted((tops(first), tops(second)), key=len)
    if not shorter:
        return Fraction(not longer)

    def agreement(depth: int) -> Fraction:
        both = [item for item in shorter if item in longer and max(shorter[item], longer[item]) <= depth]
        of_longer = sum(top <= depth for top in longer.values())
        if depth <= len(shorter):
            return Fraction(2 * len(both), of_longer + sum(top <= depth for top in shorter.values()))
        unseen = depth - len(shorter)
        return 2 * (len(both) + unseen * agreement(len(shorter))) / (of_longer + len(shorter) + unseen)

    agreements = [Fraction(0), *map(agreement, range(1, len(longer) + 1))]
    return sum(
        (P**n * (after - before) for n, (before, after) in enumerate(pairwise(agreements))), Fraction(0)
    )


def _ranking(rng: random.Random) -> list[list[str]]:
    items = rng.sample("abcdefghijklmnopqrstuvwxyz", rng.randint(0, 20))
    groups: list[list[str]] = []
    while items:
        size = rng.choice([1, 1, 1, 2, 3, 5])
        groups.append(items[:size])
        items = items[size:]
    return groups


def test_rankings_with_ties() -> None:
    rng = random.Random(2010)
    values = []
    for _ in range(1000):
        first, second = _ranking(rng), _ranking(rng)
        value = rank_biased_overlap(first, second)
        assert value == pytest.approx(float(_direct(first, second)), abs=1e-12)
        assert value == rank_biased_overlap(second, first)
        assert rank_biased_overlap(first, first) == pytest.approx(1.0, abs=1e-12)
        values.append(value)
    assert 0.0 in values
    assert len(set(values)) > 700


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        # (1 - p)(A_1 + p A_2 + p² A_3) + p³ A_3
        ("abc", "acb", 0.1 * (1 + 0.9 / 2 + 0.81) + 0.729),
        ("ab", "cd", 0.0),
        ("a", "ab", 1.0),
        ("", "", 1.0),
        ("", "a", 0.0),
    ],
)
def test_values_by_hand(first: str, second: str, value: float) -> None:
    assert rank_biased_overlap(first, second) == pytest.approx(value)


def test_a_tie_by_hand() -> None:
    """At depth 1 one of two items is common: A_1 = 2 · 1 / (2 + 1); from depth 2 on all are."""
    assert rank_biased_overlap([["a", "b"]], [["a"], ["b"]]) == pytest.approx(0.1 * 2 / 3 + 0.9)
