"""Exact match, token F1 and containment of short answers: as SQuAD defines them, in any script."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pytest_rageval.text.scripts import fold, has_unspaced, set_apart, tighten

__all__ = ["containment", "exact_match", "normalize", "token_f1"]

_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_ASCII: Final = str.maketrans("", "", string.punctuation)

# Letters, an accent and a sign that are typed for an apostrophe or a hyphen.
_TYPED_FOR_PUNCTUATION: Final = frozenset("\u02bb\u02bc\u00b4\u2212")
# They stand between words or syllables, as a space does: Tibetan, Ethiopic.
_WORD_SPACES: Final = frozenset("\u0f0b\u0f0c\u1361")
_VARIATION_SELECTORS: Final = range(0xFE00, 0xFE10)

# SQuAD counts these where they stand as below; elsewhere they go like other punctuation.
_DASHES: Final = "\u2013\u2014\u2015"
_OPENING, _CLOSING = "\u2018\u2019"
_NOT_BETWEEN_WORDS: Final = re.compile(rf"(?<!\S\s)[{_DASHES}]|[{_DASHES}](?!\s\S)")
_WITHIN_A_WORD: Final = re.compile(rf"(?<=\w)[{_OPENING}{_CLOSING}](?=\w)")


class _Beyond(dict[int, str]):
    """A translation table that drops punctuation outside ASCII, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character, category = chr(code), unicodedata.category(chr(code))
        if character in _WORD_SPACES:
            kept = " "
        elif character in _DASHES or character in {_OPENING, _CLOSING}:
            kept = character
        elif (
            category[0] == "P"
            or category == "Cf"  # invisible signs that steer the layout
            or character in _TYPED_FOR_PUNCTUATION
            or code in _VARIATION_SELECTORS
        ):
            kept = ""
        else:
            kept = character
        self[code] = kept
        return kept


_BEYOND_ASCII: Final = _Beyond()


@lru_cache(maxsize=1 << 16)
def normalize(answer: str) -> str:
    """An answer in SQuAD's normal form: one case, no punctuation, no English articles, single spaces.

    ASCII text comes out as from SQuAD's script. SQuAD leaves all other
    characters as they are; here also

    - case is folded, and full-width forms, ligatures and decimal digits of
      every script become the plain ones (see `scripts.fold`);
    - punctuation of every script is dropped («», „“, 。、, ¿¡, …), and so are
      invisible signs; currency and mathematical signs stay;
    - spaces beside characters of scripts without spaces between words are
      dropped, since Chinese, Japanese and Thai texts set them or not.

    Where that would change SQuAD's published scores, SQuAD wins, in two points:
    a dash between two spaces (word – word) stays a token, and single quotation
    marks around words (‘word’) stay, while the apostrophe (it’s) goes as in
    ASCII. Double ones go.

    An answer of nothing but articles and punctuation ("The", "?!") keeps its
    folded form, so that it does not equal every other such answer.

    Source: Rajpurkar et al. (2016), the official evaluation script's normalisation.

    >>> normalize("The  Beatles!"), normalize("«Ｂｅｙｏｎｃé»"), normalize("東京 。")
    ('beatles', 'beyoncé', '東京')
    """
    folded = fold(answer)
    bare = folded.translate(_ASCII)
    if not bare.isascii():
        bare = _strip_beyond_ascii(bare)
    return tighten(" ".join(_ARTICLES.sub(" ", bare).split()) or " ".join(folded.split()))


def exact_match(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the prediction equals one of the references in normal form, else 0.0.

    Args:
        prediction: an answer.
        references: one or more alternatives.

    Returns:
        0.0 or 1.0; 0.0 without references.

    Source: Rajpurkar et al. (2016).

    >>> exact_match("the Beatles", ["Beatles", "The Fab Four"])
    1.0
    """
    return float(any(normalize(prediction) == normalize(reference) for reference in references))


def token_f1(prediction: str, references: Sequence[str]) -> float:
    """F1 of the tokens that prediction and reference share, the best over the references.

    Tokens are those of the normal form between spaces, as multisets: a token
    counts as often as both have it. `2PR / (P + R)` with `P = shared / |prediction|`
    and `R = shared / |reference|`; 0 where nothing is shared.

    In scripts without spaces between words each character with its marks is a
    token (see `scripts.set_apart`) where both texts have such characters. Where
    only one has, they cannot match, and a run of them counts as one token: so
    does SQuAD, and an English answer that quotes a Chinese name is not held to
    be four wrong words longer.

    Args:
        prediction: an answer.
        references: one or more alternatives.

    Returns:
        A number in [0, 1]; 0.0 without references.

    Source: Rajpurkar et al. (2016).

    >>> token_f1("eleven minutes", ["about eleven minutes"])
    0.8
    >>> token_f1("東京", ["東京都"])
    0.8
    """
    return max((_f1(prediction, reference) for reference in references), default=0.0)


def containment(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the tokens of a reference occur in the prediction side by side, else 0.0.

    Tokens are whole words of the normal form ("art" is not in "party"), and
    single characters in scripts without spaces between words (京 is in 東京).
    What else the prediction says is not looked at, a negation neither.

    Args:
        prediction: an answer, or a passage that may hold it.
        references: one or more alternatives; a blank one is in nothing.

    Returns:
        0.0 or 1.0; 0.0 without references.

    Source: the check "has answer" of open-domain question answering, Chen et al.
    (2017), with SQuAD's normal form.

    >>> containment("It was the Beatles, of course.", ["Fab Four", "Beatles"])
    1.0
    """
    searched = _padded(prediction)
    return float(any(normalize(reference) and _padded(reference) in searched for reference in references))


def _strip_beyond_ascii(text: str) -> str:
    kept = _NOT_BETWEEN_WORDS.sub("", " ".join(text.translate(_BEYOND_ASCII).split()))
    if _OPENING not in kept:
        return kept.replace(_CLOSING, "")
    return _WITHIN_A_WORD.sub("", kept)


def _f1(prediction: str, reference: str) -> float:
    ours, theirs = normalize(prediction), normalize(reference)
    split = has_unspaced(ours) and has_unspaced(theirs)
    own, wanted = (Counter(set_apart(text, by_character=split).split()) for text in (ours, theirs))
    shared = (own & wanted).total()
    return 2 * shared / (own.total() + wanted.total()) if shared else 0.0


def _padded(answer: str) -> str:
    """The tokens with a space around each, so that words are found whole."""
    return f" {' '.join(set_apart(normalize(answer)).split())} "
