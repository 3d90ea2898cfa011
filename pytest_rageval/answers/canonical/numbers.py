"""Numbers in digits, in words, in both, and in Roman numerals after a name.

Cardinals ("two hundred and six"), ordinals ("21st", "twenty-first"), fractions ("half", "2 1/2"), scales ("3.5
million", "a dozen") and years as they are spoken ("nineteen seventy-four").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.words import Lexeme, numbered, skip, text_at

__all__ = ["STARTS", "Number", "read_number", "roman_value"]

_NUMERAL = re.compile(r"(?=[ivx]{2})(x{0,3})(ix|iv|v?i{0,3})")
_ROMAN_UNITS = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_GIVEN_NAMES = frozenset({"vi", "xi"})
_SMALL = numbered(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
    start=0,
)
_TENS = {
    word: 10 * tens
    for word, tens in numbered("twenty thirty forty fifty sixty seventy eighty ninety", start=2).items()
}
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "bn": 9, "trillion": 12, "tn": 12}
_SCALES = {"dozen": 12} | {word: 10**power for word, power in _POWERS.items()}
_MONEY_SCALES = {"k": 1000, "m": 10**6, "mn": 10**6, "mm": 10**6, "b": 10**9}
_ORDINALS = numbered(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth",
    start=1,
) | {f"{word[:-1]}ieth": value for word, value in _TENS.items()}

# "first" and "second" name no part of a whole.
_PARTS = {"half": 2, "halves": 2, "quarter": 4, "quarters": 4} | {
    f"{word}{plural}": value
    for word, value in _ORDINALS.items()
    if word not in {"first", "second"}
    for plural in ("", "s")
}

# Most words start no number: one look at this set spares them the grammar.
STARTS = frozenset({"a", "an", "half", *_SMALL, *_TENS, *_SCALES, *_ORDINALS})
_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_HUNDRED = 100
_SPOKEN_CENTURIES = range(10, 21)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as read: its value, where its lexemes end, and its kind."""

    value: Fraction
    end: int
    ordinal: bool = False
    part: bool = False


def roman_value(word: str) -> Fraction | None:
    """Return the value of a folded Roman numeral of two or more letters, below forty.

    Single letters are initials and "vi" and "xi" are given names; they are no numerals here.

    >>> str(roman_value("xiv")), roman_value("xi"), roman_value("civil")
    ('14', None, None)
    """
    found = _NUMERAL.fullmatch(word)
    if found is None or word in _GIVEN_NAMES:
        return None
    return Fraction(10 * len(found[1]) + _ROMAN_UNITS.index(found[2]))


def read_number(pieces: Sequence[Lexeme], at: int, *, money: bool = False) -> Number | None:
    """Read the longest number that starts at a lexeme; None where there is none.

    `money` allows the one-letter scales of prices ("£3m", "$5k"). "half" and other fractions come back as `part`, so
    that a unit may follow "half a".

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> str(read_number(lexemes("two hundred and six bones"), 0).value)
    '206'
    >>> str(read_number(lexemes("half a dozen"), 0).value), read_number(lexemes("bones"), 0)
    ('6', None)
    """
    if at >= len(pieces) or (pieces[at].kind not in {"number", "fraction"} and pieces[at].text not in STARTS):
        return None
    part = _part(pieces, at)
    if part is not None:
        # "half a million", "half a dozen", "a quarter of a million".
        after = skip(pieces, part.end, {"of", "a", "an", "-"})
        scale = _SCALES.get(text_at(pieces, after))
        return Number(part.value * scale, after + 1) if scale else part
    digits = _digits(pieces, at)
    if digits is None:
        return _spelled(pieces, at)
    if money and text_at(pieces, digits.end) in _MONEY_SCALES:
        return Number(digits.value * _MONEY_SCALES[text_at(pieces, digits.end)], digits.end + 1)
    return digits if digits.ordinal or digits.part else _scaled(pieces, _and_a_half(pieces, digits))


def _part(pieces: Sequence[Lexeme], at: int) -> Number | None:
    """Read "half", "a quarter", "two thirds", "three-fourths"."""
    word = text_at(pieces, at)
    if word == "half":
        return Number(Fraction(1, 2), at + 1, part=True)
    top = 1 if word in {"a", "an"} else _SMALL.get(word, 0)
    after = _after_hyphen(pieces, at + 1)
    name = text_at(pieces, after)
    if not top or name not in _PARTS:
        return None
    # "a third" may be an ordinal; "a third of" and "two thirds" are not.
    plain = name in {"half", "quarter"} or name.endswith("s")
    certain = plain or word == "one" or text_at(pieces, after + 1) == "of"
    return Number(Fraction(top, _PARTS[name]), after + 1, part=True) if certain else None


