"""Numbers with units, conversion between units, and when one quantity states another.

A name has one or more readings: a "pound" may be money or weight. Units convert only where the relation is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.numbers import Number, read_number
from pytest_rageval.answers.canonical.words import Lexeme, skip, text_at

__all__ = ["CURRENCIES", "STARTS", "Quantity", "Unit", "read_quantity", "same_quantity", "unit_named"]

_OCCASIONS = {"once": 1, "twice": 2, "thrice": 3}
_LEAST_DIGITS = 2

CURRENCIES = frozenset({"gbp", "usd", "eur", "jpy", "inr", "krw", "rub", "cny", "chf"})
STARTS = CURRENCIES | {"minus", *_OCCASIONS}  # what quantities start with beside numbers
_DURATIONS = frozenset({"seconds", "months"})
_TEMPERATURES = frozenset({"celsius", "fahrenheit", "kelvin"})
_DIMENSIONS = {"square": 2, "sq": 2, "cubic": 3}

# One letter after a number is a unit only where the two touch ("5m") or the unit is metric.
_SPACED_LETTERS = frozenset("mglh")


@dataclass(frozen=True, slots=True)
class Unit:
    """One reading of a unit: the dimension it measures and its size in it."""

    dimension: str
    size: Fraction


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as written, with the readings of its unit (none: a bare number)."""

    number: Fraction
    units: tuple[Unit, ...] = ()

    def dimensions(self) -> frozenset[str]:
        """Return the dimensions that the unit may measure."""
        return frozenset(unit.dimension for unit in self.units)


# The size of each unit in the base unit of its dimension, and its names; plurals in -s are derived.
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
_NAMED: dict[str, tuple[Unit, ...]] = {}
for _row in _TABLE.strip().splitlines():
    _dimension, _units = _row.split(": ")
    for _size, *_names in map(str.split, _units.split(", ")):
        _plurals = [f"{_name}s" for _name in _names if len(_name) > 1 and not _name.endswith("es")]
        for _name in (*_names, *_plurals):
            _NAMED[_name] = (*_NAMED.get(_name, ()), Unit(_dimension, Fraction(_size)))
_PLAIN_SHARE = (Unit("share", Fraction(1)),)


def unit_named(word: str) -> tuple[Unit, ...]:
    """Return the readings of a folded unit name; empty where it names no unit.

    >>> [unit.dimension for unit in unit_named("weeks")]
    ['seconds']
    >>> sorted(unit.dimension for unit in unit_named("pounds")), unit_named("cat")
    (['gbp', 'grams'], ())
    """
    return _NAMED.get(word, ())


def read_quantity(pieces: Sequence[Lexeme], at: int) -> tuple[Quantity, int] | None:
    """Read the quantity that starts at a lexeme, with the index after it.

    A number with no unit is a bare number, whatever noun follows it. A number that touches letters which are no unit
    ("4k", "3d") is no quantity.

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> half, six = (read_quantity(lexemes(text), 0)[0] for text in ("half a year", "six months"))
    >>> price, weight = (read_quantity(lexemes(text), 0)[0] for text in ("gbp 26", "26 pounds"))
    >>> same_quantity(half, six), same_quantity(price, weight)
    (True, True)
    """
    word = pieces[at].text
    if word in CURRENCIES:
        return _price(pieces, at)
    if word in _OCCASIONS:
        return Quantity(Fraction(_OCCASIONS[word]), unit_named("time")), at + 1
    following = pieces[at + 1] if at + 1 < len(pieces) else None
    if word == "minus" or (word == "-" and not pieces[at].glued and following and following.glued):
        # A number has one sign at most.
        twice = text_at(pieces, at + 1) in {"", "-", "minus"}
        below = None if twice else read_quantity(pieces, at + 1)
        return below and (Quantity(-below[0].number, below[0].units), below[1])
    number = read_number(pieces, at)
    if number is None:
        return _one(pieces, at) if word in {"a", "an"} else None
    quantity, end = _counted(pieces, number)
    following = pieces[end] if end < len(pieces) else None
    touches = following and following.glued and following.kind == "word" and following.text.isascii()
    return None if touches and pieces[end - 1].kind == "number" else (quantity, end)


def _price(pieces: Sequence[Lexeme], at: int) -> tuple[Quantity, int] | None:
    number = read_number(pieces, at + 1, money=True)
    if number is None or number.ordinal:
        return None
    units = tuple(unit for unit in unit_named(pieces[at].text) if unit.size == 1)
    return Quantity(number.value, units), number.end + (text_at(pieces, number.end) == pieces[at].text)


def _one(pieces: Sequence[Lexeme], at: int) -> tuple[Quantity, int] | None:
    """Read "a month" or "an hour" as one of them."""
    name = text_at(pieces, at + 1)
    one = Quantity(Fraction(1), unit_named(name))
    if name == "second" or len(name) <= _LEAST_DIGITS or one.dimensions().isdisjoint(_DURATIONS):
        return None
    return _with_part(pieces, one, at + 2)


