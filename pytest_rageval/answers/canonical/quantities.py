"""Parses numbers, with and without units, and compares quantities in different units.

Numbers may be in digits, in words, in a mixture of both, and in Roman numerals: cardinals ("two hundred and six"),
ordinals ("21st", "twenty-first"), fractions ("half", "2 1/2"), scales ("3.5 million", "a dozen") and years as they are
spoken ("nineteen seventy-four").

The name of a unit has one or more readings: a "pound" may be money or weight. Units are converted only if the relation
between them is exact.
"""

from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.words import Lexemes, numbers_by_word, skip_words, text_at

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
NUMBER_WORDS = frozenset({"a", "an", "half", *_SMALL, *_TENS, *_SCALES, *_ORDINALS})
_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
_HUNDRED = 100
_SPOKEN_CENTURIES = range(10, 21)


@dataclass(slots=True)
class Number:
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


def read_number(lexemes: Lexemes, index: int, *, money: bool = False) -> Number | None:
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
        lexemes[index].kind not in {"number", "fraction"} and lexemes[index].text not in NUMBER_WORDS
    ):
        return None
    if money:
        return _read_number(lexemes, index, money=True)
    # Each reader of dates, times and quantities tries the same number.
    if index not in lexemes.numbers:
        lexemes.numbers[index] = _read_number(lexemes, index)
    number: Number | None = lexemes.numbers[index]
    return number


def _read_number(lexemes: Lexemes, index: int, *, money: bool = False) -> Number | None:
    digits = _read_digits(lexemes, index)
    if digits is None:
        fraction = _read_fraction(lexemes, index)
        if fraction is None:
            return _read_spelled_out(lexemes, index)
        # "half a million", "half a dozen", "a quarter of a million".
        after = skip_words(lexemes, fraction.end, {"of", "a", "an", "-"})
        scale = _SCALES.get(text_at(lexemes, after))
        return Number(fraction.value * scale, after + 1) if scale else fraction
    if money and text_at(lexemes, digits.end) in _MONEY_SCALES:
        return Number(digits.value * _MONEY_SCALES[text_at(lexemes, digits.end)], digits.end + 1)
    return (
        digits
        if digits.is_ordinal or digits.is_fraction
        else _apply_scales(lexemes, _add_fraction(lexemes, digits))
    )


def _read_fraction(lexemes: Lexemes, index: int) -> Number | None:
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


def _skip_hyphen(lexemes: Lexemes, index: int) -> int:
    return index + 1 if text_at(lexemes, index) == "-" and index + 1 < len(lexemes) else index


def _read_digits(lexemes: Lexemes, index: int) -> Number | None:
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


def _read_spelled_out(lexemes: Lexemes, index: int) -> Number | None:
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


def _apply_scales(lexemes: Lexemes, first: Number) -> Number:
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


def _read_below_hundred(lexemes: Lexemes, index: int) -> Number | None:
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


def _read_spoken_year(lexemes: Lexemes, century: Number) -> Number | None:
    """Parse the second half of "nineteen seventy-four" or "nineteen oh five"."""
    if century.value not in _SPOKEN_CENTURIES:
        return None
    index = _skip_hyphen(lexemes, century.end)
    oh = text_at(lexemes, index) in {"oh", "o"}
    rest = _read_below_hundred(lexemes, index + oh)
    if rest is None or (not oh and (rest.is_ordinal or rest.value < _SMALL["ten"])):
        return None
    return Number(century.value * _HUNDRED + rest.value, rest.end)


def _add_fraction(lexemes: Lexemes, number: Number) -> Number:
    fraction = _read_fraction(lexemes, number.end + 1) if text_at(lexemes, number.end) == "and" else None
    return Number(number.value + fraction.value, fraction.end) if fraction else number


_OCCASIONS = {"once": 1, "twice": 2, "thrice": 3}
_MAX_SYMBOL_LENGTH = 2
_MIN_ROUNDED_DIGITS = 2

CURRENCIES = frozenset({"gbp", "usd", "eur", "jpy", "inr", "krw", "rub", "cny", "chf"})
FIRST_WORDS = NUMBER_WORDS | CURRENCIES | {"minus", *_OCCASIONS}  # words that a quantity may start with
_DURATIONS = frozenset({"seconds", "months"})
_TEMPERATURES = frozenset({"celsius", "fahrenheit", "kelvin"})
_UNIT_POWERS = {"square": 2, "sq": 2, "cubic": 3}

