"""Ranking measures: one definition for every kind of label, computed for all queries at once.

Inputs, for n queries:

- `labels`: array n × depth of numbers ≥ 0, the label of each retrieved document in rank order, 0 beyond the end of a
  shorter ranking;
- `ideal`: array n × m of the labels of all relevant documents, highest first, padded with 0; row i holds at least one
  number above 0;
- `k`: the cut-off, an integer ≥ 1.

Output: array of n scores in [0, 1]. Aggregate over queries with the mean.

A document of label l counts as `min(l, 1)` where a measure asks whether it is relevant, so integer grades above 1 are
simply relevant, as in trec_eval. An empty ranking scores 0. P@k divides by k even where the ranking is shorter.

Source: trec_eval 9.0.8 (NIST), whose values these equal on integer labels.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MEASURES", "Labels", "Scores", "hit", "map_", "mrr", "ndcg", "precision", "recall"]

Labels = NDArray[np.float64]
Scores = NDArray[np.float64]


def precision(labels: Labels, ideal: Labels, k: int) -> Scores:  # noqa: ARG001 - one signature for all
    """P@k: the share of relevant documents among the first k, `Σ_{i≤k} l_i / k`."""
    score: Scores = _relevance(labels, k).sum(axis=1) / k
    return score


def recall(labels: Labels, ideal: Labels, k: int) -> Scores:
    """R@k: the share of the relevant documents that the first k hold, `Σ_{i≤k} l_i / Σ ideal`."""
    # Fractional labels, summed in another order than the ideal ones, may differ in the last bit.
    score: Scores = np.minimum(_relevance(labels, k).sum(axis=1) / _wanted(ideal), 1.0)
    return score


def f1(labels: Labels, ideal: Labels, k: int) -> Scores:
    """F1@k: the harmonic mean of P@k and R@k; 0 where both are 0."""
    p, r = precision(labels, ideal, k), recall(labels, ideal, k)
    return np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)


def map_(labels: Labels, ideal: Labels, k: int) -> Scores:
    """AP@k: the mean, over all relevant documents, of the precision at the rank of each.

    `Σ_{i≤k} l_i · P@i / Σ ideal`: a relevant document that was not found in the first k adds 0. Its mean over queries
    is MAP.
    """
    relevance = _relevance(labels, k)
    ranks = np.arange(1, relevance.shape[1] + 1)
    score: Scores = (relevance * relevance.cumsum(axis=1) / ranks).sum(axis=1) / _wanted(ideal)
    return score


def mrr(labels: Labels, ideal: Labels, k: int) -> Scores:  # noqa: ARG001
    """RR@k: one over the rank of the first relevant document, 0 where the first k hold none."""
    found = labels[:, :k] > 0
    if not found.shape[1]:
        return np.zeros(len(labels))
    return np.where(found.any(axis=1), 1 / (found.argmax(axis=1) + 1.0), 0.0)


def ndcg(labels: Labels, ideal: Labels, k: int) -> Scores:
    """NDCG@k: `DCG@k / ideal DCG@k` with `DCG@k = Σ_{i≤k} l_i / log2(i + 1)`.

    The gain is the label itself, not 2^label - 1.

    Source: Järvelin and Kekäläinen (2002), with the logarithm's base 2 for all ranks.
    """
    return _dcg(labels, k) / _dcg(ideal, k)


def hit(labels: Labels, ideal: Labels, k: int) -> Scores:  # noqa: ARG001
    """Hit@k: the highest label among the first k; 1 where any of them is relevant."""
    score: Scores = _relevance(labels, k).max(axis=1, initial=0.0)
    return score


Measure = Callable[[Labels, Labels, int], Scores]

MEASURES: Final[Mapping[str, Measure]] = {
    "recall": recall,
    "precision": precision,
    "f1": f1,
    "map": map_,
    "mrr": mrr,
    "ndcg": ndcg,
    "hit": hit,
}
"""By the name users type."""


def _relevance(labels: Labels, k: int) -> Labels:
    return np.minimum(labels[:, :k], 1.0)


def _wanted(ideal: Labels) -> Scores:
    total: Scores = np.minimum(ideal, 1.0).sum(axis=1)
    return total


def _dcg(labels: Labels, k: int) -> Scores:
    top = labels[:, :k]
    gain: Scores = (top / np.log2(np.arange(2, top.shape[1] + 2))).sum(axis=1)
    return gain
