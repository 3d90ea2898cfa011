"""Ranking measures against gold passages, computed without numpy from the few positions at which one is found.

The measures equal `ranking.MEASURES` on integer labels to the last bit, because sums are added in numpy's order. The
logarithm is that of the C library. On processors with AVX-512 numpy uses another logarithm, whose last bit differs from
rank 1,620 on.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import log2
from typing import Final, NamedTuple

NUMPY_LANES: Final = 8
"""The number of partial sums that numpy adds up side by side."""

NUMPY_BLOCK: Final = 128
"""The largest number of terms that numpy adds up in this way. It splits a longer sum into two halves."""


class GoldRanks(NamedTuple):
    """The gold passages found in a ranking.

    Attributes:
        found: the positions, from 0 and ascending, at which a gold passage is found, each with its grade above 0.
        ideal: the grades above 0 of all gold passages, highest first; at least one.
        cutoff: the number of positions that count.
    """

    found: tuple[tuple[int, int], ...]
    ideal: tuple[int, ...]
    cutoff: int

    @property
    def top(self) -> tuple[tuple[int, int], ...]:
        """The items of `found` whose position is within the cut-off."""
        return tuple((position, grade) for position, grade in self.found if position < self.cutoff)


def precision(gold: GoldRanks) -> float:
    """P@k."""
    return len(gold.top) / gold.cutoff


def recall(gold: GoldRanks) -> float:
    """R@k."""
    return min(len(gold.top) / len(gold.ideal), 1.0)


def f1(gold: GoldRanks) -> float:
    """F1@k, the harmonic mean of P@k and R@k; 0 if both are 0."""
    p, r = precision(gold), recall(gold)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def map_(gold: GoldRanks) -> float:
    """AP@k."""
    precisions = [(position, number / (position + 1)) for number, (position, _) in enumerate(gold.top, 1)]
    return _sum(precisions, gold.cutoff) / len(gold.ideal)


def mrr(gold: GoldRanks) -> float:
    """RR@k."""
    return 1 / (gold.top[0][0] + 1.0) if gold.top else 0.0


def ndcg(gold: GoldRanks) -> float:
    """NDCG@k."""
    return _dcg(gold.top, gold.cutoff) / _dcg(enumerate(gold.ideal[: gold.cutoff]), gold.cutoff)


def hit(gold: GoldRanks) -> float:
    """Hit@k."""
    return float(bool(gold.top))


GOLD_MEASURES: Final[Mapping[str, Callable[[GoldRanks], float]]] = {
    "recall": recall,
    "precision": precision,
    "f1": f1,
    "map": map_,
    "mrr": mrr,
    "ndcg": ndcg,
    "hit": hit,
}
"""The measures by the name that users write."""


def compute_measure(name: str, rankings: Sequence[GoldRanks]) -> list[float]:
    """Return the value of a measure for each ranking. It is computed once for equal rankings, which are frequent."""
    by_ranking = {gold: GOLD_MEASURES[name](gold) for gold in set(rankings)}
    return [by_ranking[gold] for gold in rankings]


def _dcg(labels: "Sequence[tuple[int, int]] | enumerate[int]", n: int) -> float:
    return _sum([(position, label / discount(position)) for position, label in labels], n)


@cache
def discount(position: int) -> float:
    """Return the logarithm by which a gain at a position, from 0 on, is divided; NumPy's differs by release."""
    return log2(position + 2)


def _sum(terms: Sequence[tuple[int, float]], n: int, first: int = 0) -> float:
    """Add up n numbers in numpy's order.

    Args:
        terms: the numbers that are not 0, each with its position, ascending.
        n: the number of numbers, including zeros.
        first: the position of the first number.
    """
    if n > NUMPY_BLOCK:
        half = n // 2 - n // 2 % NUMPY_LANES
        left = [term for term in terms if term[0] < first + half]
        return _sum(left, half, first) + _sum(terms[len(left) :], n - half, first + half)
    lanes_end = first + (n - n % NUMPY_LANES)
    lanes = [0.0] * NUMPY_LANES
    for position, value in terms:
        if position < lanes_end:
            lanes[(position - first) % NUMPY_LANES] += value
    a, b, c, d, e, f, g, h = lanes
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for position, value in terms:
        if position >= lanes_end:
            total += value
    return total
