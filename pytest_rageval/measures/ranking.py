"""Ranking measures: one definition for every kind of label, computed for all queries at once.

`usefulness` is eRAG: which retrieved passages helped this generator. The label of a passage is the downstream score of
the answer that the generator gives with that passage alone. Only retrieved passages have one, so recall, MAP and nDCG
are relative to these.

Inputs, for n queries:

- `labels`: array n × depth of numbers ≥ 0, the label of each retrieved document in rank order, 0 beyond the end of a
  shorter ranking;
- `ideal`: array n × m of the labels of all relevant documents, highest first, padded with 0; row i holds at least one
  number above 0;
- `k`: the cut-off, an integer ≥ 1.

Output: array of n scores in [0, 1]. Aggregate over queries with the mean.

A document of label l counts as `min(l, 1)` where a measure asks whether it is relevant, so integer grades above 1 are
simply relevant, as in trec_eval. An empty ranking scores 0. P@k divides by k even where the ranking is shorter.

Source: trec_eval 9.0.8 (NIST), whose values these equal on integer labels; Salemi and Zamani (2024), "Evaluating
Retrieval Quality in Retrieval-Augmented Generation".
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.errors import InputError

__all__ = ["LABEL_MEASURES", "MEASURES", "NEED_BINARY", "usefulness"]

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

LABEL_MEASURES: Final = {"p": precision} | {
    name: MEASURES[name] for name in ("recall", "map", "mrr", "ndcg", "hit")
}
"""Those of labels of usefulness, by the name users type."""


def _relevance(labels: Labels, k: int) -> Labels:
    return np.minimum(labels[:, :k], 1.0)


def _wanted(ideal: Labels) -> Scores:
    total: Scores = np.minimum(ideal, 1.0).sum(axis=1)
    return total


def _dcg(labels: Labels, k: int) -> Scores:
    top = labels[:, :k]
    gain: Scores = (top / np.log2(np.arange(2, top.shape[1] + 2))).sum(axis=1)
    return gain


NEED_BINARY: Final = frozenset({"recall", "map", "mrr"})
"""Measures that are defined for labels of 0 and 1 only."""

REMEDY: Final = (
    'Say from where on a label counts as 1, as in label="judge>=0.5" or "f1>=0.5", or use p, hit or ndcg.'
)
"""For users, who name a score; callers of the function pass `graded`."""


def usefulness(
    name: str, labels: Mapping[str, Mapping[str, float]], k: int | None, *, graded: bool = False
) -> Scores:
    """Score rankings by the labels l_1 … l_n of their passages, in rank order.

    - p: `Σ_{i≤k} l_i / k`, the mean label of the top k, also where fewer came back;
    - recall: `Σ_{i≤k} l_i / Σ_i l_i`; at full depth it equals hit;
    - map, mrr, ndcg and hit: as above, with the same labels from the highest as the ideal ranking.

    The paper defines p and hit for labels between 0 and 1; ndcg of such labels, with the label as the
    gain, is an extension of this package.

    Args:
        name: one of `LABEL_MEASURES`.
        labels: by query, the label of each retrieved passage by its name. True and False are 1 and 0.
        k: the cut-off, at least 1. None is the whole ranking: p then divides by the number of passages.
        graded: whether labels may lie between 0 and 1.

    Returns:
        One score in [0, 1] a query; their mean is eRAG. A query whose ranking is empty, or holds no label above 0,
        scores 0.

    Raises:
        InputError: a label is outside [0, 1] or not a number; it lies between 0 and 1 and `graded` is not given; or
            the measure needs binary labels and it is.

    >>> usefulness("map", {"q1": {"a": 1, "b": 0, "c": 1}, "q2": {}}, 3).tolist()
    [0.8333333333333333, 0.0]
    """
    if graded and name in NEED_BINARY:
        raise InputError(
            f"eRAG's {name} is defined for labels of 0 and 1 only, and these are graded.\n{REMEDY}"
        )
    sizes = np.array([len(row) for row in labels.values()], dtype=int)
    flat = np.array([label for row in labels.values() for label in row.values()], dtype=float)
    _refuse(labels, ~((flat >= 0) & (flat <= 1)), "; it must lie between 0 and 1.")  # NaN too
    if not graded:
        why = f", and labels are expected to be 0 or 1.\n{REMEDY}"
        _refuse(labels, (flat > 0) & (flat < 1), why)

    # At least k columns: the width decides in which order numpy adds, and other queries must not.
    depth = int(sizes.max(initial=k or 1))
    table = np.zeros((len(sizes), depth))
    table[np.arange(depth) < sizes[:, None]] = flat
    ideal = -np.sort(-table, axis=1)
    # Where nothing is useful all measures are 0; only the divisor must not be.
    ideal[ideal[:, 0] == 0, 0] = 1
    scores: Scores = LABEL_MEASURES[name](table, ideal, depth if k is None else k)
    return scores * depth / np.maximum(sizes, 1) if name == "p" and k is None else scores


def _refuse(labels: Mapping[str, Mapping[str, float]], wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        every = [(query, passage, label) for query, row in labels.items() for passage, label in row.items()]
        query, passage, label = every[wrong.argmax()]
        raise InputError(f"query {query!r}: the label of passage {passage!r} is {label!r}{why}")