# One-letter units that may have a space before them. Other letters are units only right after the number ("5s").
_SPACED_UNIT_LETTERS = frozenset("mglh")


@dataclass(frozen=True, slots=True)
class Unit:
    """One reading of the name of a unit: what it measures, such as "seconds", and its size in the base unit of that."""

    dimension: str
    size: Fraction


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with the readings of its unit, if it has one."""

    number: Fraction | int
    units: tuple[Unit, ...] = ()

    def dimensions(self) -> frozenset[str]:
        return frozenset(unit.dimension for unit in self.units)


# "dimension: size name name, size name": sizes are in the base unit of the dimension. Plurals in -s are derived.
_TABLE = """
seconds: 1/1000 millisecond ms, 1 second sec s, 60 minute min, 3600 hour hr h, 86400 day, 604800 week wk
seconds: 1209600 fortnight
months: 1 month, 12 year yr, 120 decade, 1200 century centuries, 12000 millennium
metres: 1/1000000000 nanometre nanometer nm, 1/1000000 micrometre micrometer micron μm, 1/1000 millimetre millimeter mm
metres: 1/100 centimetre centimeter cm, 1 metre meter m, 1000 kilometre kilometer km, 127/5000 inch inches
metres: 381/1250 foot feet ft, 1143/1250 yard yd, 201168/125 mile mi
grams: 1/1000000 microgram μg mcg, 1/1000 milligram mg, 1 gram gramme g, 1000 kilogram kilogramme kilo kg
grams: 1000000 tonne ton, 45359237/100000 pound lb, 45359237/1600000 ounce oz
short tons: 1 ton
litres: 1/1000 millilitre milliliter ml, 1/100 centilitre centiliter cl, 1 litre liter l
gallons: 1 gallon gal
bytes: 1 byte, 1000 kilobyte kb, 1000000 megabyte mb, 1000000000 gigabyte gb, 1000000000000 terabyte tb
watts: 1 watt w, 1000 kilowatt kw, 1000000 megawatt mw
volts: 1 volt v
hertz: 1 hertz hz, 1000 kilohertz khz, 1000000 megahertz mhz, 1000000000 gigahertz ghz
share: 1/100 percent percentage
angle: 1 degree
celsius: 1 degree celsius centigrade c
fahrenheit: 1 degree fahrenheit f
kelvin: 1 kelvin
occasions: 1 time
gbp: 1 pound gbp sterling quid, 1/100 penny pence
usd: 1 dollar usd buck, 1/100 cent
eur: 1 euro eur, 1/100 cent
jpy: 1 yen jpy
inr: 1 rupee inr
krw: 1 krw
cny: 1 yuan renminbi cny
rub: 1 rouble ruble rub
chf: 1 franc chf
"""
_UNITS_BY_NAME: dict[str, tuple[Unit, ...]] = {}
for _row in _TABLE.strip().splitlines():
    _dimension, _units = _row.split(": ")
    for _size, *_names in map(str.split, _units.split(", ")):
        _plurals = [f"{_name}s" for _name in _names if len(_name) > 1 and not _name.endswith("es")]
        for _name in (*_names, *_plurals):
            _UNITS_BY_NAME[_name] = (*_UNITS_BY_NAME.get(_name, ()), Unit(_dimension, Fraction(_size)))
AFTER_ARTICLES = frozenset({*_FRACTION_WORDS, *_UNITS_BY_NAME})
"""Words that are a quantity together with "a" or "an", besides `FIRST_WORDS`."""
_WHOLE_SHARE = (Unit("share", Fraction(1)),)


def units_named(word: str) -> tuple[Unit, ...]:
    """Return the readings of a folded name; empty if it is not the name of a unit.

    >>> [unit.dimension for unit in units_named("weeks")]
    ['seconds']
    >>> sorted(unit.dimension for unit in units_named("pounds")), units_named("cat")
    (['gbp', 'grams'], ())
    """
    return _UNITS_BY_NAME.get(word, ())


def read_quantity(lexemes: Lexemes, index: int) -> tuple[Quantity, int] | None:
    """Parse the quantity that starts at a lexeme; return it with the index after it, or None.

    A number before a noun that is not a unit is a quantity without a unit. A number with attached letters that are not
    a unit ("4k", "3d") is not a quantity.

    >>> from pytest_rageval.answers.canonical.words import split_lexemes
    >>> half, six = (read_quantity(split_lexemes(text), 0)[0] for text in ("half a year", "six months"))
    >>> price, weight = (read_quantity(split_lexemes(text), 0)[0] for text in ("gbp 26", "26 pounds"))
    >>> same_quantity(half, six), same_quantity(price, weight)
    (True, True)
    """
    word = lexemes[index].text
    if word in CURRENCIES:
        return _read_price(lexemes, index)
    if word in _OCCASIONS:
        return Quantity(_OCCASIONS[word], units_named("time")), index + 1
    following = lexemes[index + 1] if index + 1 < len(lexemes) else None
    if word == "minus" or (
        word == "-" and not lexemes[index].touches_previous and following and following.touches_previous
    ):
        # A number has at most one sign.
        second_sign = text_at(lexemes, index + 1) in {"", "-", "minus"}
        unsigned = None if second_sign else read_quantity(lexemes, index + 1)
        return unsigned and (Quantity(-unsigned[0].number, unsigned[0].units), unsigned[1])
    number = read_number(lexemes, index)
    if number is None:
        return _read_single_unit(lexemes, index) if word in {"a", "an"} else None
    quantity, end = _add_unit(lexemes, number)
    following = lexemes[end] if end < len(lexemes) else None
    touches = (
        following and following.touches_previous and following.kind == "word" and following.text.isascii()
    )
    return None if touches and lexemes[end - 1].kind == "number" else (quantity, end)


def _read_price(lexemes: Lexemes, index: int) -> tuple[Quantity, int] | None:
    number = read_number(lexemes, index + 1, money=True)
    if number is None or number.is_ordinal:
        return None
    units = tuple(unit for unit in units_named(lexemes[index].text) if unit.size == 1)
    return Quantity(number.value, units), number.end + (text_at(lexemes, number.end) == lexemes[index].text)


def _read_single_unit(lexemes: Lexemes, index: int) -> tuple[Quantity, int] | None:
    name = text_at(lexemes, index + 1)
    quantity = Quantity(1, units_named(name))
    if name == "second" or len(name) <= _MAX_SYMBOL_LENGTH or quantity.dimensions().isdisjoint(_DURATIONS):
        return None
    return _add_fraction_of_unit(lexemes, quantity, index + 2)


def _add_fraction_of_unit(lexemes: Lexemes, quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Parse the rest of "a year and a half" or "two hours and a quarter" and add it to the quantity."""
    if text_at(lexemes, end) == "and" and text_at(lexemes, end + 1) in {"a", "one"}:
        fraction = read_number(lexemes, end + 1)
        if fraction is not None and fraction.is_fraction:
            return Quantity(quantity.number + fraction.value, quantity.units), fraction.end
    return quantity, end


