"""Characters and words in any script: normal forms, and spaces for scripts that write words without them."""

import re
import unicodedata
from collections.abc import Callable
from typing import Final, Literal

from pytest_rageval.lazy import lazy_pattern

__all__ = [
    "COMMON_UNSPACED",
    "CharacterMap",
    "fold",
    "has_unspaced",
    "is_word_character",
    "normal_form",
    "set_apart",
    "tighten",
]

COMMON_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Thai, Lao, Myanmar, Khmer, kana and ideographs, as a set of a regular expression.

Near-duplicates and canonical comparison treat only these as unspaced. The longer list of `has_unspaced` would change
their results for rare scripts, and with them baselines that users committed.
"""

MOST_MARKS: Final = 30
"""In a row, as in Unicode's stream-safe text (UAX #15). No language writes more than a few on one letter."""

# Neither ASCII nor a letter or digit, so marks are included; and two letters that become marks in NFKC.
_MANY_MARKS: Final = lazy_pattern(rf"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){{{MOST_MARKS + 1},}}")
_JOINER: Final = "\u034f"

# Blocks of scripts without spaces between words. Korean, Tibetan and Ethiopic separate words.
_UNSPACED_BLOCKS: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19FF),  # Tai Le, New Tai Lue, Khmer symbols
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # ideographic iteration mark and zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3040, 0x312F),  # hiragana, katakana, bopomofo
    (0x31A0, 0x31BF),  # bopomofo
    (0x31F0, 0x31FF),  # katakana
    (0x3400, 0x4DBF),  # ideographs
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9FF),  # Javanese, Myanmar
    (0xAA60, 0xAA7F),  # Myanmar
    (0xF900, 0xFAFF),  # ideographs
    (0xFF66, 0xFF9F),  # half-width katakana
    (0x1B000, 0x1B16F),  # kana
    (0x20000, 0x3FFFF),  # ideographs
)
# A block with more characters holds ideographs, which carry no marks.
_LARGE_BLOCK: Final = 2000


# The unspaced characters, and those of them that are marks of the letter before, as sets of regular expressions.
_EVERY: Final = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED_BLOCKS)
_MARKS: Final = "\u3099\u309a" + "".join(
    character
    for first, last in _UNSPACED_BLOCKS
    if last - first < _LARGE_BLOCK
    for character in map(chr, range(first, last + 1))
    if unicodedata.category(character)[0] == "M"
)
_UNSPACED: Final = lazy_pattern(f"[{_EVERY}][{_MARKS}]*")
_UNSPACED_RUN: Final = lazy_pattern(f"[{_EVERY}{_MARKS}]+")
# A run of spaces is looked at once, from its beginning and as a whole.
_GAP: Final = lazy_pattern(rf"(?<=[{_EVERY}])\s+|(?<!\s)\s++(?=[{_EVERY}])")
# "10²" must not become "102", nor "1½" eleven halves; a lone accent would split its word.
_UNCHANGED: Final = ("<super>", "<fraction>", "<compat> 0020 03")


class CharacterMap(dict[int, str]):
    """A table for `str.translate` that computes what replaces a character when it first occurs."""

    def __init__(self, replacement: Callable[[str], str]) -> None:
        super().__init__()
        self._replacement = replacement

    def __missing__(self, code: int) -> str:
        self[code] = replaced = self._replacement(chr(code))
        return replaced


def is_word_character(character: str) -> bool:
    """Whether a character is a letter, a digit, or a mark that belongs to one, in any script."""
    return unicodedata.category(character)[0] in "LMN"


def normal_form(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return a text in a Unicode normal form, in linear time.

    Normalisation sorts marks, which takes quadratic time where thousands stand in a row. So a combining grapheme
    joiner is put after each 30 of them, as in Unicode's stream-safe text.
    """
    return unicodedata.normalize(form, text if text.isascii() else _MANY_MARKS.sub(_with_joiners, text))


def _with_joiners(found: re.Match[str]) -> str:
    joined, marks = [], 0
    for character in found[0]:
        # Some are marks only in their decomposition.
        parts = unicodedata.normalize("NFKD", character)
        marks = marks + len(parts) if unicodedata.combining(parts[0]) else 0
        if marks > MOST_MARKS:
            joined.append(_JOINER)
            marks = len(parts)
        joined.append(character)
    return "".join(joined)


def fold(text: str) -> str:
    """Return a text case folded and in Unicode's compatibility form (NFKC), where that keeps the meaning.

    Full-width letters, ligatures and decimal digits of every script become plain; superscripts and fractions stay.
    ASCII is only put in lower case.

    >>> fold("Größe ｋｇ ﬁve ٣ 10²")
    'grösse kg five 3 10²'
    """
    if text.isascii():
        return text.lower()
    composed = normal_form("NFC", text).translate(_PLAIN)
    # Half-width kana and their voicing marks meet only now, and folding may decompose.
    return normal_form("NFC", normal_form("NFC", composed).casefold())


def _plain(character: str) -> str:
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(_UNCHANGED):
        return character
    return unicodedata.normalize("NFKC", character)


_PLAIN: Final = CharacterMap(_plain)


def has_unspaced(text: str) -> bool:
    """Whether a text has characters of a script without spaces between words.

    These are ideographs, kana, bopomofo, Yi, Thai, Lao, Khmer, Myanmar, Tai, Javanese and Balinese. Korean puts
    spaces between words and does not belong to them.
    """
    return not text.isascii() and _UNSPACED.search(text) is not None


def set_apart(text: str, *, by_character: bool = True) -> str:
    """Put spaces around each character of an unspaced script, or around each run of them.

    A character goes with the marks that follow it: a Thai consonant with the vowel and the tone above it is one. A
    vowel that stands on the line is a character of its own, and so is a Khmer consonant below another.

    >>> set_apart("iPhone手机 ที่นี่").split()
    ['iPhone', '手', '机', 'ที่', 'นี่']
    >>> set_apart("iPhone手机", by_character=False).split()
    ['iPhone', '手机']
    """
    return text if text.isascii() else (_UNSPACED if by_character else _UNSPACED_RUN).sub(r" \g<0> ", text)


def tighten(text: str) -> str:
    """Remove the spaces beside characters of unspaced scripts, where they carry no meaning.

    >>> tighten("1974 年 の New York")
    '1974年のNew York'
    """
    return text if text.isascii() else _GAP.sub("", text)
