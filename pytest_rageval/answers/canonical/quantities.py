"""Numbers with units, conversion between units, and when one quantity states another.

A name has one or more readings: a "pound" may be money or weight. Units convert only where the relation is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.lexemes import Lexeme, skip, text_at
from pytest_rageval.answers.canonical.numbers import Number, read_number

__all__ = ["CURRENCIES", "Quantity", "Unit", "read_quantity", "same_quantity", "unit_named"]

CURRENCIES = frozenset({"gbp", "usd", "eur", "jpy", "inr", "krw", "rub", "cny", "chf"})
DURATIONS = frozenset({"seconds", "months"})


@dataclass(frozen=True, slots=True)
class Unit:
    """One reading of a unit: the dimension it measures and its size in it."""

    dimension: str
    size: Fraction


# For each dimension, the size of each unit in the base unit and its names; plurals in -s are derived.
_TABLE = {
    "seconds": (
        "1/1000 millisecond ms, 1 second sec s, 60 minute min, 3600 hour hr h, 86400 day, "
        "604800 week wk, 1209600 fortnight"
    ),
    "months": "1 month, 12 year yr, 120 decade, 1200 century centuries, 12000 millennium",
    "metres": (
        "1/1000000000 nanometre nanometer nm, 1/1000000 micrometre micrometer micron μm, "
        "1/1000 millimetre millimeter mm, 1/100 centimetre centimeter cm, 1 metre meter m, "
        "1000 kilometre kilometer km, 127/5000 inch inches, 381/1250 foot feet ft, 1143/1250 yard yd, "
        "201168/125 mile mi"
    ),
    "grams": (
        "1/1000000 microgram μg mcg, 1/1000 milligram mg, 1 gram gramme g, "
        "1000 kilogram kilogramme kilo kg, 1000000 tonne ton, 45359237/100000 pound lb, "
        "45359237/1600000 ounce oz"
    ),
    "short tons": "1 ton",
    "litres": "1/1000 millilitre milliliter ml, 1/100 centilitre centiliter cl, 1 litre liter l",
    "gallons": "1 gallon gal",
    "bytes": (
        "1 byte, 1000 kilobyte kb, 1000000 megabyte mb, 1000000000 gigabyte gb, 1000000000000 terabyte tb"
    ),
    "watts": "1 watt w, 1000 kilowatt kw, 1000000 megawatt mw",
    "volts": "1 volt v",
    "hertz": "1 hertz hz, 1000 kilohertz khz, 1000000 megahertz mhz, 1000000000 gigahertz ghz",
    "share": "1/100 percent percentage",
    "angle": "1 degree",
    "celsius": "1 degree celsius centigrade c",
    "fahrenheit": "1 degree fahrenheit f",
    "kelvin": "1 kelvin",
    "occasions": "1 time",
    "gbp": "1 pound gbp sterling quid, 1/100 penny pence",
    "usd": "1 dollar usd buck, 1/100 cent",
    "eur": "1 euro eur, 1/100 cent",
    "jpy": "1 yen jpy",
    "inr": "1 rupee inr",
    "krw": "1 krw",
    "cny": "1 yuan renminbi cny",
    "rub": "1 rouble ruble rub",
    "chf": "1 franc chf",
}
_NAMED: dict[str, tuple[Unit, ...]] = {}
for _dimension, _units in _TABLE.items():
    for _unit in _units.split(", "):
        _size, *_names = _unit.split()
        _plurals = [f"{_name}s" for _name in _names if len(_name) > 1 and not _name.endswith("es")]
        for _name in (*_names, *_plurals):
            _NAMED[_name] = (*_NAMED.get(_name, ()), Unit(_dimension, Fraction(_size)))
_OCCASIONS = {"once": 1, "twice": 2, "thrice": 3}
_LEAST_DIGITS = 2

# One letter after a number is a unit only where the two touch ("5m") or the unit is metric.
_SPACED_LETTERS = frozenset("mglh")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as written, with the readings of its unit (none: a bare number)."""

    number: Fraction
    units: tuple[Unit, ...] = ()

    def sizes(self) -> frozenset[tuple[str, Fraction]]:
        """Return the quantity in the base unit of every dimension it may measure."""
        return frozenset((unit.dimension, self.number * unit.size) for unit in self.units)

    def dimensions(self) -> frozenset[str]:
        """Return the dimensions that the unit may measure."""
        return frozenset(unit.dimension for unit in self.units)


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

    >>> from pytest_rageval.answers.canonical.lexemes import lexemes
    >>> read_quantity(lexemes("half a year"), 0)[0].sizes() == read_quantity(lexemes("six months"), 0)[0].sizes()
    True
    >>> read_quantity(lexemes("gbp 26"), 0)[0].sizes() <= read_quantity(lexemes("26 pounds"), 0)[0].sizes()
    True
    """
    word = pieces[at].text
    if word in CURRENCIES:
        return _price(pieces, at)
    if word in _OCCASIONS:
        return Quantity(Fraction(_OCCASIONS[word]), unit_named("time")), at + 1
    if word == "minus" or (
        word == "-" and not pieces[at].glued and at + 1 < len(pieces) and pieces[at + 1].glued
    ):
        # A number has one sign at most.
        twice = text_at(pieces, at + 1) in {"", "-", "minus"}
        below = None if twice else read_quantity(pieces, at + 1)
        return below and (Quantity(-below[0].number, below[0].units), below[1])
    number = read_number(pieces, at)
    if number is None:
        return _one(pieces, at) if word in {"a", "an"} else None
    quantity, end = _counted(pieces, number)
    following = pieces[end] if end < len(pieces) else None
    touches = (
        following is not None and following.glued and following.kind == "word" and following.text.isascii()
    )
    if touches and pieces[end - 1].kind == "number":
        return None
    return quantity, end


def same_quantity(
    wanted: Quantity,
    said: Quantity,
    understood: frozenset[str] = frozenset(),
    *,
    approximate: bool = False,
) -> bool:
    """Return whether a said quantity is the wanted one.

    `understood` are the dimensions that the question names: a bare number may stand for one of them. A bare wanted
    number is met with any unit, unless the question named another one. `approximate` accepts a rounding.

    >>> from pytest_rageval.answers.canonical.lexemes import lexemes
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