def _after_hyphen(pieces: Sequence[Lexeme], at: int) -> int:
    return at + 1 if text_at(pieces, at) == "-" and at + 1 < len(pieces) else at


def _digits(pieces: Sequence[Lexeme], at: int) -> Number | None:
    piece = pieces[at]
    if piece.kind == "fraction":
        top, bottom = map(int, piece.text.split("/"))
        return Number(Fraction(top, bottom), at + 1, part=True) if bottom else None
    if piece.kind != "number":
        return None
    value = Fraction(piece.text)
    following = pieces[at + 1] if at + 1 < len(pieces) else None
    if following is not None and following.glued and following.text in _SUFFIXES:
        return Number(value, at + 2, ordinal=True)
    if (
        following is not None
        and following.kind == "fraction"
        and not following.glued
        and value.denominator == 1
    ):
        part = _digits(pieces, at + 1)
        return part and Number(value + part.value, part.end)
    return Number(value, at + 1)


def _spelled(pieces: Sequence[Lexeme], at: int) -> Number | None:
    """Read a number that starts with a word."""
    word = text_at(pieces, at)
    if word in {"a", "an"} and text_at(pieces, at + 1) in _SCALES:
        # "a hundred", "a dozen": the article counts one only before a scale.
        return _scaled(pieces, Number(Fraction(1), at + 1))
    if word in _SCALES and word not in {"bn", "tn"}:
        return _scaled(pieces, Number(Fraction(1), at))
    first = _below_hundred(pieces, at)
    if first is None or first.ordinal:
        return first
    return _spoken_year(pieces, first) or _scaled(pieces, _and_a_half(pieces, first))


def _scaled(pieces: Sequence[Lexeme], first: Number) -> Number:
    """Apply "hundred", "thousand", "and five" and so on to a first group."""
    total, group, at, ordinal = Fraction(0), first.value, first.end, first.ordinal
    scaled = False
    while not ordinal:
        word = text_at(pieces, at)
        ordinal_scale = word.endswith("th") and word[:-2] in _SCALES
        scale = _SCALES.get(word[:-2] if ordinal_scale else word)
        if scale is not None:
            group *= scale
            if scale != _HUNDRED:
                total, group = total + group, Fraction(0)
            at, scaled, ordinal = at + 1, True, ordinal_scale
            continue
        more = _below_hundred(pieces, at + (word == "and")) if scaled else None
        # "two hundred and fifty" goes on; "one dozen and three others" does not.
        others = word == "and" and text_at(pieces, at - 1) == "dozen"
        if more is None or (total + group) % _HUNDRED or others:
            break
        group, at, ordinal = group + more.value, more.end, more.ordinal
    return Number(total + group, at, ordinal)


def _below_hundred(pieces: Sequence[Lexeme], at: int) -> Number | None:
    """Read "seven", "seventy", "seventy-four" or the ordinals of these."""
    word = text_at(pieces, at)
    after = _after_hyphen(pieces, at + 1)
    unit = text_at(pieces, after)
    for values, ordinal in ((_SMALL, False), (_ORDINALS, True)):
        if word in values:
            return Number(Fraction(values[word]), at + 1, ordinal)
        if word in _TENS and 0 < values.get(unit, 0) < _SMALL["ten"]:
            return Number(Fraction(_TENS[word] + values[unit]), after + 1, ordinal)
    return Number(Fraction(_TENS[word]), at + 1) if word in _TENS else None


def _spoken_year(pieces: Sequence[Lexeme], first: Number) -> Number | None:
    """Read the second half of "nineteen seventy-four" or "nineteen oh five"."""
    if first.value not in _SPOKEN_CENTURIES:
        return None
    at = _after_hyphen(pieces, first.end)
    oh = text_at(pieces, at) in {"oh", "o"}
    last = _below_hundred(pieces, at + oh)
    if last is None or (not oh and (last.ordinal or last.value < _SMALL["ten"])):
        return None
    return Number(first.value * _HUNDRED + last.value, last.end)


def _and_a_half(pieces: Sequence[Lexeme], number: Number) -> Number:
    """Add the fraction of "two and a half" and "one and three quarters"."""
    part = _part(pieces, number.end + 1) if text_at(pieces, number.end) == "and" else None
    return Number(number.value + part.value, part.end) if part else number