def _add_unit(lexemes: Lexemes, number: Number) -> tuple[Quantity, int]:
    """Parse the unit after a number, with a fraction or a smaller unit after it."""
    if number.is_fraction:
        # "half a year", "three quarters of an hour".
        units, end = _read_unit(lexemes, skip_words(lexemes, number.end, {"of", "a", "an", "-"}))
        return Quantity(number.value, units or _WHOLE_SHARE), end if units else number.end
    units, end = _read_unit(lexemes, number.end)
    if number.is_ordinal or not units:
        return Quantity(number.value), number.end
    return _add_smaller_unit(lexemes, *_add_fraction_of_unit(lexemes, Quantity(number.value, units), end))


def _read_unit(lexemes: Lexemes, index: int) -> tuple[tuple[Unit, ...], int]:
    """Parse the unit at an index, or after a hyphen there; return its readings (empty for none) and the next index."""
    start = index + (text_at(lexemes, index) == "-")
    word, following = text_at(lexemes, start), text_at(lexemes, start + 1)
    if word in _UNIT_POWERS:
        units = _area_or_volume_units(following, _UNIT_POWERS[word])
        return units, start + 1 + bool(units)
    if word[-1:] in {"2", "3"}:
        return _area_or_volume_units(word[:-1], int(word[-1])), start + 1
    units = units_named(word)
    if not units or (
        len(word) == 1 and not lexemes[start].touches_previous and word not in _SPACED_UNIT_LETTERS
    ):
        return (), index
    if any(unit.dimension == "angle" for unit in units):
        # "degrees" before the name of a temperature scale is that scale.
        scale = tuple(unit for unit in units_named(following) if unit.dimension in _TEMPERATURES)
        return (scale, start + 2) if scale else (units, start + 1)
    return units, start + 1


