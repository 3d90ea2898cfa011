"""Ranking measures: one definition for every kind of label; and gold passages that are found by their ids alone.

`usefulness` computes eRAG: which retrieved passages helped this generator. The label of a passage is the downstream
score of the answer that the generator gives from that passage alone. Only retrieved passages have a label, so recall,
MAP and nDCG are relative to the retrieved passages.

In measures of binary relevance, a document of label l counts as `min(l, 1)`: integer grades above 1 are simply
relevant, as in trec_eval. An empty ranking scores 0. P@k divides by k even if the ranking is shorter.

Source: trec_eval 9.0.8 (NIST), whose values these equal on integer labels; Salemi and Zamani (2024), "Evaluating
Retrieval Quality in Retrieval-Augmented Generation".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import fsum, log2
from typing import Final, NamedTuple, Self, cast

from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.lib.foreign_values import id_keys

Labels = tuple[tuple[int, float], ...]
"""Positions in a ranking, from 0 and ascending, each with its label above 0."""


class Labelled(NamedTuple):
    """A ranking with the labels of its documents. Most have few, so only those above 0 are stored.

    `ideal` has the labels of all relevant documents, highest first; at least one. `cutoff` is the number of positions
    that count, at least 1, and `size` the number of retrieved documents.
    """

    found: Labels
    ideal: tuple[float, ...]
    cutoff: int
    size: int

    @classmethod
    def of(cls, labels: Iterable[float], ideal: Iterable[float], cutoff: int) -> Self:
        """Return a ranking from the labels of all its documents, and those of an ideal ranking; both may have zeros."""
        retrieved = list(labels)
        found = tuple([(position, label) for position, label in enumerate(retrieved) if label])
        return cls(found, tuple([label for label in ideal if label]), cutoff, len(retrieved))

    @property
    def top(self) -> Labels:
        return tuple([item for item in self.found if item[0] < self.cutoff])


def precision(ranking: Labelled) -> float:
    """P@k: the share of relevant documents among the first k, `Σ_{i≤k} l_i / k`."""
    return _relevance(label for _, label in ranking.top) / ranking.cutoff


def recall(ranking: Labelled) -> float:
    """R@k: the share of the relevant documents that the first k hold, `Σ_{i≤k} l_i / Σ ideal`."""
    return _relevance(label for _, label in ranking.top) / _relevance(ranking.ideal)


def f1(ranking: Labelled) -> float:
    """F1@k: the harmonic mean of P@k and R@k; 0 if both are 0."""
    p, r = precision(ranking), recall(ranking)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def map_(ranking: Labelled) -> float:
    """AP@k: the mean, over all relevant documents, of the precision at the document's rank.

    `Σ_{i≤k} l_i · P@i / Σ ideal`: a relevant document that is not among the first k adds 0. The mean of AP@k over
    queries is MAP.
    """
    terms, before = [], 0.0
    for position, label in ranking.top:
        relevance = min(label, 1.0)
        before += relevance
        terms.append(relevance * before / (position + 1))
    return min(fsum(terms) / _relevance(ranking.ideal), 1.0)


def mrr(ranking: Labelled) -> float:
    """RR@k: one over the rank of the first relevant document; 0 if none of the first k is relevant."""
    return 1 / (ranking.top[0][0] + 1) if ranking.top else 0.0


def ndcg(ranking: Labelled) -> float:
    """NDCG@k: `DCG@k / ideal DCG@k` with `DCG@k = Σ_{i≤k} l_i / log2(i + 1)`.

    The gain is the label itself, not 2^label - 1.

    Source: Järvelin and Kekäläinen (2002), with the logarithm's base 2 for all ranks.
    """
    return _dcg(ranking.top) / _dcg(enumerate(ranking.ideal[: ranking.cutoff]))


def ndcg_exp(ranking: Labelled) -> float:
    """NDCG@k with the gain 2^l - 1 of whole grades (Burges et al., 2005), which rewards high grades more."""
    found = tuple([(position, 2**label - 1) for position, label in ranking.found])
    return ndcg(ranking._replace(found=found, ideal=tuple([2**label - 1 for label in ranking.ideal])))


def dcg(ranking: Labelled) -> float:
    """DCG@k, without a highest value."""
    return _dcg(ranking.top)


def r_precision(ranking: Labelled) -> float:
    """The precision of the first R documents, where R is the number of relevant ones; of these the first k count."""
    wanted = len(ranking.ideal)
    return _relevance(label for position, label in ranking.top if position < wanted) / wanted


def set_precision(ranking: Labelled) -> float:
    """The share of relevant documents among the retrieved ones, at most k; 0 if there are none."""
    size = min(ranking.size, ranking.cutoff)
    return precision(ranking) * ranking.cutoff / size if size else 0.0


def set_f1(ranking: Labelled) -> float:
    """The harmonic mean of `set_precision` and `recall`; 0 if both are 0."""
    p, r = set_precision(ranking), recall(ranking)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def hit(ranking: Labelled) -> float:
    """Hit@k: the highest label among the first k; with binary labels, 1 if any of the first k is relevant."""
    return float(max((min(label, 1.0) for _, label in ranking.top), default=0.0))


MEASURES: Final[Mapping[str, Callable[[Labelled], float]]] = {
    "recall": recall,
    "precision": precision,
    "f1": f1,
    "map": map_,
    "mrr": mrr,
    "ndcg": ndcg,
    "hit": hit,
    "ndcg.exp": ndcg_exp,
    "dcg": dcg,
    "r_precision": r_precision,
    "set.precision": set_precision,
    "set.f1": set_f1,
}
"""The measures by the name that users write."""

LABEL_MEASURES: Final = {"p": precision} | {
    name: MEASURES[name] for name in ("recall", "map", "mrr", "ndcg", "hit")
}
"""The measures over labels of retrieved passages, by the name that users write."""


def compute_measure(name: str, rankings: Sequence[Labelled]) -> list[float]:
    """Return the value of a measure for each ranking. It is computed once for equal rankings, which are frequent."""
    values = {ranking: MEASURES[name](ranking) for ranking in set(rankings)}
    return [values[ranking] for ranking in rankings]


def _relevance(labels: Iterable[float]) -> float:
    return fsum([min(label, 1.0) for label in labels])


def _dcg(labels: Iterable[tuple[int, float]]) -> float:
    return fsum([label / discount(position) for position, label in labels])


@cache
def discount(position: int) -> float:
    return log2(position + 2)


def usefulness(name: str, labels: Sequence[float], k: int | None) -> float:
    """Score a ranking by the labels l_1 … l_n of its passages, in [0, 1] and in rank order; the result is in [0, 1].

    - p: `Σ_{i≤k} l_i / k`, the mean label of the first k. It divides by k even if fewer passages were retrieved.
    - recall: `Σ_{i≤k} l_i / Σ_i l_i`. At full depth it equals hit.
    - map, mrr, ndcg and hit: as defined above. The ideal ranking has the same labels in descending order.

    Without a cut-off k the whole ranking counts, and p divides by the number of passages. A ranking that is empty, or
    has no label above 0, scores 0. The paper defines p and hit for labels between 0 and 1. ndcg of such labels, with
    the label as the gain, is an extension of this package.

    >>> usefulness("map", [1, 0, 1], 3), usefulness("map", [], 3)
    (0.8333333333333333, 0.0)
    """
    if not any(labels):
        return 0.0
    return LABEL_MEASURES[name](Labelled.of(labels, sorted(labels, reverse=True), k or len(labels)))


def ideal_labels(gold: Sequence[Gold]) -> list[int]:
    """Return the grades above 0, highest first: the labels of an ideal ranking."""
    return sorted([passage.grade for passage in gold if passage.grade > 0], reverse=True)


def match_by_id(ranking: Ranking, gold: Sequence[Gold]) -> tuple[tuple[int, int], ...] | None:
    """Return the positions in the ranking of relevant gold passages, with their grades above 0.

    None if ids alone do not decide, see `deciding_keys`.
    """
    keys = deciding_keys(ranking, gold)
    if keys is None:
        return None
    grades = dict(zip(keys.of_gold, [passage.grade for passage in gold], strict=True))
    ranked = enumerate(keys.of_ranking)
    return tuple(
        [(position, grade) for position, key in ranked if key in grades and (grade := grades.pop(key))]
    )


class _Keys(NamedTuple):
    of_ranking: Sequence[str]
    of_gold: Sequence[str]


def deciding_keys(ranking: Ranking, gold: Sequence[Gold]) -> _Keys | None:
    """Return the `id_key` of each document and of each passage.

    None if ids alone do not decide: a document or a passage has no id, a document has the id of a chunk, a passage has
    a span, or two passages have the same id.
    """
    if ranking.has_chunk_ids:
        return None
    ids = ranking.ids
    gold_ids = [each.id for each in gold if each.source is None and each.id is not None]
    if None in ids or len(gold_ids) < len(gold):
        return None
    gold_keys = id_keys(gold_ids)
    if len(set(gold_keys)) < len(gold):
        return None
    return _Keys(id_keys(cast("Sequence[str]", ids)), gold_keys)


class GoldRules(NamedTuple):
    """How rankings are compared with gold passages.

    `grade` is the lowest grade of a relevant passage. With `judged_only` only documents count that are gold passages of
    any grade.
    """

    k: int
    grade: int
    judged_only: bool


class GoldMatches(NamedTuple):
    """The rankings of all examples compared with their gold passages, for all measures by the same rules.

    The value of an outcome is that of the measure that was computed last, or None if the example is unscored.
    `gold_ranks` has the ranks of the gold passages for each outcome with a value.
    """

    examples: Sequence[Example]
    rules: GoldRules
    outcomes: Sequence[Outcome]
    gold_ranks: Sequence[Labelled]
