"""Ranking measures: one definition for every kind of label, computed for all queries at once.

`usefulness` computes eRAG: which retrieved passages helped this generator. The label of a passage is the downstream
score of the answer that the generator gives from that passage alone. Only retrieved passages have a label, so recall,
MAP and nDCG are relative to the retrieved passages.

Inputs, for n queries:

- `labels`: array n × depth of numbers ≥ 0: the label of each retrieved document in rank order, padded with 0;
- `ideal`: array n × m: the labels of all relevant documents, highest first, padded with 0; every row has at least one
  number above 0;
- `k`: the cut-off, an integer ≥ 1.

Output: array of n scores in [0, 1]. Aggregate over queries with the mean.

In measures of binary relevance, a document of label l counts as `min(l, 1)`: integer grades above 1 are simply
relevant, as in trec_eval. An empty ranking scores 0. P@k divides by k even if the ranking is shorter.

Source: trec_eval 9.0.8 (NIST), whose values these equal on integer labels; Salemi and Zamani (2024), "Evaluating
Retrieval Quality in Retrieval-Augmented Generation".
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.core.errors import InputError
from pytest_rageval.scores.measures.gold_measures import discount

Labels = NDArray[np.float64]
Scores = NDArray[np.float64]


def precision(labels: Labels, ideal: Labels, k: int) -> Scores:  # noqa: ARG001 - one signature for all
    """P@k: the share of relevant documents among the first k, `Σ_{i≤k} l_i / k`."""
    score: Scores = _relevance(labels, k).sum(axis=1) / k
    return score


def recall(labels: Labels, ideal: Labels, k: int) -> Scores:
    """R@k: the share of the relevant documents that the first k hold, `Σ_{i≤k} l_i / Σ ideal`."""
    # Fractional labels and their ideal order are summed in different orders, so the sums may differ in the last bit.
    score: Scores = np.minimum(_relevance(labels, k).sum(axis=1) / _total_relevance(ideal), 1.0)
    return score


def f1(labels: Labels, ideal: Labels, k: int) -> Scores:
    """F1@k: the harmonic mean of P@k and R@k; 0 if both are 0."""
    p, r = precision(labels, ideal, k), recall(labels, ideal, k)
    return np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)


def map_(labels: Labels, ideal: Labels, k: int) -> Scores:
    """AP@k: the mean, over all relevant documents, of the precision at the document's rank.

    `Σ_{i≤k} l_i · P@i / Σ ideal`: a relevant document that is not among the first k adds 0. The mean of AP@k over
    queries is MAP.
    """
    relevance = _relevance(labels, k)
    ranks = np.arange(1, relevance.shape[1] + 1)
    score: Scores = (relevance * relevance.cumsum(axis=1) / ranks).sum(axis=1) / _total_relevance(ideal)
    return score


def mrr(labels: Labels, ideal: Labels, k: int) -> Scores:  # noqa: ARG001
    """RR@k: one over the rank of the first relevant document; 0 if none of the first k is relevant."""
    relevant = labels[:, :k] > 0
    if not relevant.shape[1]:
        return np.zeros(len(labels))
    return np.where(relevant.any(axis=1), 1 / (relevant.argmax(axis=1) + 1.0), 0.0)


def ndcg(labels: Labels, ideal: Labels, k: int) -> Scores:
    """NDCG@k: `DCG@k / ideal DCG@k` with `DCG@k = Σ_{i≤k} l_i / log2(i + 1)`.

    The gain is the label itself, not 2^label - 1.

    Source: Järvelin and Kekäläinen (2002), with the logarithm's base 2 for all ranks.
    """
    return _dcg(labels, k) / _dcg(ideal, k)


def hit(labels: Labels, ideal: Labels, k: int) -> Scores:  # noqa: ARG001
    """Hit@k: the highest label among the first k; with binary labels, 1 if any of the first k is relevant."""
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
"""The measures by the name that users write."""

LABEL_MEASURES: Final = {"p": precision} | {
    name: MEASURES[name] for name in ("recall", "map", "mrr", "ndcg", "hit")
}
"""The measures over labels of retrieved passages, by the name that users write."""


def _relevance(labels: Labels, k: int) -> Labels:
    return np.minimum(labels[:, :k], 1.0)


def _total_relevance(ideal: Labels) -> Scores:
    total: Scores = np.minimum(ideal, 1.0).sum(axis=1)
    return total


def _dcg(labels: Labels, k: int) -> Scores:
    top = labels[:, :k]
    gain: Scores = (top / [discount(position) for position in range(top.shape[1])]).sum(axis=1)
    return gain


BINARY_ONLY_MEASURES: Final = frozenset({"recall", "map", "mrr"})
"""The measures over labels of retrieved passages that are defined for labels of 0 and 1 only."""

GRADED_LABELS_REMEDY: Final = (
    'Say from where on a label counts as 1, as in label="judge>=0.5" or "f1>=0.5", or use p, hit or ndcg.'
)
"""The advice for users of a score; a caller of `usefulness` can pass `graded` instead."""


def usefulness(
    name: str, labels: Mapping[str, Mapping[str, float]], k: int | None, *, graded: bool = False
) -> Scores:
    """Score rankings by the labels l_1 … l_n of their passages, in rank order.

    - p: `Σ_{i≤k} l_i / k`, the mean label of the first k. It divides by k even if fewer passages were retrieved.
    - recall: `Σ_{i≤k} l_i / Σ_i l_i`. At full depth it equals hit.
    - map, mrr, ndcg and hit: as defined above. The ideal ranking has the same labels in descending order.

    The paper defines p and hit for labels between 0 and 1. ndcg of such labels, with the label as the gain, is an
    extension of this package.

    Args:
        name: one of `LABEL_MEASURES`.
        labels: by query, the label of each retrieved passage by the passage's name. True and False are 1 and 0.
        k: the cut-off, at least 1. None: the whole ranking counts, and p divides by the number of passages.
        graded: whether labels may lie between 0 and 1.

    Returns:
        One score in [0, 1] per query; the mean of the scores is eRAG. A query whose ranking is empty, or has no label
        above 0, scores 0.

    Raises:
        InputError: a label is outside [0, 1] or not a number; a label lies between 0 and 1 and `graded` is False; or
            `graded` is True and the measure needs binary labels.

    >>> usefulness("map", {"q1": {"a": 1, "b": 0, "c": 1}, "q2": {}}, 3).tolist()
    [0.8333333333333333, 0.0]
    """
    if graded and name in BINARY_ONLY_MEASURES:
        raise InputError(
            f"eRAG's {name} is defined for labels of 0 and 1 only, and these are graded.\n{GRADED_LABELS_REMEDY}"
        )
    sizes = np.array([len(by_passage) for by_passage in labels.values()], dtype=int)
    flat = np.array([label for by_passage in labels.values() for label in by_passage.values()], dtype=float)
    # The comparisons are negated so that NaN is invalid too.
    _check_labels(labels, ~((flat >= 0) & (flat <= 1)), "; it must lie between 0 and 1.")
    if not graded:
        reason = f", and labels are expected to be 0 or 1.\n{GRADED_LABELS_REMEDY}"
        _check_labels(labels, (flat > 0) & (flat < 1), reason)

    # The number of columns determines the order in which numpy adds. It is at least k, so that the score of a query
    # does not depend on the other queries.
    depth = int(sizes.max(initial=k or 1))
    table = np.zeros((len(sizes), depth))
    table[np.arange(depth) < sizes[:, None]] = flat
    ideal = -np.sort(-table, axis=1)
    # A query without useful passages scores 0 in all measures; the 1 only avoids a division by 0.
    ideal[ideal[:, 0] == 0, 0] = 1
    scores: Scores = LABEL_MEASURES[name](table, ideal, depth if k is None else k)
    return scores * depth / np.maximum(sizes, 1) if name == "p" and k is None else scores


def _check_labels(labels: Mapping[str, Mapping[str, float]], invalid: NDArray[np.bool_], reason: str) -> None:
    """Raise InputError for the first invalid label; `invalid` has one item per label, in the order of `labels`."""
    if invalid.any():
        flat = [
            (query, passage, label)
            for query, by_passage in labels.items()
            for passage, label in by_passage.items()
        ]
        query, passage, label = flat[invalid.argmax()]
        raise InputError(f"query {query!r}: the label of passage {passage!r} is {label!r}{reason}")
