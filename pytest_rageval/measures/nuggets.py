"""Measures over nuggets (facts that a good answer states): how many nuggets a ranking covers, and how early.

The inputs are labels. The label of a nugget says how much of it a passage supports: 1 all of it, 0.5 a part, 0 nothing.
A nugget is supported if its label is 1.

Source: Clarke et al. (2008), "Novelty and Diversity in Information Retrieval Evaluation", with nuggets as subtopics;
Ju et al. (2025), "Controlled Retrieval-augmented Context Evaluation for Long-form RAG", section 3.3; Pradeep et al.
(2025), "The Great Nugget Recall", section 4.4.
"""

from collections.abc import Sequence
from math import fsum, log2
from typing import Final

__all__ = ["ALPHA", "alpha_ndcg", "best_labels", "lenient", "strict"]

ALPHA: Final = 0.5
"""The share of its gain that a nugget loses with each passage that supports it."""

SUPPORTED: Final = 1.0
"""The label of a nugget that a passage supports."""

Labels = Sequence[float]
"""One label per nugget of a question, in the order of the nuggets."""


def best_labels(passages: Sequence[Labels], n: int) -> tuple[float, ...]:
    """Return for each of n nuggets the highest label over the passages; 0 if there are no passages.

    Two passages that each support a part of a nugget do not make the nugget supported.

    >>> best_labels([(1.0, 0.0, 0.5), (0.0, 0.0, 0.5)], 3)
    (1.0, 0.0, 0.5)
    """
    return tuple(max((labels[i] for labels in passages), default=0.0) for i in range(n))


def strict(labels: Labels) -> float:
    """Return the share of nuggets with the label 1; there must be at least one nugget.

    >>> strict([1.0, 0.5, 0.0, 0.0])
    0.25
    """
    return sum(label >= SUPPORTED for label in labels) / len(labels)


def lenient(labels: Labels) -> float:
    """Return the mean label of nuggets, so that a part of a nugget counts half; there must be at least one nugget.

    >>> lenient([1.0, 0.5, 0.0, 0.0])
    0.375
    """
    return fsum(labels) / len(labels)


def alpha_ndcg(ranking: Sequence[Labels], missed: Sequence[Labels], k: int, alpha: float = ALPHA) -> float:
    """Return alpha-nDCG@k, from 0 to 1; 0 if no passage supports a nugget.

    `α-DCG@k = Σ_{r≤k} Σ_i s(r, i) · (1 - α)^c(r, i) / log2(r + 1)`, where s(r, i) is 1 if the passage at rank r
    supports nugget i, else 0, and c(r, i) is the number of passages before rank r that support it. It is divided by the
    α-DCG@k of the ideal ranking. The ideal ranking is built greedily, as in Clarke et al. and ndeval: the next passage
    is the one with the highest gain; of passages with equal gain, the first. An optimal ranking is NP-hard to find. The
    greedy ranking may have a slightly lower α-DCG than the given one; the value is then 1.

    Args:
        ranking: the labels of each retrieved passage, in rank order.
        missed: the labels of each known passage that was not retrieved. They are used in the ideal ranking only.
        k: the cut-off.
        alpha: the share of its gain that a nugget loses with each passage that supports it.

    >>> alpha_ndcg([(1, 0), (1, 0), (0, 1)], [], 3)
    0.9651954696014428
    """
    best = _dcg(_ideal([*ranking, *missed], k, alpha), alpha)
    return min(_dcg(ranking[:k], alpha) / best, 1.0) if best else 0.0


def _dcg(passages: Sequence[Labels], alpha: float) -> float:
    gains = []
    weights: dict[int, float] = {}
    for rank, labels in enumerate(passages, 1):
        gains.append(_gain(labels, weights) / log2(rank + 1))
        _lower_weights(labels, weights, alpha)
    return fsum(gains)


def _ideal(pool: list[Labels], k: int, alpha: float) -> list[Labels]:
    """Return k passages of a pool (or all if it has fewer) in greedy order; they are removed from the pool."""
    weights: dict[int, float] = {}
    chosen: list[Labels] = []
    while pool and len(chosen) < k:
        gains = [_gain(labels, weights) for labels in pool]
        chosen.append(pool.pop(gains.index(max(gains))))
        _lower_weights(chosen[-1], weights, alpha)
    return chosen


def _gain(labels: Labels, weights: dict[int, float]) -> float:
    """Return the sum of the weights of the nuggets that a passage supports; by default a weight is 1."""
    return sum(weights.get(i, 1.0) for i, label in enumerate(labels) if label >= SUPPORTED)


def _lower_weights(labels: Labels, weights: dict[int, float], alpha: float) -> None:
    """Multiply the weights of the nuggets that a passage supports by 1 - alpha."""
    for i, label in enumerate(labels):
        if label >= SUPPORTED:
            weights[i] = weights.get(i, 1.0) * (1 - alpha)
