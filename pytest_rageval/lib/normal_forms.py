"""Normal forms of text in any script, and word boundaries for scripts without spaces between words."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Final, Literal

COMMON_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Ranges of Thai, Lao, Myanmar, Khmer, kana and ideographs, for a character class of a regular expression.

Near-duplicates and canonical comparison treat only these characters as unspaced. The larger set of `has_unspaced`
would change their results for rare scripts, and so the baselines that users have committed.
"""

MAX_MARKS: Final = 30
"""The longest run of combining marks in Unicode's stream-safe text format (UAX #15). No language needs more than a few
marks on a letter."""

# A run of marks: characters that are neither ASCII nor a letter or digit, and two letters that NFKC makes marks.
_LONG_MARK_RUN: Final = re.compile(rf"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){{{MAX_MARKS + 1},}}")
_JOINER: Final = "\u034f"

# Blocks of scripts without spaces between words. Korean, Tibetan and Ethiopic are not among them: they separate words.
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
# A larger block has only ideographs, and so no marks.
_LARGE_BLOCK: Final = 2000


@cache
def _unspaced_patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return what matches an unspaced character with its marks, a run of such characters, and the spaces next to one.

    Few texts need the patterns, and compiling them takes five milliseconds.
    """
    characters = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED_BLOCKS)
    marks = "\u3099\u309a" + "".join(
        character
        for first, last in _UNSPACED_BLOCKS
        if last - first < _LARGE_BLOCK
        for character in map(chr, range(first, last + 1))
        if unicodedata.category(character)[0] == "M"
    )
    # The lookbehind and the possessive quantifier make each run of spaces match once, from its beginning: linear time.
    spaces = rf"(?<=[{characters}])\s+|(?<!\s)\s++(?=[{characters}])"
    return re.compile(f"[{characters}][{marks}]*"), re.compile(f"[{characters}{marks}]+"), re.compile(spaces)


# Characters that keep their form: "10²" must not become "102", nor "1½" "11/2"; a lone accent would split its word.
_KEPT_DECOMPOSITIONS: Final = ("<super>", "<fraction>", "<compat> 0020 03")


class CharacterMap(dict[int, str]):
    """A table for `str.translate` that computes the replacement of a character at its first occurrence."""

    def __init__(self, replacement: Callable[[str], str]) -> None:
        super().__init__()
        self._replacement = replacement

    def __missing__(self, code: int) -> str:
        self[code] = replacement = self._replacement(chr(code))
        return replacement


def is_word_character(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def normal_form(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return a text in a Unicode normal form, in linear time.

    Normalisation sorts combining marks, which takes quadratic time in a run of thousands. Therefore a combining
    grapheme joiner is inserted after each 30 marks of a run, as in Unicode's stream-safe text format.
    """
    return unicodedata.normalize(form, text if text.isascii() else _LONG_MARK_RUN.sub(_insert_joiners, text))


def _insert_joiners(marks_run: re.Match[str]) -> str:
    joined, marks = [], 0
    for character in marks_run[0]:
        # Some characters are marks only in their decomposition.
        parts = unicodedata.normalize("NFKD", character)
        marks = marks + len(parts) if unicodedata.combining(parts[0]) else 0
        if marks > MAX_MARKS:
            joined.append(_JOINER)
            marks = len(parts)
        joined.append(character)
    return "".join(joined)


def fold(text: str) -> str:
    """Return a text case folded and in Unicode's compatibility form (NFKC), except where NFKC changes the meaning.

    Full-width letters, ligatures and decimal digits of all scripts are replaced by their plain forms. Superscripts and
    fractions are unchanged. An ASCII text is only converted to lower case.

    >>> fold("Größe ｋｇ ﬁve ٣ 10²")
    'grösse kg five 3 10²'
    """
    if text.isascii():
        return text.lower()
    composed = normal_form("NFC", text).translate(_COMPATIBILITY_MAP)
    # NFC again: half-width kana and their voicing marks are adjacent only now, and case folding may decompose.
    return normal_form("NFC", normal_form("NFC", composed).casefold())


def _compatibility_form(character: str) -> str:
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if unicodedata.decomposition(character).startswith(_KEPT_DECOMPOSITIONS):
        return character
    return unicodedata.normalize("NFKC", character)


_COMPATIBILITY_MAP: Final = CharacterMap(_compatibility_form)


def has_unspaced(text: str) -> bool:
    """Whether a text has characters of a script without spaces between words (see `_UNSPACED_BLOCKS`)."""
    return not text.isascii() and _unspaced_patterns()[0].search(text) is not None


def separate_unspaced(text: str, *, by_character: bool = True) -> str:
    """Put spaces around each character of an unspaced script, or around each run of them.

    A character and the combining marks after it are one unit, such as a Thai consonant with the vowel and the tone
    above it. A spacing vowel is a unit of its own, and so is a subscript consonant in Khmer.

    >>> separate_unspaced("iPhone手机 ที่นี่").split()
    ['iPhone', '手', '机', 'ที่', 'นี่']
    >>> separate_unspaced("iPhone手机", by_character=False).split()
    ['iPhone', '手机']
    """
    if text.isascii():
        return text
    character, run, _ = _unspaced_patterns()
    return (character if by_character else run).sub(r" \g<0> ", text)


def join_unspaced(text: str) -> str:
    """Remove the spaces next to characters of unspaced scripts, where spaces have no meaning.

    >>> join_unspaced("1974 年 の New York")
    '1974年のNew York'
    """
    return text if text.isascii() else _unspaced_patterns()[2].sub("", text)
