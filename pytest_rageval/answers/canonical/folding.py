"""Bring a text to one case, one alphabet form and one set of signs.

Folding is the step before any reading: what differs only in case, in the
width or composition of characters, in the shape of quotes and dashes or in
the script of digits comes out equal. Letters and marks of every script are
kept; only Latin and Greek accents are removed, and only by `unaccented`, since
elsewhere a mark is part of the letter (Japanese voicing, Indic vowels).
"""

import re
import unicodedata
from functools import lru_cache

from pytest_rageval.normal_form import normal_form

__all__ = ["expanded", "fold", "unaccented"]

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
_UNDECOMPOSED = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "æ": "ae",
        "œ": "oe",
        "\u0131": "i",
        "ħ": "h",
    }
)
# The spelling of the same letters where a keyboard lacks them.
_EXPANDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})

_SPACED_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_DOLLARS_OF = re.compile(r"\b(?:us|au|ca|nz|hk)(?=\$)")


def _plain(character: str) -> str:
    """Give the folded spelling of one character outside ASCII."""
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character in _CURRENCIES:
        return f" {_CURRENCIES[character]} "
    return character if unicodedata.category(character)[0] in "LMN" else " "


def _spread_fraction(character: str) -> str:
    """Write a one-character fraction such as ½ with a slash, apart from what precedes it."""
    if unicodedata.decomposition(character).startswith("<fraction>"):
        return f" {unicodedata.normalize('NFKC', character).replace(chr(0x2044), '/')} "
    return character


@lru_cache(maxsize=16384)
def fold(text: str) -> str:
    """Fold case, width, composition, digits, quotes and dashes; keep every letter.

    Signs that carry no meaning for an answer become spaces; currency signs and
    the degree sign become words. Blank and sign-only texts fold to punctuation
    or to nothing.

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
