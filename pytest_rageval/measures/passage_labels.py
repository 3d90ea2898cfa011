"""eRAG: which retrieved passages helped this generator, scored as a ranking.

The label of a passage is the downstream score, in [0, 1], of the answer that the generator gives with that passage
alone. Only retrieved passages have a label, so recall, MAP and nDCG are relative to these.

Source: Salemi and Zamani (2024), "Evaluating Retrieval Quality in Retrieval-Augmented Generation".
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from pytest_rageval.errors import InputError
from pytest_rageval.measures.ranking import Scores, hit, map_, mrr, ndcg, precision, recall

__all__ = ["MEASURES", "NEED_BINARY", "usefulness"]

MEASURES: Final = {"p": precision, "recall": recall, "map": map_, "mrr": mrr, "ndcg": ndcg, "hit": hit}
"""By the name users type. The definitions are those of `measures.ranking`."""

NEED_BINARY: Final = frozenset({"recall", "map", "mrr"})
"""Measures that are defined for labels of 0 and 1 only."""

REMEDY: Final = (
    'Say from where on a label counts as 1, as in label="judge>=0.5" or "f1>=0.5", or use p, hit or ndcg.'
)
"""For users, who name a score; callers of the function pass `graded`."""


def usefulness(
    name: str,
    labels: Mapping[str, Mapping[str, float]],
    k: int | None,
    *,
    graded: bool = False,
) -> Scores:
    """Score rankings by the labels of their passages.

    With labels l_1 … l_n in rank order:

    - p: `Σ_{i≤k} l_i / k`, the mean label of the top k, also where fewer came back;
    - hit: `max_{i≤k} l_i`, the highest label of the top k;
    - recall: `Σ_{i≤k} l_i / Σ_i l_i`; at full depth it equals hit;
    - map: `Σ_{i≤k} l_i · P@i / Σ_i l_i`;
    - mrr: one over the rank of the first useful passage of the top k;
    - ndcg: `DCG@k / DCG@k` of the same labels from the highest, `DCG@k = Σ_{i≤k} l_i / log2(i + 1)`.

    The paper defines p and hit for labels between 0 and 1; ndcg of such labels, with the label as the
    gain, is an extension of this package.

    Args:
        name: one of `MEASURES`.
        labels: by query, the label of each retrieved passage by its name, in rank order, each passage once. `True`
            and `False` are 1 and 0.
        k: the cut-off, at least 1. None is the whole ranking: p then divides by the number of passages.
        graded: whether labels may lie between 0 and 1.

    Returns:
        One score in [0, 1] a query, in the order of `labels`; their mean is eRAG. A query whose ranking is empty, or
        holds no label above 0, scores 0.

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
    _check_labels(labels, flat, any_share=graded)

    depth = int(sizes.max(initial=1))
    table = np.zeros((len(sizes), depth))
    table[np.arange(depth) < sizes[:, None]] = flat
    ideal = -np.sort(-table, axis=1)
    # Where nothing is useful all measures are 0; only the divisor must not be.
    ideal[ideal[:, 0] == 0, 0] = 1
    scores: Scores = MEASURES[name](table, ideal, depth if k is None else k)
    return scores * depth / np.maximum(sizes, 1) if name == "p" and k is None else scores


def _check_labels(labels: Mapping[str, Mapping[str, float]], flat: Scores, *, any_share: bool) -> None:
    outside = ~((flat >= 0) & (flat <= 1))  # true for NaN too
    if outside.any():
        raise InputError(f"{_which(labels, int(outside.argmax()))}; it must lie between 0 and 1.")
    between = (flat > 0) & (flat < 1)
    if between.any() and not any_share:
        raise InputError(
            f"{_which(labels, int(between.argmax()))}, and labels are expected to be 0 or 1.\n{REMEDY}"
        )


def _which(labels: Mapping[str, Mapping[str, float]], position: int) -> str:
    """A description of the label at a position in all labels."""
    every = [(query, passage, label) for query, row in labels.items() for passage, label in row.items()]
    query, passage, label = every[position]
    return f"query {query!r}: the label of passage {passage!r} is {label!r}"
