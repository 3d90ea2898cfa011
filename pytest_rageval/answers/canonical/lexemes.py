"""Fold a text to one form of each character, and cut it into words, numbers and marks.

What differs only in case, in the width or composition of characters, in the shape of quotes and dashes or in the
script of digits comes out equal. A number keeps its written form without thousands separators; a numeric date, a
clock time and a simple fraction stay whole.
"""

import re
import unicodedata
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_rageval.text.tokenize import COMMON_UNSPACED, is_word_character, normal_form

__all__ = ["Lexeme", "expanded", "fold", "lexemes", "listed", "numbered", "skip", "text_at", "unaccented"]

_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u02bc\u2032\u0060\u00b4"), "'") | (
    dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"), '"')
)
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212"), "-") | {
    0x2014: " - ",
    0x2015: " - ",
}
_SIGNS = _QUOTES | _HYPHENS | {0x00B0: " degrees ", 0x00D7: " x "}
_CURRENCIES = {"$": "usd", "£": "gbp", "€": "eur", "¥": "jpy", "₹": "inr", "₩": "krw", "₽": "rub"}

# Letters that Unicode does not decompose although readers drop their mark.
_UNDECOMPOSED = str.maketrans("øłđð\u0131ħ", "olddih") | str.maketrans({"þ": "th", "æ": "ae", "œ": "oe"})

# The spelling of the same letters where a keyboard lacks them.
_EXPANDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_SPACED_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_DOLLARS_OF = re.compile(r"\b(?:us|au|ca|nz|hk)(?=\$)")

# In scripts without spaces each character is a lexeme, otherwise a name inside a sentence could never be found.
_UNSPACED = rf"\u3005-\u303f{COMMON_UNSPACED}"
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


def listed(words: str) -> frozenset[str]:
    """Return the words of a text as a set.

    >>> sorted(listed("may march"))
    ['march', 'may']
    """
    return frozenset(words.split())


_ABBREVIATED = listed(
    "dr mr mrs ms st mt jr sr prof gen col capt lt sgt rev hon gov sen rep pres messrs "
    "jan feb mar apr jun jul aug sep sept oct nov dec am pm a p ft approx ca c no vol"
)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """One piece of a text.

    `kind` is "word", "glyph", "number", "fraction", "date", "clock" or "mark"; `glued` says that nothing, not even a
    space, stands before it.
    """

    text: str
    kind: str
    glued: bool = False


def numbered(words: str, start: int) -> dict[str, int]:
    """Number the words of a text, in order.

    >>> numbered("zero one", start=0)
    {'zero': 0, 'one': 1}
    """
    return {word: number for number, word in enumerate(words.split(), start=start)}


@lru_cache(maxsize=16384)
def fold(text: str) -> str:
    """Fold case, width, composition, digits, quotes and dashes; keep every letter.

    Signs that carry no meaning for an answer become spaces; currency signs and the degree sign become words. Blank
    and sign-only texts fold to punctuation or to nothing.

    >>> fold("  \uff23afé\u2019s  £26 ")
    "café's gbp 26"
    >>> fold("東京"), fold("٣")
    ('東京', '3')
    """
    if not text.isascii():
        text = _SPACED_THOUSANDS.sub("", text)
        text = "".join(c if c.isascii() else _spread_fraction(c) for c in text).translate(_SIGNS)
        text = normal_form("NFKC", text).translate(_SIGNS)
        # Characters that only steer the layout would split a word in two.
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = text.casefold()
    if not text.isascii():
        text = normal_form("NFKC", text)
        text = "".join(c if c.isascii() else _plain(c) for c in text)
    if "$" in text:
        text = _DOLLARS_OF.sub("", text).replace("$", " usd ")
    return " ".join(text.split())


def unaccented(word: str) -> str:
    """Remove the accents of Latin and Greek letters from a folded word.

    >>> unaccented("röntgen"), unaccented("łódź"), unaccented("が")
    ('rontgen', 'lodz', 'が')
    """
    if word.isascii():
        return word
    kept: list[str] = []
    base_loses_marks = False
    for character in normal_form("NFD", word.translate(_UNDECOMPOSED)):
        if unicodedata.combining(character):
            if base_loses_marks:
                continue
        else:
            base_loses_marks = character.isascii() or "\u0370" <= character <= "\u03ff"
        kept.append(character)
    return normal_form("NFC", "".join(kept))


def expanded(word: str) -> str:
    """Spell umlauts and ring letters with two letters, then remove other accents.

    >>> expanded("röntgen"), expanded("café")
    ('roentgen', 'cafe')
    """
    return word if word.isascii() else unaccented(word.translate(_EXPANDED))


def lexemes(folded: str) -> list[Lexeme]:
    """Cut a folded text into lexemes, in order.

    The full stop of an abbreviation or an initial is dropped, so that only sentence ends remain as marks.

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
    """Return the text of a lexeme, or nothing beyond either end."""
    return pieces[at].text if 0 <= at < len(pieces) else ""


def skip(pieces: Sequence[Lexeme], at: int, words: Container[str]) -> int:
    """Return the first index from `at` on whose lexeme is none of the words."""
    while text_at(pieces, at) in words:
        at += 1
    return at


def _spread_fraction(character: str) -> str:
    """Write a one-character fraction such as ½ with a slash, apart from what precedes it."""
    if unicodedata.decomposition(character).startswith("<fraction>"):
        return f" {unicodedata.normalize('NFKC', character).replace(chr(0x2044), '/')} "
    return character


def _plain(character: str) -> str:
    """The folded spelling of one character outside ASCII."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character in _CURRENCIES:
        return f" {_CURRENCIES[character]} "
    return character if is_word_character(character) else " "


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
