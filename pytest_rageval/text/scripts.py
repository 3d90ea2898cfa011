"""Text in any script: one form of each character, and where words end without spaces."""

import re
import unicodedata
from typing import Final, Literal

__all__ = ["fold", "has_unspaced", "normal_form", "set_apart", "tighten"]

MOST_MARKS: Final = 30
"""In a row, as Unicode's stream-safe text has them (UAX #15): no language writes more than a few on one letter."""

# What is neither ASCII nor a letter or digit, marks among it; and two letters that are marks in NFKC.
_RUN: Final = re.compile(rf"(?:[^\w\x00-\x7f]|[\uff9e\uff9f]){{{MOST_MARKS + 1},}}")
_JOINER: Final = "\u034f"


def normal_form(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """A text in a normal form.

    Marks are sorted for it, in quadratic time where thousands stand in a row. So after each 30 of them
    a combining grapheme joiner is put, as Unicode's stream-safe text has it.
    """
    return unicodedata.normalize(form, text if text.isascii() else _RUN.sub(_parted, text))


def _parted(run: re.Match[str]) -> str:
    parted, marks = [], 0
    for character in run[0]:
        # Some are marks only in their parts.
        parts = unicodedata.normalize("NFKD", character)
        marks = marks + len(parts) if unicodedata.combining(parts[0]) else 0
        if marks > MOST_MARKS:
            parted.append(_JOINER)
            marks = len(parts)
        parted.append(character)
    return "".join(parted)


# Blocks whose scripts run words together. Korean, Tibetan and Ethiopic separate theirs.
_UNSPACED: Final = (
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
# Above this many characters a block is ideographs, which carry no marks.
_LARGE: Final = 2000


def _ranges() -> tuple[str, str]:
    """The unspaced characters, and those of them that are marks of the letter before, as regex sets."""
    every, marks = [], ["\u3099\u309a"]
    for first, last in _UNSPACED:
        every.append(f"{chr(first)}-{chr(last)}")
        if last - first < _LARGE:
            marks += (chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c))[0] == "M")
    return "".join(every), "".join(marks)


_EVERY, _MARKS = _ranges()
_ONE: Final = re.compile(f"[{_EVERY}][{_MARKS}]*")
_UNSPACED_RUN: Final = re.compile(f"[{_EVERY}{_MARKS}]+")
# A run of spaces is looked at once, from its beginning and as a whole.
_GAP: Final = re.compile(rf"(?<=[{_EVERY}])\s+|(?<!\s)\s++(?=[{_EVERY}])")
# "10²" must not become "102", nor "1½" eleven halves; a lone accent would split its word.
_KEPT_AS_THEY_ARE: Final = ("<super>", "<fraction>", "<compat> 0020 03")


class _Forms(dict[int, str]):
    """A translation table to the plain form of a character, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isdecimal():
            form = str(unicodedata.decimal(character))
        elif unicodedata.decomposition(character).startswith(_KEPT_AS_THEY_ARE):
            form = character
        else:
            form = unicodedata.normalize("NFKC", character)
        self[code] = form
        return form


_FORMS: Final = _Forms()


def fold(text: str) -> str:
    """A text case folded and in Unicode's compatibility form (NFKC), where that keeps the meaning.

    Full-width letters, ligatures and decimal digits of every script become the
    plain ones; superscripts and fractions stay as they are. ASCII is only put
    in lower case.

    >>> fold("Größe ｋｇ ﬁve ٣ 10²")
    'grösse kg five 3 10²'
    """
    if text.isascii():
        return text.lower()
    composed = normal_form("NFC", text).translate(_FORMS)
    # Half-width kana and their voicing marks meet only now, and folding may decompose.
    return normal_form("NFC", normal_form("NFC", composed).casefold())


def has_unspaced(text: str) -> bool:
    """Whether a character of the text is of a script without spaces between words.

    Such are ideographs, kana, bopomofo, Yi, Thai, Lao, Khmer, Myanmar, Tai,
    Javanese and Balinese; Korean puts spaces between words and is not among them.
    """
    return not text.isascii() and _ONE.search(text) is not None


def set_apart(text: str, *, by_character: bool = True) -> str:
    """The text with spaces around each character of such a script, or around each run of them.

    A character goes with the marks that follow it: a Thai consonant with the
    vowel and the tone above it is one. A vowel that stands on the line is a
    character of its own, and so is a Khmer consonant below another.

    >>> set_apart("iPhone手机 ที่นี่").split()
    ['iPhone', '手', '机', 'ที่', 'นี่']
    >>> set_apart("iPhone手机", by_character=False).split()
    ['iPhone', '手机']
    """
    return text if text.isascii() else (_ONE if by_character else _UNSPACED_RUN).sub(r" \g<0> ", text)


def tighten(text: str) -> str:
    """The text without the spaces beside such characters, where they carry no meaning.

    >>> tighten("1974 年 の New York")
    '1974年のNew York'
    """
    return text if text.isascii() else _GAP.sub("", text)
