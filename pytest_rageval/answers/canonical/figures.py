"""Figures: a quantity, date or time in a text, with the words that bound, blur or place it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from pytest_rageval.answers.canonical.dates import ClockTime, Date, date_states
from pytest_rageval.answers.canonical.quantities import Quantity, same_quantity
from pytest_rageval.answers.canonical.words import Lexeme, text_at

__all__ = ["Figure", "Qualifier", "figure_states", "read_qualifier"]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """What the words before a figure say about it (see `figures.Figure`)."""

    bound: int = 0
    part: str = ""
    approximate: bool = False

    def and_also(self, other: "Qualifier") -> "Qualifier":
        """Join two qualifiers of one figure, the later one winning."""
        return Qualifier(
            other.bound or self.bound,
            other.part or self.part,
            self.approximate or other.approximate,
        )


_AT_LEAST = (
    "at least, no less than, not less than, no fewer than, more than, greater than, higher than, longer than, "
    "later than, minimum, over, above, exceeding, after, not under, not below, not before"
)
_AT_MOST = (
    "at most, no more than, not more than, no later than, not later than, no longer than, not exceeding, not above, "
    "not over, not after, up to, less than, fewer than, lower than, earlier than, maximum, under, below, before"
)
_ABOUT = "about, around, approximately, approx, roughly, nearly, almost, circa, ca, c, some"
_BY_WORDS = {
    tuple(phrase.split()): meaning
    for phrases, meaning in (
        (_AT_LEAST, Qualifier(bound=1)),
        (_AT_MOST, Qualifier(bound=-1)),
        (_ABOUT, Qualifier(approximate=True)),
    )
    for phrase in phrases.split(", ")
}
_PARTS = {
    "early": "early",
    "beginning": "early",
    "mid": "mid",
    "middle": "mid",
    "late": "late",
    "end": "late",
}
_LONGEST = 3
_CHAIN = 6
_LINKS = frozenset({"of", "in", "the", "a", "-"})


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and its qualifiers.

    `bound` is 1 for "at least", "over", "after", -1 for the opposite, 0 where nothing is said. `part` is "early",
    "mid" or "late" before a date. `approximate` stands for "about"; `ranged` marks the end of a range or one of
    several offered values ("three or six months").
    """

    value: Quantity | Date | ClockTime
    bound: int = 0
    part: str = ""
    approximate: bool = False
    ranged: bool = False


def read_qualifier(pieces: Sequence[Lexeme], at: int) -> tuple[Qualifier, int] | None:
    """Read the qualifiers that start at a lexeme, with the index of what they qualify.

    Whether a figure follows is for the caller to see: "under the bridge" qualifies nothing.

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> read_qualifier(lexemes("no more than about 20"), 0)
    (Qualifier(bound=-1, part='', approximate=True), 4)
    """
    found = _one(pieces, at)
    if found is None:
        return None
    meaning, end = found
    # More than a few in a row qualify nothing.
    for _ in range(_CHAIN):
        after = end + (text_at(pieces, end) in _LINKS)
        further = _one(pieces, after)
        if further is None:
            return meaning, end
        meaning, end = meaning.and_also(further[0]), further[1]
    return None


def figure_states(wanted: Figure, said: Figure, understood: frozenset[str] = frozenset()) -> bool:
    """Return whether a said figure states the wanted one.

    A qualifier may be left out, because the question usually carries it, but not replaced by its opposite. One end of
    a range does not state a single number.
    """
    return (
        _value_states(wanted, said, understood)
        and wanted.bound * said.bound >= 0
        and (not wanted.part or not said.part or wanted.part == said.part)
        and (wanted.ranged or not said.ranged)
    )


def _one(pieces: Sequence[Lexeme], at: int) -> tuple[Qualifier, int] | None:
    for length in range(_LONGEST, 0, -1):
        words = tuple(piece.text for piece in pieces[at : at + length])
        if words in _BY_WORDS:
            return _BY_WORDS[words], at + len(words)
    word = text_at(pieces, at)
    return (Qualifier(part=_PARTS[word]), at + 1) if word in _PARTS else None


def _value_states(wanted: Figure, said: Figure, understood: frozenset[str]) -> bool:
    if isinstance(wanted.value, Quantity) and isinstance(said.value, Quantity):
        return same_quantity(wanted.value, said.value, understood, approximate=wanted.approximate)
    if isinstance(wanted.value, Date) and isinstance(said.value, Date):
        return date_states(wanted.value, said.value)
    if isinstance(wanted.value, ClockTime) and isinstance(said.value, ClockTime):
        return not wanted.value.minutes.isdisjoint(said.value.minutes)
    if isinstance(wanted.value, Quantity) and isinstance(said.value, Date) and wanted.value.units:
        year = _bare_year(said.value)
        return year is not None and same_quantity(
            wanted.value, replace(wanted.value, number=Fraction(year)), understood
        )
    number = _bare_year(wanted.value)
    if isinstance(said.value, Quantity) and said.value.units and number is not None:
        return same_quantity(Quantity(Fraction(number)), said.value, understood)
    return number is not None and number == _bare_year(said.value)


def _bare_year(value: Quantity | Date | ClockTime) -> int | None:
    """A number that may be a year or a count ("1200")."""
    if isinstance(value, Date) and value == Date(value.year):
        return value.year
    if isinstance(value, Quantity) and not value.units and value.number.denominator == 1:
        return int(value.number)
    return None
