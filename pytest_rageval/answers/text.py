"""Exact match and token F1 of short answers, as SQuAD defines them."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

__all__ = ["exact_match", "normalize", "token_f1"]

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")


@lru_cache(maxsize=1 << 16)
def normalize(answer: str) -> str:
    """An answer in SQuAD's normal form: lower case, no ASCII punctuation, no articles, single spaces.

    An answer of nothing else ("The", "?!") keeps its lower-case form, so that
    it does not equal every other such answer.

    Source: Rajpurkar et al. (2016), the official evaluation script's normalisation.

    >>> normalize("The  Beatles!")
    'beatles'
    """
    lowered = answer.lower()
    bare = " ".join(_ARTICLES.sub(" ", lowered.translate(_PUNCTUATION)).split())
    return bare or " ".join(lowered.split())


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the prediction equals one of the references in normal form, else 0.0.

    Args:
        prediction: an answer.
        references: one or more alternatives.

    >>> exact_match("the Beatles", ["Beatles", "The Fab Four"])
    1.0
    """
    return float(any(normalize(prediction) == normalize(reference) for reference in references))


def token_f1(prediction: str, references: Sequence[str]) -> float:
    """F1 of the tokens that prediction and reference share, the best over the references.

    Tokens are those of the normal form between spaces, as multisets: a token
    counts as often as both have it. `2PR / (P + R)` with `P = shared / |prediction|`
    and `R = shared / |reference|`; 0 where nothing is shared.

    Args:
        prediction: an answer.
        references: one or more alternatives.

    Returns:
        A number in [0, 1]; 0.0 without references.

    Source: Rajpurkar et al. (2016).

    >>> token_f1("eleven minutes", ["about eleven minutes"])
    0.8
    """
    return max((_f1(prediction, reference) for reference in references), default=0.0)


def _f1(prediction: str, reference: str) -> float:
    ours, theirs = normalize(prediction).split(), normalize(reference).split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0
