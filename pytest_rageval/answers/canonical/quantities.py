"""Parses numbers with units, and compares quantities in different units.

The name of a unit has one or more readings: a "pound" may be money or weight. Units are converted only if the
relation between them is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.numbers import Number, read_number
from pytest_rageval.answers.canonical.words import Lexeme, skip_words, text_at

_OCCASIONS = {"once": 1, "twice": 2, "thrice": 3}
_MAX_SYMBOL_LENGTH = 2
_MIN_ROUNDED_DIGITS = 2

CURRENCIES = frozenset({"gbp", "usd", "eur", "jpy", "inr", "krw", "rub", "cny", "chf"})
FIRST_WORDS = CURRENCIES | {"minus", *_OCCASIONS}  # words other than numbers that a quantity may start with
_DURATIONS = frozenset({"seconds", "months"})
_TEMPERATURES = frozenset({"celsius", "fahrenheit", "kelvin"})
_POWERS = {"square": 2, "sq": 2, "cubic": 3}

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
        """Return the dimensions that the unit may measure."""
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
_WHOLE_SHARE = (Unit("share", Fraction(1)),)


def units_named(word: str) -> tuple[Unit, ...]:
    """Return the readings of a folded name; empty if it is not the name of a unit.

    >>> [unit.dimension for unit in units_named("weeks")]
    ['seconds']
    >>> sorted(unit.dimension for unit in units_named("pounds")), units_named("cat")
    (['gbp', 'grams'], ())
    """
    return _UNITS_BY_NAME.get(word, ())


def read_quantity(lexemes: Sequence[Lexeme], index: int) -> tuple[Quantity, int] | None:
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


def _read_price(lexemes: Sequence[Lexeme], index: int) -> tuple[Quantity, int] | None:
    number = read_number(lexemes, index + 1, money=True)
    if number is None or number.is_ordinal:
        return None
    units = tuple(unit for unit in units_named(lexemes[index].text) if unit.size == 1)
    return Quantity(number.value, units), number.end + (text_at(lexemes, number.end) == lexemes[index].text)


def _read_single_unit(lexemes: Sequence[Lexeme], index: int) -> tuple[Quantity, int] | None:
    """Parse "a month" or "an hour" as a quantity of one."""
    name = text_at(lexemes, index + 1)
    quantity = Quantity(1, units_named(name))
    if name == "second" or len(name) <= _MAX_SYMBOL_LENGTH or quantity.dimensions().isdisjoint(_DURATIONS):
        return None
    return _add_fraction(lexemes, quantity, index + 2)


def _add_fraction(lexemes: Sequence[Lexeme], quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Parse the rest of "a year and a half" or "two hours and a quarter" and add it to the quantity."""
    if text_at(lexemes, end) == "and" and text_at(lexemes, end + 1) in {"a", "one"}:
        fraction = read_number(lexemes, end + 1)
        if fraction is not None and fraction.is_fraction:
            return Quantity(quantity.number + fraction.value, quantity.units), fraction.end
    return quantity, end


def _add_unit(lexemes: Sequence[Lexeme], number: Number) -> tuple[Quantity, int]:
    """Parse the unit after a number, with a fraction or a smaller unit after it."""
    if number.is_fraction:
        # "half a year", "three quarters of an hour".
        units, end = _read_unit(lexemes, skip_words(lexemes, number.end, {"of", "a", "an", "-"}))
        return Quantity(number.value, units or _WHOLE_SHARE), end if units else number.end
    units, end = _read_unit(lexemes, number.end)
    if number.is_ordinal or not units:
        return Quantity(number.value), number.end
    return _add_smaller_unit(lexemes, *_add_fraction(lexemes, Quantity(number.value, units), end))


def _read_unit(lexemes: Sequence[Lexeme], index: int) -> tuple[tuple[Unit, ...], int]:
    """Parse the unit at an index, or after a hyphen there; return its readings (empty for none) and the next index."""
    start = index + (text_at(lexemes, index) == "-")
    word, following = text_at(lexemes, start), text_at(lexemes, start + 1)
    if word in _POWERS:
        units = _area_or_volume_units(following, _POWERS[word])
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


def _add_smaller_unit(lexemes: Sequence[Lexeme], quantity: Quantity, end: int) -> tuple[Quantity, int]:
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
