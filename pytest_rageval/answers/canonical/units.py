"""The units that numbers are counted in, and what they are worth in one base unit.

Each name has one or more readings, because a "pound" may be money or weight
and a "degree" may belong to either temperature scale. Units convert only
where the relation is exact: weeks to days and months to years, but never
months to days, and never one currency to another.
"""

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["CURRENCIES", "DURATIONS", "Unit", "is_currency", "unit_named"]

CURRENCIES = frozenset({"gbp", "usd", "eur", "jpy", "inr", "krw", "rub", "cny", "chf"})
DURATIONS = frozenset({"seconds", "months"})


@dataclass(frozen=True, slots=True)
class Unit:
    """One reading of a unit: the dimension it measures and its size in it."""

    dimension: str
    size: Fraction


# dimension: (size in the base unit, names); plurals in -s are derived.
_TABLE: dict[str, tuple[tuple[str, str], ...]] = {
    "seconds": (
        ("1/1000", "millisecond ms"),
        ("1", "second sec s"),
        ("60", "minute min"),
        ("3600", "hour hr h"),
        ("86400", "day"),
        ("604800", "week wk"),
        ("1209600", "fortnight"),
    ),
    "months": (
        ("1", "month"),
        ("12", "year yr"),
        ("120", "decade"),
        ("1200", "century centuries"),
        ("12000", "millennium"),
    ),
    "metres": (
        ("1/1000000000", "nanometre nanometer nm"),
        ("1/1000000", "micrometre micrometer micron μm"),
        ("1/1000", "millimetre millimeter mm"),
        ("1/100", "centimetre centimeter cm"),
        ("1", "metre meter m"),
        ("1000", "kilometre kilometer km"),
        ("127/5000", "inch inches"),
        ("381/1250", "foot feet ft"),
        ("1143/1250", "yard yd"),
        ("201168/125", "mile mi"),
    ),
    "grams": (
        ("1/1000000", "microgram μg mcg"),
        ("1/1000", "milligram mg"),
        ("1", "gram gramme g"),
        ("1000", "kilogram kilogramme kilo kg"),
        ("1000000", "tonne ton"),
        ("45359237/100000", "pound lb"),
        ("45359237/1600000", "ounce oz"),
    ),
    "short tons": (("1", "ton"),),
    "litres": (
        ("1/1000", "millilitre milliliter ml"),
        ("1/100", "centilitre centiliter cl"),
        ("1", "litre liter l"),
    ),
    "gallons": (("1", "gallon gal"),),
    "bytes": (
        ("1", "byte"),
        ("1000", "kilobyte kb"),
        ("1000000", "megabyte mb"),
        ("1000000000", "gigabyte gb"),
        ("1000000000000", "terabyte tb"),
    ),
    "watts": (("1", "watt w"), ("1000", "kilowatt kw"), ("1000000", "megawatt mw")),
    "volts": (("1", "volt v"),),
    "hertz": (
        ("1", "hertz hz"),
        ("1000", "kilohertz khz"),
        ("1000000", "megahertz mhz"),
        ("1000000000", "gigahertz ghz"),
    ),
    "share": (("1/100", "percent percentage"),),
    "angle": (("1", "degree"),),
    "celsius": (("1", "degree celsius centigrade c"),),
    "fahrenheit": (("1", "degree fahrenheit f"),),
    "kelvin": (("1", "kelvin"),),
    "occasions": (("1", "time"),),
    "gbp": (("1", "pound gbp sterling quid"), ("1/100", "penny pence")),
    "usd": (("1", "dollar usd buck"), ("1/100", "cent")),
    "eur": (("1", "euro eur"), ("1/100", "cent")),
    "jpy": (("1", "yen jpy"),),
    "inr": (("1", "rupee inr"),),
    "krw": (("1", "krw"),),
    "cny": (("1", "yuan renminbi cny"),),
    "rub": (("1", "rouble ruble rub"),),
    "chf": (("1", "franc chf"),),
}
_UNINFLECTED_LENGTH = 2
_NAMED: dict[str, tuple[Unit, ...]] = {}
for _dimension, _rows in _TABLE.items():
    for _size, _names in _rows:
        for _name in _names.split():
            _spellings = (
                (_name,) if len(_name) < _UNINFLECTED_LENGTH or _name.endswith("es") else (_name, f"{_name}s")
            )
            for _spelling in _spellings:
                _NAMED[_spelling] = (*_NAMED.get(_spelling, ()), Unit(_dimension, Fraction(_size)))


def unit_named(word: str) -> tuple[Unit, ...]:
    """Give the readings of a folded unit name; empty where it names no unit.

    >>> [unit.dimension for unit in unit_named("weeks")]
    ['seconds']
    >>> sorted(unit.dimension for unit in unit_named("pounds")), unit_named("cat")
    (['gbp', 'grams'], ())
    """
    return _NAMED.get(word, ())


def is_currency(word: str) -> bool:
    """Tell whether a folded word is the code of a currency, as `fold` writes its sign."""
    return word in CURRENCIES
