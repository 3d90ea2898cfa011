"""Cut a folded text into words, numbers and marks.

A lexeme is the smallest piece that the readers of figures and words look at.
A number keeps its written form without thousands separators; a numeric date,
a clock time and a simple fraction stay whole, because their separators mean
something else between words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_rageval.answers.canonical.word_lists import listed

__all__ = ["Lexeme", "lexemes", "text_at"]

# Scripts written without spaces: each character stands for itself, otherwise
# a name inside a sentence could never be found.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTER = f"(?:[a-z]|(?![{_UNSPACED}])[^\\x00-\\x7f])"
_LEXEME = re.compile(
    rf"""
      (?P<date>(?:\d{{4}}(?P<s>[-/.])\d{{1,2}}(?P=s)\d{{1,2}}|\d{{1,2}}(?P<t>[-/.])\d{{1,2}}(?P=t)\d{{4}})(?!\d))
    | (?P<clock>\d{{1,2}}:\d{{2}}(?!\d))
    | (?P<fraction>\d+/\d+(?![\d/]))
    | (?P<number>\d{{1,3}}(?:[,']\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)
    | (?P<word>{_LETTER}+(?:'{_LETTER}+)*(?:\d[\da-z]*)?(?:\+\+|\#)?)
    | (?P<glyph>[{_UNSPACED}])
    | (?P<mark>[^\s])
    """,
    re.VERBOSE,
)

# Longer rows of digits are codes, not amounts; Python refuses to read the longest.
_LONGEST_NUMBER = 40
_ABBREVIATED = listed(
    "dr mr mrs ms st mt jr sr prof gen col capt lt sgt rev hon gov sen rep pres messrs "
    "jan feb mar apr jun jul aug sep sept oct nov dec am pm a p ft approx ca c no vol"
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One piece of a text.

    `kind` is "word", "glyph", "number", "fraction", "date", "clock" or
    "mark"; `glued` says that nothing, not even a space, stands before it.
    """

    text: str
    kind: str
    glued: bool = False


def _words(text: str, *, glued: bool) -> list[Lexeme]:
    """Split a contraction into its parts and drop the possessive ending."""
    if "'" not in text:
        return [Lexeme(text, "word", glued)]
    if text in {"can't", "won't", "shan't"}:
        return [
            Lexeme({"can't": "can", "won't": "will", "shan't": "shall"}[text], "word", glued),
            Lexeme("not", "word"),
        ]
    if text.endswith("n't"):
        return [Lexeme(text[:-3], "word", glued), Lexeme("not", "word")]
    bare = re.sub(r"'(?:s|re|ll|ve|d|m)$", "", text)
    return [Lexeme(bare.replace("'", ""), "word", glued)]


def lexemes(folded: str) -> list[Lexeme]:
    """Cut a folded text into lexemes, in order.

    The full stop of an abbreviation or an initial is dropped, so that only
    sentence ends remain as marks.

    >>> [piece.text for piece in lexemes("dr. smith's 1,200 cats, 9:30")]
    ['dr', 'smith', '1200', 'cats', ',', '9:30']
    >>> [piece.text for piece in lexemes("doesn't")], [piece.kind for piece in lexemes("東京")]
    (['does', 'not'], ['glyph', 'glyph'])
    """
    pieces: list[Lexeme] = []
    end = -1
    for found in _LEXEME.finditer(folded):
        kind, text = found.lastgroup or "mark", found.group()
        glued = found.start() == end
        end = found.end()
        if kind == "word":
            pieces.extend(_words(text, glued=glued))
            continue
        if (
            text == "."
            and glued
            and pieces
            and (len(pieces[-1].text) == 1 or pieces[-1].text in _ABBREVIATED)
        ):
            continue
        if text == "%":
            kind, text = "word", "percent"
        elif text == "&":
            kind, text = "word", "and"
        elif kind == "number":
            text = text.replace(",", "").replace("'", "")
        if kind in {"number", "fraction"} and len(text) > _LONGEST_NUMBER:
            kind = "word"
        pieces.append(Lexeme(text, kind, glued))
    return pieces


def text_at(pieces: Sequence[Lexeme], at: int) -> str:
    """Give the text of a lexeme, or nothing beyond either end."""
    return pieces[at].text if 0 <= at < len(pieces) else ""
