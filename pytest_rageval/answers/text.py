"""Exact match, token F1 and containment of short answers: as SQuAD defines them, in any script.

All take `(prediction, references)`: an answer, and one or more alternatives. They return the best score over the
references, and 0.0 without references.

Source: Rajpurkar et al. (2016), SQuAD, the official evaluation script.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pytest_rageval.text.tokenize import CharacterMap, fold, has_unspaced, set_apart, tighten

__all__ = ["containment", "exact_match", "normalize", "token_f1"]


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the prediction equals one of the references in normal form, else 0.0.

    >>> exact_match("the Beatles", ["Beatles", "The Fab Four"])
    1.0
    """
    return float(any(normalize(prediction) == normalize(reference) for reference in references))


def token_f1(prediction: str, references: Sequence[str]) -> float:
    """F1 of the tokens that prediction and reference share, in [0, 1].

    Tokens are what stands between spaces in normal form, as multisets: a token counts as often as both have it. `2PR
    / (P + R)` with `P = shared / |prediction|` and `R = shared / |reference|`; 0 where nothing is shared.

    In scripts without spaces between words each character with its marks is a token (see `set_apart`) where both
    texts have such characters. Where only one has, they cannot match, and a run of them counts as one token, as in
    SQuAD: an English answer that quotes a Chinese name is not four wrong words longer.

    >>> token_f1("eleven minutes", ["about eleven minutes"])
    0.8
    >>> token_f1("東京", ["東京都"])
    0.8
    """
    return max((_f1(prediction, reference) for reference in references), default=0.0)


def containment(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the tokens of a reference occur in the prediction side by side, else 0.0.

    Tokens are whole words of the normal form ("art" is not in "party"), and single characters in scripts without
    spaces between words (京 is in 東京). The prediction may be a passage. What else it says does not count, not even a
    negation. A blank reference occurs nowhere.

    Source: the check "has answer" of open-domain question answering, Chen et al. (2017).

    >>> containment("It was the Beatles, of course.", ["Fab Four", "Beatles"])
    1.0
    """
    searched = _padded(prediction)
    return float(any(normalize(reference) and _padded(reference) in searched for reference in references))


@lru_cache(maxsize=1 << 16)
def normalize(answer: str) -> str:
    """Return an answer in SQuAD's normal form: one case, no punctuation, no English articles, single spaces.

    ASCII text comes out as from SQuAD's script. SQuAD leaves all other characters unchanged; here also

    - case is folded, and full-width forms, ligatures and decimal digits of every script become plain (see `fold`);
    - punctuation of every script («», „“, 。、, ¿¡, …) and invisible signs are dropped; currency and mathematical signs
      stay;
    - spaces beside characters of scripts without spaces between words are dropped, since Chinese, Japanese and Thai
      texts set them or not.

    Where that would change SQuAD's published scores, SQuAD wins, in two points: a dash between two spaces (word –
    word) stays a token, and single quotation marks around words (‘word’) stay, while the apostrophe (it’s) goes as in
    ASCII. Double quotation marks go.

    An answer of nothing but articles and punctuation ("The", "?!") keeps its folded form, so that it does not equal
    every other such answer.

    >>> normalize("The  Beatles!"), normalize("«Ｂｅｙｏｎｃé»"), normalize("東京 。")
    ('beatles', 'beyoncé', '東京')
    """
    folded = fold(answer)
    bare = folded.translate(_ASCII_PUNCTUATION)
    if not bare.isascii():
        bare = _strip_beyond_ascii(bare)
    return tighten(" ".join(_ARTICLES.sub(" ", bare).split()) or " ".join(folded.split()))


def _strip_beyond_ascii(text: str) -> str:
    kept = _NOT_BETWEEN_WORDS.sub("", " ".join(text.translate(_BEYOND_ASCII).split()))
    if _OPENING not in kept:
        return kept.replace(_CLOSING, "")
    return _WITHIN_A_WORD.sub("", kept)


def _without_punctuation(character: str) -> str:
    category = unicodedata.category(character)
    if character in _WORD_SPACES:
        return " "
    if character in _COUNTED_BY_SQUAD:
        return character
    # "Cf" are invisible signs that steer the layout.
    dropped = (
        category[0] == "P"
        or category == "Cf"
        or character in _TYPED_FOR_PUNCTUATION
        or ord(character) in _VARIATION_SELECTORS
    )
    return "" if dropped else character


_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_ASCII_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_BEYOND_ASCII: Final = CharacterMap(_without_punctuation)

# Letters, an accent and a sign that are typed for an apostrophe or a hyphen.
_TYPED_FOR_PUNCTUATION: Final = frozenset("\u02bb\u02bc\u00b4\u2212")
# They stand between words or syllables, as a space does: Tibetan, Ethiopic.
_WORD_SPACES: Final = frozenset("\u0f0b\u0f0c\u1361")
_VARIATION_SELECTORS: Final = range(0xFE00, 0xFE10)

# SQuAD counts these where they stand as below; elsewhere they go like other punctuation.
_DASHES: Final = "\u2013\u2014\u2015"
_OPENING, _CLOSING = "\u2018\u2019"
_COUNTED_BY_SQUAD: Final = frozenset({*_DASHES, _OPENING, _CLOSING})
_NOT_BETWEEN_WORDS: Final = re.compile(rf"(?<!\S\s)[{_DASHES}]|[{_DASHES}](?!\s\S)")
_WITHIN_A_WORD: Final = re.compile(rf"(?<=\w)[{_OPENING}{_CLOSING}](?=\w)")


def _f1(prediction: str, reference: str) -> float:
    texts = normalize(prediction), normalize(reference)
    by_character = all(map(has_unspaced, texts))
    own, wanted = (Counter(set_apart(text, by_character=by_character).split()) for text in texts)
    shared = (own & wanted).total()
    return 2 * shared / (own.total() + wanted.total()) if shared else 0.0


def _padded(answer: str) -> str:
    """The tokens with a space around each, so that words are found whole."""
    return f" {' '.join(set_apart(normalize(answer)).split())} "
