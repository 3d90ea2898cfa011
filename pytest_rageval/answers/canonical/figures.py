"""A quantity, date or time as it stands in a text, with what qualifies it."""

from dataclasses import dataclass, replace
from fractions import Fraction

from pytest_rageval.answers.canonical.clock_times import ClockTime, same_time
from pytest_rageval.answers.canonical.dates import Date, date_states
from pytest_rageval.answers.canonical.quantities import Quantity, same_quantity

__all__ = ["Figure", "figure_states"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and its qualifiers.

    `bound` is 1 for "at least", "over", "after", -1 for the opposite, 0 where
    nothing is said. `part` is "early", "mid" or "late" before a date.
    `approximate` stands for "about"; `ranged` marks the end of a range or one
    of several offered values ("three or six months").
    """

    value: Quantity | Date | ClockTime
    bound: int = 0
    part: str = ""
    approximate: bool = False
    ranged: bool = False


def _bare_year(value: Quantity | Date | ClockTime) -> int | None:
    """Give a number that may be a year or a count ("1200")."""
    if isinstance(value, Date) and value == Date(value.year):
        return value.year
    if isinstance(value, Quantity) and not value.units and value.number.denominator == 1:
        return int(value.number)
    return None


def _value_states(wanted: Figure, said: Figure, understood: frozenset[str]) -> bool:
    if isinstance(wanted.value, Quantity) and isinstance(said.value, Quantity):
        return same_quantity(wanted.value, said.value, understood, approximate=wanted.approximate)
    if isinstance(wanted.value, Date) and isinstance(said.value, Date):
        return date_states(wanted.value, said.value)
    if isinstance(wanted.value, ClockTime) and isinstance(said.value, ClockTime):
        return same_time(wanted.value, said.value)
    if isinstance(wanted.value, Quantity) and isinstance(said.value, Date) and wanted.value.units:
        year = _bare_year(said.value)
        return year is not None and same_quantity(
            wanted.value, replace(wanted.value, number=Fraction(year)), understood
        )
    number = _bare_year(wanted.value)
    if isinstance(said.value, Quantity) and said.value.units and number is not None:
        return same_quantity(Quantity(Fraction(number)), said.value, understood)
    return number is not None and number == _bare_year(said.value)


def figure_states(wanted: Figure, said: Figure, understood: frozenset[str] = frozenset()) -> bool:
    """Tell whether a said figure states the wanted one.

    A qualifier may be left out, because the question usually carries it, but
    not replaced by its opposite. One end of a range does not state a number
    that is wanted by itself.
    """
    return (
        _value_states(wanted, said, understood)
        and wanted.bound * said.bound >= 0
        and (not wanted.part or not said.part or wanted.part == said.part)
        and (wanted.ranged or not said.ranged)
    )
