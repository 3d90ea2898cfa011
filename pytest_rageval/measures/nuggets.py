"""Nuggets, which are facts that a good answer says: how many of them a ranking covers, and how early.

Inputs are labels: for each passage, in rank order, how much of each nugget it supports: 1 all of it, 0.5 a part,
0 nothing. A nugget is supported where the label is 1.

Source: Clarke et al. (2008), "Novelty and Diversity in Information Retrieval Evaluation", with nuggets as subtopics;
Ju et al. (2025), "Controlled Retrieval-augmented Context Evaluation for Long-form RAG", section 3.3; Pradeep et al.
(2025), "The Great Nugget Recall", section 4.4.
"""

from collections.abc import Sequence
from math import fsum, log2
from typing import Final

__all__ = ["ALPHA", "alpha_ndcg", "best_labels", "lenient", "strict"]

ALPHA: Final = 0.5
"""The share of its gain that a nugget loses each time that it is repeated."""

FULL: Final = 1.0

Labels = Sequence[float]
"""Of the nuggets of a question, in one order."""


def best_labels(passages: Sequence[Labels], n: int) -> tuple[float, ...]:
    """Return the highest label of each of n nuggets over the passages; 0 without any.

    Two passages that each say a part of a nugget do not make it supported.

    >>> best_labels([(1.0, 0.0, 0.5), (0.0, 0.0, 0.5)], 3)
    (1.0, 0.0, 0.5)
    """
    return tuple(max((labels[i] for labels in passages), default=0.0) for i in range(n))


def strict(labels: Labels) -> float:
    """Return the share of nuggets with the label 1, of one or more.

    >>> strict([1.0, 0.5, 0.0, 0.0])
    0.25
    """
    return sum(label >= FULL for label in labels) / len(labels)


def lenient(labels: Labels) -> float:
    """Return the mean label of nuggets, of one or more: a part of one counts half.

    >>> lenient([1.0, 0.5, 0.0, 0.0])
    0.375
    """
    return fsum(labels) / len(labels)


def alpha_ndcg(ranking: Sequence[Labels], missed: Sequence[Labels], k: int, alpha: float = ALPHA) -> float:
    """Return alpha-nDCG@k, from 0 to 1; 0 where no passage supports a nugget.

    `α-DCG@k = Σ_{r≤k} Σ_i s(r, i) · (1 - α)^c(r, i) / log2(r + 1)`, where s(r, i) is 1 if the passage at rank r
    supports nugget i, else 0, and c(r, i) is the number of passages before it that do. It is divided by the α-DCG@k of
    the ideal ranking, which is built greedily, as in Clarke et al. and ndeval, from the passages of the ranking and
    those that it `missed`: each place goes to the passage of the highest gain, of equals to the first. An optimal
    order is NP-hard to find, and the greedy one may be a little worse: then the value is 1.

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
        _repeat(labels, weights, alpha)
    return fsum(gains)


def _ideal(pool: list[Labels], k: int, alpha: float) -> list[Labels]:
    """The greedy order of the first k passages of a pool."""
    weights: dict[int, float] = {}
    chosen: list[Labels] = []
    while pool and len(chosen) < k:
        gains = [_gain(labels, weights) for labels in pool]
        chosen.append(pool.pop(gains.index(max(gains))))
        _repeat(chosen[-1], weights, alpha)
    return chosen


def _gain(labels: Labels, weights: dict[int, float]) -> float:
    """What a passage adds: 1 for each nugget that it supports, less where earlier passages did."""
    return sum(weights.get(i, 1.0) for i, label in enumerate(labels) if label >= FULL)


def _repeat(labels: Labels, weights: dict[int, float], alpha: float) -> None:
    """Lower the weights of the nuggets that a passage supports."""
    for i, label in enumerate(labels):
        if label >= FULL:
            weights[i] = weights.get(i, 1.0) * (1 - alpha)