def _area_or_volume_units(length_name: str, power: int) -> tuple[Unit, ...]:
    """Return the square (power 2) or cubic (power 3) units of a unit of length."""
    return tuple(
        Unit(f"metres^{power}", unit.size**power)
        for unit in units_named(length_name)
        if unit.dimension == "metres"
    )


def _add_smaller_unit(lexemes: Lexemes, quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Parse the second part of "1 hour 30 minutes" or "6 feet and 2 inches" and add it to the quantity."""
    number = read_number(lexemes, skip_words(lexemes, end, {"and", ","}))
    if number is None or number.is_ordinal or number.is_fraction:
        return quantity, end
    units, after = _read_unit(lexemes, number.end)
    larger_sizes = {unit.dimension: unit.size for unit in quantity.units if unit.dimension not in CURRENCIES}
    unit = next((unit for unit in units if unit.size < larger_sizes.get(unit.dimension, 0)), None)
    if unit is None:
        return quantity, end
    total = quantity.number * larger_sizes[unit.dimension] + number.value * unit.size
    return Quantity(total / unit.size, (unit,)), after


def same_quantity(
    expected: Quantity,
    predicted: Quantity,
    implied_dimensions: frozenset[str] = frozenset(),
    *,
    approximate: bool = False,
) -> bool:
    """Return True if a predicted quantity equals the expected one.

    An expected number without a unit matches any unit, unless the question implies a dimension: a number without a unit
    may be in one of these. With `approximate` one number may be a rounding of the other.

    >>> from pytest_rageval.answers.canonical.words import split_lexemes
    >>> days, weeks = (read_quantity(split_lexemes(text), 0)[0] for text in ("14 days", "two weeks"))
    >>> same_quantity(days, weeks), same_quantity(days, Quantity(Fraction(14)))
    (True, False)
    >>> same_quantity(days, Quantity(Fraction(14)), frozenset({"seconds"}))
    True
    """
    pairs: list[tuple[Fraction | int, Fraction | int]]
    if expected.units and predicted.units:
        # Both numbers are in the predicted unit: a rounding shows in the digits as written.
        pairs = [
            (expected.number * expected_unit.size / unit.size, predicted.number)
            for expected_unit in expected.units
            for unit in predicted.units
            if expected_unit.dimension == unit.dimension
        ]
    elif expected.units == predicted.units or _WHOLE_SHARE in {expected.units, predicted.units}:
        # "0.5" equals "half", but "50" does not equal "50%".
        pairs = [(expected.number, predicted.number)]
    else:
        implied = bool((expected.dimensions() | predicted.dimensions()) & implied_dimensions)
        pairs = (
            [(expected.number, predicted.number)]
            if implied or not (expected.units or implied_dimensions)
            else []
        )
    return any(
        first == second or (approximate and (_rounds_to(first, second) or _rounds_to(second, first)))
        for first, second in pairs
    )


def _rounds_to(exact: Fraction | int, rounded: Fraction | int) -> bool:
    """Return True if `exact` rounds to `rounded`, up or down from a half, and `rounded` has two significant digits."""
    place = Fraction(1)
    while (rounded / place).denominator != 1 and place > Fraction(1, 10**6):
        place /= 10
    digits = int(abs(rounded / place))
    while digits and digits % 10 == 0:
        digits, place = digits // 10, place * 10
    return len(str(digits)) >= _MIN_ROUNDED_DIGITS and 2 * abs(Fraction(exact) - rounded) <= place
