"""Parses numbers in digits, in words, in a mixture of both, and in Roman numerals.

Cardinals ("two hundred and six"), ordinals ("21st", "twenty-first"), fractions ("half", "2 1/2"), scales ("3.5
million", "a dozen") and years as they are spoken ("nineteen seventy-four").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.words import Lexeme, numbers_by_word, skip_words, text_at

# A single letter may be an initial, and two are given names.
_ROMAN_NUMERALS = {
    numeral: 10 * tens + units
    for tens in range(4)
    for units, suffix in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
    if len(numeral := "x" * tens + suffix) > 1 and numeral not in {"vi", "xi"}
}
_SMALL = numbers_by_word(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
    start=0,
)
_TENS = {
    word: 10 * tens
    for word, tens in numbers_by_word(
        "twenty thirty forty fifty sixty seventy eighty ninety", start=2
    ).items()
}
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "bn": 9, "trillion": 12, "tn": 12}
_SCALES = {"dozen": 12} | {word: 10**power for word, power in _POWERS.items()}
_MONEY_SCALES = {"k": 1000, "m": 10**6, "mn": 10**6, "mm": 10**6, "b": 10**9}
_ORDINALS = numbers_by_word(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth",
    start=1,
) | {f"{word[:-1]}ieth": value for word, value in _TENS.items()}

# Denominators by their word. "first" and "second" are ordinals only.
_FRACTION_WORDS = {"half": 2, "halves": 2, "quarter": 4, "quarters": 4} | {
    f"{word}{plural}": value
    for word, value in _ORDINALS.items()
    if word not in {"first", "second"}
    for plural in ("", "s")
}

# Words that a number may start with. Most words start no number, and a look-up in this set is faster than parsing.
FIRST_WORDS = frozenset({"a", "an", "half", *_SMALL, *_TENS, *_SCALES, *_ORDINALS})
_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_HUNDRED = 100
_SPOKEN_CENTURIES = range(10, 21)


@dataclass(slots=True)
class Number:
    """A parsed number."""

    value: Fraction | int
    end: int  # the index of the first lexeme after the number
    is_ordinal: bool = False  # "21st"
    is_fraction: bool = False  # of a whole: "half", "3/4"


def roman_value(word: str) -> int | None:
    """Return the value of a folded Roman numeral from 2 to 39; None if the word is not such a numeral.

    A single letter is None, because it may be an initial. "vi" and "xi" are None, because they are given names.

    >>> roman_value("xiv"), roman_value("xi"), roman_value("civil")
    (14, None, None)
    """
    return _ROMAN_NUMERALS.get(word)


def read_number(lexemes: Sequence[Lexeme], index: int, *, money: bool = False) -> Number | None:
    """Parse the longest number that starts at a lexeme; return None if no number starts there.

    `money` allows the scales of prices ("£3m", "$5k"). A fraction such as "half" has `is_fraction` set, so that the
    caller can parse a unit after "half a".

    >>> from pytest_rageval.answers.canonical.words import split_lexemes
    >>> str(read_number(split_lexemes("two hundred and six bones"), 0).value)
    '206'
    >>> str(read_number(split_lexemes("half a dozen"), 0).value), read_number(split_lexemes("bones"), 0)
    ('6', None)
    """
    if index >= len(lexemes) or (
        lexemes[index].kind not in {"number", "fraction"} and lexemes[index].text not in FIRST_WORDS
    ):
        return None
    if money:
        return _read_number(lexemes, index, money=True)
    # Each reader of dates, times and quantities tries the same number.
    lexeme = lexemes[index]
    if lexeme.number is None:
        lexeme.number = [_read_number(lexemes, index)]
    number: Number | None = lexeme.number[0]
    return number


def _read_number(lexemes: Sequence[Lexeme], index: int, *, money: bool = False) -> Number | None:
    fraction = _read_fraction(lexemes, index)
    if fraction is not None:
        # "half a million", "half a dozen", "a quarter of a million".
        after = skip_words(lexemes, fraction.end, {"of", "a", "an", "-"})
        scale = _SCALES.get(text_at(lexemes, after))
        return Number(fraction.value * scale, after + 1) if scale else fraction
    digits = _read_digits(lexemes, index)
    if digits is None:
        return _read_spelled_out(lexemes, index)
    if money and text_at(lexemes, digits.end) in _MONEY_SCALES:
        return Number(digits.value * _MONEY_SCALES[text_at(lexemes, digits.end)], digits.end + 1)
    return (
        digits
        if digits.is_ordinal or digits.is_fraction
        else _apply_scales(lexemes, _add_fraction(lexemes, digits))
    )


def _read_fraction(lexemes: Sequence[Lexeme], index: int) -> Number | None:
    """Parse "half", "a quarter", "two thirds" or "three-fourths"."""
    word = text_at(lexemes, index)
    if word == "half":
        return Number(Fraction(1, 2), index + 1, is_fraction=True)
    numerator = 1 if word in {"a", "an"} else _SMALL.get(word, 0)
    after = _skip_hyphen(lexemes, index + 1)
    name = text_at(lexemes, after)
    if not numerator or name not in _FRACTION_WORDS:
        return None
    # "a third" may be an ordinal. "a third of", "one third" and "two thirds" are fractions.
    no_ordinal = name in {"half", "quarter"} or name.endswith("s")
    certain = no_ordinal or word == "one" or text_at(lexemes, after + 1) == "of"
    return (
        Number(Fraction(numerator, _FRACTION_WORDS[name]), after + 1, is_fraction=True) if certain else None
    )


def _skip_hyphen(lexemes: Sequence[Lexeme], index: int) -> int:
    return index + 1 if text_at(lexemes, index) == "-" and index + 1 < len(lexemes) else index


def _read_digits(lexemes: Sequence[Lexeme], index: int) -> Number | None:
    lexeme = lexemes[index]
    if lexeme.kind == "fraction":
        numerator, denominator = map(int, lexeme.text.split("/"))
        return Number(Fraction(numerator, denominator), index + 1, is_fraction=True) if denominator else None
    if lexeme.kind != "number":
        return None
    value = int(lexeme.text) if lexeme.text.isdecimal() else Fraction(lexeme.text)
    following = lexemes[index + 1] if index + 1 < len(lexemes) else None
    if following is not None and following.touches_previous and following.text in _SUFFIXES:
        return Number(value, index + 2, is_ordinal=True)
    if (
        following is not None
        and following.kind == "fraction"
        and not following.touches_previous
        and value.denominator == 1
    ):
        fraction = _read_digits(lexemes, index + 1)
        return fraction and Number(value + fraction.value, fraction.end)
    return Number(value, index + 1)


def _read_spelled_out(lexemes: Sequence[Lexeme], index: int) -> Number | None:
    """Parse a number that starts with a word."""
    word = text_at(lexemes, index)
    if word in {"a", "an"} and text_at(lexemes, index + 1) in _SCALES:
        # The article means one only before a scale: "a hundred", "a dozen".
        return _apply_scales(lexemes, Number(1, index + 1))
    if word in _SCALES and word not in {"bn", "tn"}:
        return _apply_scales(lexemes, Number(1, index))
    first = _read_below_hundred(lexemes, index)
    if first is None or first.is_ordinal:
        return first
    return _read_spoken_year(lexemes, first) or _apply_scales(lexemes, _add_fraction(lexemes, first))


def _apply_scales(lexemes: Sequence[Lexeme], first: Number) -> Number:
    """Parse the scales ("hundred", "thousand") and further groups ("and five") after a first group."""
    total, group, index, ordinal = 0, first.value, first.end, first.is_ordinal
    scaled = False
    while not ordinal:
        word = text_at(lexemes, index)
        ordinal_scale = word.endswith("th") and word[:-2] in _SCALES
        scale = _SCALES.get(word[:-2] if ordinal_scale else word)
        if scale is not None:
            group *= scale
            if scale != _HUNDRED:
                total, group = total + group, 0
            index, scaled, ordinal = index + 1, True, ordinal_scale
            continue
        rest = _read_below_hundred(lexemes, index + (word == "and")) if scaled else None
        # "two hundred and fifty" is one number. "one dozen and three others" contains two.
        and_after_dozen = word == "and" and text_at(lexemes, index - 1) == "dozen"
        if rest is None or (total + group) % _HUNDRED or and_after_dozen:
            break
        group, index, ordinal = group + rest.value, rest.end, rest.is_ordinal
    return Number(total + group, index, ordinal)


def _read_below_hundred(lexemes: Sequence[Lexeme], index: int) -> Number | None:
    """Parse "seven", "seventy", "seventy-four" or the ordinal of such a number."""
    word = text_at(lexemes, index)
    after = _skip_hyphen(lexemes, index + 1)
    unit = text_at(lexemes, after)
    for values, ordinal in ((_SMALL, False), (_ORDINALS, True)):
        if word in values:
            return Number(values[word], index + 1, ordinal)
        if word in _TENS and 0 < values.get(unit, 0) < _SMALL["ten"]:
            return Number(_TENS[word] + values[unit], after + 1, ordinal)
    return Number(_TENS[word], index + 1) if word in _TENS else None


def _read_spoken_year(lexemes: Sequence[Lexeme], century: Number) -> Number | None:
    """Parse the second half of "nineteen seventy-four" or "nineteen oh five"."""
    if century.value not in _SPOKEN_CENTURIES:
        return None
    index = _skip_hyphen(lexemes, century.end)
    oh = text_at(lexemes, index) in {"oh", "o"}
    rest = _read_below_hundred(lexemes, index + oh)
    if rest is None or (not oh and (rest.is_ordinal or rest.value < _SMALL["ten"])):
        return None
    return Number(century.value * _HUNDRED + rest.value, rest.end)


def _add_fraction(lexemes: Sequence[Lexeme], number: Number) -> Number:
    """Parse the fraction of "two and a half" or "one and three quarters" and add it to the number."""
    fraction = _read_fraction(lexemes, number.end + 1) if text_at(lexemes, number.end) == "and" else None
    return Number(number.value + fraction.value, fraction.end) if fraction else number