def _price(pieces: Sequence[Lexeme], at: int) -> tuple[Quantity, int] | None:
    number = read_number(pieces, at + 1, money=True) if at + 1 < len(pieces) else None
    if number is None or number.ordinal:
        return None
    units = tuple(unit for unit in unit_named(pieces[at].text) if unit.size == 1)
    end = number.end + (text_at(pieces, number.end) == pieces[at].text)
    return Quantity(number.value, units), end


def _one(pieces: Sequence[Lexeme], at: int) -> tuple[Quantity, int] | None:
    """Read "a month" or "an hour" as one of them."""
    units = unit_named(text_at(pieces, at + 1))
    if text_at(pieces, at + 1) == "second":
        return None
    if (
        not any(unit.dimension in DURATIONS for unit in units)
        or len(text_at(pieces, at + 1)) <= _LEAST_DIGITS
    ):
        return None
    return _and_a_half(pieces, Quantity(Fraction(1), units), at + 2)


def _and_a_half(pieces: Sequence[Lexeme], quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Read "a year and a half" and "two hours and a quarter"."""
    if text_at(pieces, end) == "and" and text_at(pieces, end + 1) in {"a", "one"}:
        part = read_number(pieces, end + 1)
        if part is not None and part.part:
            return Quantity(quantity.number + part.value, quantity.units), part.end
    return quantity, end


def _counted(pieces: Sequence[Lexeme], number: Number) -> tuple[Quantity, int]:
    if number.part:
        units, end = _part_unit(pieces, number.end)
        return Quantity(number.value, units), end
    if number.ordinal:
        return Quantity(number.value), number.end
    units, end = _unit_at(pieces, number.end)
    if not units:
        return Quantity(number.value), number.end
    quantity, end = _and_a_half(pieces, Quantity(number.value, units), end)
    return _with_smaller(pieces, quantity, end)


def _part_unit(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Unit, ...], int]:
    """Read the unit after a fraction: "half a year", "three quarters of an hour"."""
    units, end = _unit_at(pieces, skip(pieces, at, {"of", "a", "an", "-"}))
    return (units, end) if units else (_PLAIN_SHARE, at)


def _unit_at(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Unit, ...], int]:
    """Read a unit, if one stands here; a hyphen may join it to its number."""
    start = at + 1 if text_at(pieces, at) == "-" else at
    word = text_at(pieces, start)
    if word in {"square", "sq", "cubic"}:
        power = 3 if word == "cubic" else 2
        lengths = [unit for unit in unit_named(text_at(pieces, start + 1)) if unit.dimension == "metres"]
        return tuple(Unit(f"metres^{power}", unit.size**power) for unit in lengths), start + 1 + bool(lengths)
    if word[-1:] in {"2", "3"}:
        power = int(word[-1])
        lengths = [unit for unit in unit_named(word[:-1]) if unit.dimension == "metres"]
        return tuple(Unit(f"metres^{power}", unit.size**power) for unit in lengths), start + 1
    if len(word) == 1 and not (start < len(pieces) and pieces[start].glued) and word not in _SPACED_LETTERS:
        return (), at
    units = unit_named(word)
    return _qualified(pieces, start + 1, units) if units else ((), at)


def _qualified(pieces: Sequence[Lexeme], at: int, units: tuple[Unit, ...]) -> tuple[tuple[Unit, ...], int]:
    """Narrow "degrees" by the scale that follows it."""
    if any(unit.dimension == "angle" for unit in units):
        scale = unit_named(text_at(pieces, at))
        narrowed = tuple(unit for unit in scale if unit.dimension in {"celsius", "fahrenheit", "kelvin"})
        if narrowed:
            return narrowed, at + 1
    return units, at


def _with_smaller(pieces: Sequence[Lexeme], quantity: Quantity, end: int) -> tuple[Quantity, int]:
    """Join "1 hour 30 minutes" or "6 feet and 2 inches" into one quantity."""
    number = read_number(pieces, skip(pieces, end, {"and", ","}))
    if number is None or number.ordinal or number.part:
        return quantity, end
    units, after = _unit_at(pieces, number.end)
    larger = {unit.dimension: unit.size for unit in quantity.units}
    smaller = [
        unit
        for unit in units
        if unit.size < larger.get(unit.dimension, 0) and unit.dimension not in CURRENCIES
    ]
    if not smaller:
        return quantity, end
    unit = smaller[0]
    whole = quantity.number * larger[unit.dimension] + number.value * unit.size
    return Quantity(whole / unit.size, (unit,)), after


def _rounds_to(exact: Fraction, rounded: Fraction) -> bool:
    """Whether a number is the other one, rounded to two significant digits or more. Halves may go either way."""
    digits, place = _significant_digits(rounded)
    return digits >= _LEAST_DIGITS and abs(exact - rounded) * 2 <= place


def _significant_digits(number: Fraction) -> tuple[int, Fraction]:
    """Count the significant digits of a decimal and give the place of the last one."""
    place = Fraction(1)
    while (number / place).denominator != 1 and place > Fraction(1, 10**6):
        place /= 10
    digits = int(abs(number / place))
    while digits and digits % 10 == 0:
        digits, place = digits // 10, place * 10
    return len(str(digits)), place
