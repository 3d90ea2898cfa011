"""Ranking measures against gold passages, computed from the few ranks that hold one, without numpy.

They equal those of `ranking.MEASURES` on integer labels to the last bit: sums are added in numpy's order. The logarithm
is that of the C library; on processors with AVX-512 numpy has another one, whose last bit differs from rank 1,620 on.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import log2
from typing import Final, NamedTuple

__all__ = ["GOLD_MEASURES", "GoldRanks", "values"]

LANES: Final = 8
BLOCK: Final = 128
"""How numpy adds: eight sums side by side, of at most so many numbers; of more, two halves."""


class GoldRanks(NamedTuple):
    """The gold passages found in a ranking.

    Attributes:
        found: the positions from 0, rising, that hold one, each with its grade above 0.
        ideal: the grades above 0 of all, highest first; at least one.
        cutoff: how many positions count.
    """

    found: tuple[tuple[int, int], ...]
    ideal: tuple[int, ...]
    cutoff: int

    @property
    def top(self) -> tuple[tuple[int, int], ...]:
        """The found positions within the cut-off."""
        return tuple(each for each in self.found if each[0] < self.cutoff)


def precision(row: GoldRanks) -> float:
    """P@k."""
    return len(row.top) / row.cutoff


def recall(row: GoldRanks) -> float:
    """R@k."""
    return min(len(row.top) / len(row.ideal), 1.0)


def f1(row: GoldRanks) -> float:
    """The harmonic mean of both; 0 where both are 0."""
    p, r = precision(row), recall(row)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def map_(row: GoldRanks) -> float:
    """AP@k."""
    precisions = [(at, number / (at + 1)) for number, (at, _) in enumerate(row.top, 1)]
    return _sum(precisions, row.cutoff) / len(row.ideal)


def mrr(row: GoldRanks) -> float:
    """RR@k."""
    return 1 / (row.top[0][0] + 1.0) if row.top else 0.0


def ndcg(row: GoldRanks) -> float:
    """NDCG@k."""
    return _dcg(row.top, row.cutoff) / _dcg(enumerate(row.ideal[: row.cutoff]), row.cutoff)


def hit(row: GoldRanks) -> float:
    """Hit@k."""
    return float(bool(row.top))


GOLD_MEASURES: Final[Mapping[str, Callable[[GoldRanks], float]]] = {
    "recall": recall,
    "precision": precision,
    "f1": f1,
    "map": map_,
    "mrr": mrr,
    "ndcg": ndcg,
    "hit": hit,
}
"""By the name users type."""


def values(name: str, rows: Sequence[GoldRanks]) -> list[float]:
    """The values of a measure; equal rows, frequent in a large set, are computed once."""
    of_row = {row: GOLD_MEASURES[name](row) for row in set(rows)}
    return [of_row[row] for row in rows]


def _dcg(labels: "Sequence[tuple[int, int]] | enumerate[int]", n: int) -> float:
    return _sum([(at, label / _discount(at)) for at, label in labels], n)


@cache
def _discount(at: int) -> float:
    return log2(at + 2)


def _sum(terms: Sequence[tuple[int, float]], n: int, first: int = 0) -> float:
    """The sum of n numbers from a position on, of which these are not 0, as numpy adds them."""
    if n > BLOCK:
        half = n // 2 - n // 2 % LANES
        left = [term for term in terms if term[0] < first + half]
        return _sum(left, half, first) + _sum(terms[len(left) :], n - half, first + half)
    side_by_side = first + (n - n % LANES)
    lanes = [0.0] * LANES
    for at, value in terms:
        if at < side_by_side:
            lanes[(at - first) % LANES] += value
    a, b, c, d, e, f, g, h = lanes
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for at, value in terms:
        if at >= side_by_side:
            total += value
    return total
