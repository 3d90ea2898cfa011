"""Cosine similarity and BERTScore of an answer and its references.

The score is that of the best reference; it is 0.0 if there are no references, and for blank texts. Text beyond the
encoder's length limit is ignored. Scores are rounded to five decimals: the seventh depends on which texts are encoded
together.

The default encoder is the offline model of the extra `dense`. InputError is raised if the extra is not installed or the
model cannot be loaded. Scores and thresholds of different encoders are not comparable. The default model is for
English: it splits words of other languages into fragments, or does not know them, and may then give unrelated texts
similar embeddings.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from pytest_rageval.extensions.embeddings.encoder import Encoder, Tokens, Vectors, shared_encoder

DECIMALS: Final = 5


class BERTScore(NamedTuple):
    precision: float
    recall: float
    f1: float


def cosine(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Return the cosine of the embeddings of prediction and reference, the best over the references.

    In [0, 1]: 1.0 for equal texts; negative values are clipped to 0.0.

    Source: Reimers and Gurevych (2019), Sentence-BERT.
    """
    encode = (encoder or shared_encoder()).sentences
    (score,) = _best_scores(prediction, references, encode, _compare_sentences, width=1)
    return score


def bertscore_precision(
    prediction: str, references: Sequence[str], *, encoder: Encoder | None = None
) -> float:
    """Return BERTScore's precision: the mean, over the prediction's tokens, of the best cosine in the reference.

    `P = 1/|x̂| Σ_j max_i x_i · x̂_j`, in [0, 1] with negative values clipped. x̂ are the contextual embeddings of the
    prediction's tokens, x those of the reference's, all of length 1, from the encoder's last layer. The model's special
    tokens ([CLS], [SEP]) do not count in the mean, but may be a token's best match, as in the package bert-score. There
    are no weights by document frequency and no rescaling: with most encoders even unrelated texts score well above 0.
    Zhang et al. use roberta-large, layer 17, whose scores are on another scale.

    Raises:
        InputError: also if the encoder has no embeddings of tokens.

    Source: Zhang et al. (2020).
    """
    return bertscore(prediction, references, encoder=encoder).precision


def bertscore_recall(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Return BERTScore's recall: the mean, over the reference's tokens, of the best cosine in the prediction.

    `R = 1/|x| Σ_i max_j x_i · x̂_j`; otherwise as `bertscore_precision`.
    """
    return bertscore(prediction, references, encoder=encoder).recall


def bertscore_f1(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> float:
    """Return BERTScore's F1: `2PR / (P + R)`, 0 if both are 0; otherwise as `bertscore_precision`."""
    return bertscore(prediction, references, encoder=encoder).f1


def bertscore(prediction: str, references: Sequence[str], *, encoder: Encoder | None = None) -> BERTScore:
    """Return precision, recall and F1, each of the reference for which it is highest, as in the package bert-score.

    Because the best references may differ, F1 need not be the harmonic mean of the other two.
    """
    encode = (encoder or shared_encoder()).tokens
    return BERTScore(*_best_scores(prediction, references, encode, _compare_tokens, width=3))


_Embedding = TypeVar("_Embedding")


def _best_scores(
    prediction: str,
    references: Sequence[str],
    encode: Callable[[Sequence[str]], list[_Embedding]],
    compare: Callable[[_Embedding, _Embedding], Sequence[float]],
    *,
    width: int,
) -> list[float]:
    """Return the `width` scores of `compare`, each the best over the references; 0.0 if no text is to be compared."""
    compared = [reference for reference in references if prediction.strip() and reference.strip()]
    if not compared:
        return [0.0] * width
    texts = list(dict.fromkeys([prediction, *compared]))
    embeddings = dict(zip(texts, encode(texts), strict=True))
    scores = [compare(embeddings[prediction], embeddings[reference]) for reference in compared]
    best: list[float] = np.max(scores, axis=0).clip(0.0, 1.0).round(DECIMALS).tolist()
    return best


def _compare_sentences(prediction: Vectors, reference: Vectors) -> Sequence[float]:
    return [float(prediction.astype(np.float64) @ reference)]


def _compare_tokens(prediction: Tokens, reference: Tokens) -> Sequence[float]:
    """Return precision, recall and F1 by the greedy matching of Zhang et al."""
    if not (prediction.counted.any() and reference.counted.any()):
        return [0.0, 0.0, 0.0]
    similarities = prediction.vectors @ reference.vectors.T
    p = max(0.0, float(similarities.max(axis=1)[prediction.counted].mean(dtype=np.float64)))
    r = max(0.0, float(similarities.max(axis=0)[reference.counted].mean(dtype=np.float64)))
    return [p, r, 2 * p * r / (p + r) if p + r else 0.0]