def _with_part(pieces: Sequence[Lexeme], quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Read on over "a year and a half" and "two hours and a quarter"."""
    if text_at(pieces, end) == "and" and text_at(pieces, end + 1) in {"a", "one"}:
        part = read_number(pieces, end + 1)
        if part is not None and part.part:
            return Quantity(quantity.number + part.value, quantity.units), part.end
    return quantity, end


def _counted(pieces: Sequence[Lexeme], number: Number) -> tuple[Quantity, int]:
    """Read the unit after a number, and what follows it."""
    if number.part:
        # "half a year", "three quarters of an hour".
        units, end = _unit_at(pieces, skip(pieces, number.end, {"of", "a", "an", "-"}))
        return Quantity(number.value, units or _PLAIN_SHARE), end if units else number.end
    units, end = _unit_at(pieces, number.end)
    if number.ordinal or not units:
        return Quantity(number.value), number.end
    return _with_smaller(pieces, *_with_part(pieces, Quantity(number.value, units), end))


def _unit_at(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Unit, ...], int]:
    """Read a unit, if one stands here; a hyphen may join it to its number."""
    start = at + (text_at(pieces, at) == "-")
    word, following = text_at(pieces, start), text_at(pieces, start + 1)
    if word in _DIMENSIONS:
        lengths = _powers(following, _DIMENSIONS[word])
        return lengths, start + 1 + bool(lengths)
    if word[-1:] in {"2", "3"}:
        return _powers(word[:-1], int(word[-1])), start + 1
    units = unit_named(word)
    if not units or (len(word) == 1 and not pieces[start].glued and word not in _SPACED_LETTERS):
        return (), at
    if any(unit.dimension == "angle" for unit in units):
        # "Degrees" is narrowed by the scale that follows it.
        scale = tuple(unit for unit in unit_named(following) if unit.dimension in _TEMPERATURES)
        return (scale, start + 2) if scale else (units, start + 1)
    return units, start + 1


def _powers(length: str, power: int) -> tuple[Unit, ...]:
    """The units of area or volume from the name of a length."""
    return tuple(
        Unit(f"metres^{power}", unit.size**power) for unit in unit_named(length) if unit.dimension == "metres"
    )


def _with_smaller(pieces: Sequence[Lexeme], quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Join "1 hour 30 minutes" or "6 feet and 2 inches" into one quantity."""
    number = read_number(pieces, skip(pieces, end, {"and", ","}))
    if number is None or number.ordinal or number.part:
        return quantity, end
    units, after = _unit_at(pieces, number.end)
    larger = {unit.dimension: unit.size for unit in quantity.units if unit.dimension not in CURRENCIES}
    unit = next((unit for unit in units if unit.size < larger.get(unit.dimension, 0)), None)
    if unit is None:
        return quantity, end
    whole = quantity.number * larger[unit.dimension] + number.value * unit.size
    return Quantity(whole / unit.size, (unit,)), after


def same_quantity(
    wanted: Quantity, said: Quantity, understood: frozenset[str] = frozenset(), *, approximate: bool = False
) -> bool:
    """Return whether a said quantity is the wanted one.

    `understood` are the dimensions that the question names: a bare number may stand for one of them. A bare wanted
    number is met with any unit, unless the question named another one. `approximate` accepts a rounding.

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> days, weeks = (read_quantity(lexemes(text), 0)[0] for text in ("14 days", "two weeks"))
    >>> same_quantity(days, weeks), same_quantity(days, Quantity(Fraction(14)))
    (True, False)
    >>> same_quantity(days, Quantity(Fraction(14)), frozenset({"seconds"}))
    True
    """
    if wanted.units and said.units:
        # In the said unit, so that a rounding is seen in the digits as they stand.
        pairs = [
            (wanted.number * want.size / have.size, said.number)
            for want in wanted.units
            for have in said.units
            if want.dimension == have.dimension
        ]
    elif wanted.units == said.units or _PLAIN_SHARE in {wanted.units, said.units}:
        # "0.5" and "half" are one number; "50" and "50%" are not.
        pairs = [(wanted.number, said.number)]
    else:
        named = bool((wanted.dimensions() | said.dimensions()) & understood)
        pairs = [(wanted.number, said.number)] if named or not (wanted.units or understood) else []
    return any(
        want == have or (approximate and (_rounds_to(want, have) or _rounds_to(have, want)))
        for want, have in pairs
    )


def _rounds_to(exact: Fraction, rounded: Fraction) -> bool:
    """Return True if `exact` rounds to `rounded` with two significant digits or more; halves may round either way."""
    place = Fraction(1)
    while (rounded / place).denominator != 1 and place > Fraction(1, 10**6):
        place /= 10
    digits = int(abs(rounded / place))
    while digits and digits % 10 == 0:
        digits, place = digits // 10, place * 10
    return len(str(digits)) >= _LEAST_DIGITS and abs(exact - rounded) * 2 <= place
