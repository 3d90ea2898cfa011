"""Cosine similarity and BERTScore of an answer and its references.

Each measure comes twice: for one answer, `(prediction, references)`, and for many at once, which is much faster,
since texts are encoded in batches. The best reference counts; without references, and where a text is blank, the
score is 0.0. What exceeds the encoder's length is not seen. Scores are rounded to five decimals: the seventh depends
on which texts are encoded together.

The default encoder is the offline model of the extra `dense`; InputError is raised where it is not installed, or the
model cannot be loaded. Scores and thresholds of different encoders are not comparable. The default reads English:
words of other languages fall into pieces or are unknown to it, and unrelated texts may then look alike.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_rageval.embeddings.encoder import Encoder, Tokens, Vectors, shared_encoder

__all__ = [
    "Pair",
    "bertscore_f1",
    "bertscore_precision",
    "bertscore_recall",
    "bertscore_scores",
    "cosine",
    "cosine_scores",
]

Pair = tuple[str, Sequence[str]]
"""A prediction and its references."""

Scores = NDArray[np.float64]

BLOCK: Final = 256
"""Pairs that are held in memory at a time; embeddings of tokens are large."""
DECIMALS: Final = 5


def cosine(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Cosine of the embeddings of prediction and reference, the best over the references.

    In [0, 1]: 1.0 for equal texts; negative values are clipped to 0.0.

    Source: Reimers and Gurevych (2019), Sentence-BERT.
    """
    return float(cosine_scores([(prediction, references)], encoder=encoder)[0])


def cosine_scores(pairs: Sequence[Pair], *, encoder: Encoder | None = None) -> Scores:
    """Return `cosine` of many pairs, one score a pair, in their order."""
    return _best(pairs, (encoder or shared_encoder()).sentences, _cosine, width=1)[:, 0]


def bertscore_precision(
    prediction: str, references: Sequence[str], *, encoder: Encoder | None = None
) -> float:
    """BERTScore's precision: the mean, over the prediction's tokens, of the best cosine in the reference.

    `P = 1/|x̂| Σ_j max_i x_i · x̂_j`, in [0, 1] with negative values clipped. x̂ are the contextual embeddings of the
    prediction's tokens, x those of the reference's, all of length 1, from the encoder's last layer. A model's own
    signs ([CLS], [SEP]) do not count in the mean, but may be a token's best match, as in the package bert-score. There
    are no weights by document frequency and no rescaling: with most encoders even unrelated texts score well above 0.
    Zhang et al. use roberta-large, layer 17, whose scores are on another scale.

    Raises:
        InputError: also where the encoder has no embeddings of tokens.

    Source: Zhang et al. (2020).
    """
    return float(bertscore_scores([(prediction, references)], encoder=encoder)[0, 0])


def bertscore_recall(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """BERTScore's recall: the mean, over the reference's tokens, of the best cosine in the prediction.

    `R = 1/|x| Σ_i max_j x_i · x̂_j`; otherwise as `bertscore_precision`.
    """
    return float(bertscore_scores([(prediction, references)], encoder=encoder)[0, 1])


def bertscore_f1(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """BERTScore's F1: `2PR / (P + R)`, 0 where both are 0; otherwise as `bertscore_precision`."""
    return float(bertscore_scores([(prediction, references)], encoder=encoder)[0, 2])


def bertscore_scores(pairs: Sequence[Pair], *, encoder: Encoder | None = None) -> Scores:
    """Return precision, recall and F1 of many pairs: an array pairs × 3.

    Of several references each of the three takes its own best, as in the package bert-score; so F1 need not be the
    harmonic mean of the other two.
    """
    return _best(pairs, (encoder or shared_encoder()).tokens, _bertscore, width=3)


_Item = TypeVar("_Item")


def _best(
    pairs: Sequence[Pair],
    encode: Callable[[Sequence[str]], list[_Item]],
    compare: Callable[[_Item, _Item], Sequence[float]],
    *,
    width: int,
) -> Scores:
    """The results of `compare` for each prediction, an array pairs × width, each the best over the references."""
    scores = np.zeros((len(pairs), width))
    for start in range(0, len(pairs), BLOCK):
        compared = [
            (row, prediction, reference)
            for row, (prediction, references) in enumerate(pairs[start : start + BLOCK], start)
            for reference in references
            if prediction.strip() and reference.strip()
        ]
        texts = list(dict.fromkeys(text for _, *both in compared for text in both))
        encoded = dict(zip(texts, encode(texts), strict=True)) if texts else {}
        for row, prediction, reference in compared:
            np.maximum(scores[row], compare(encoded[prediction], encoded[reference]), out=scores[row])
    return np.minimum(scores, 1.0).round(DECIMALS)


def _cosine(prediction: Vectors, reference: Vectors) -> Sequence[float]:
    return [float(prediction.astype(np.float64) @ reference)]


def _bertscore(prediction: Tokens, reference: Tokens) -> Sequence[float]:
    """Zhang et al.'s greedy matching: precision, recall, F1."""
    if not (prediction.counted.any() and reference.counted.any()):
        return [0.0, 0.0, 0.0]
    similar = prediction.vectors @ reference.vectors.T
    p = max(0.0, float(similar.max(axis=1)[prediction.counted].mean(dtype=np.float64)))
    r = max(0.0, float(similar.max(axis=0)[reference.counted].mean(dtype=np.float64)))
    return [p, r, 2 * p * r / (p + r) if p + r else 0.0]
