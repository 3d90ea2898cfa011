"""Calendar dates in their usual written forms, and when one states another.

A date knows any of year, month and day. A year may stand for a decade or a
century. A wanted date is stated by an equal or a more exact one: "May 1974"
states "1974", but not the other way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_rageval.answers.canonical.lexemes import Lexeme, listed, numbered, text_at
from pytest_rageval.answers.canonical.numbers import read_number

__all__ = ["Date", "date_states", "read_dates"]

_MONTHS = numbered(
    "january february march april may june july august september october november december", start=1
)
_SHORT_MONTHS = {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}
# Months that are words or verbs as well count only beside a number or after these.
_AMBIGUOUS = frozenset({"may", "march"})
_BEFORE_MONTH = listed("in of since until till by from during last next early mid late every each this")
_ERAS = {"bc": -1, "ad": 1, "ce": 1}
_NAMED_DECADES = {
    decade: 10 * tens
    for decade, tens in numbered(
        "twenties thirties forties fifties sixties seventies eighties nineties", 2
    ).items()
}
_YEARS = range(1000, 2200)
_DAYS = range(1, 32)
_MONTH_NUMBERS = range(1, 13)
_DECADE, _CENTURY = 10, 100
_SHORT_YEAR_LENGTH = 2
_YEAR_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Date:
    """Parts of a date; None where a part is not given.

    `span` is how many years the year stands for (1, 10 or 100, counted from
    it on); a year before Christ is negative. `swapped` is the other reading
    of a numeric date whose first two numbers may both be months.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    span: int = 1
    swapped: "Date | None" = None


def _numeric(text: str) -> Date | None:
    """Read 2017-12-15, 15.12.2017 or 12/15/2017."""
    first, second, third = (int(part) for part in text.replace("/", "-").replace(".", "-").split("-"))
    if first > _DAYS[-1]:
        year, month, day, other = first, second, third, None
    else:
        year, month, day, other = third, second, first, Date(third, first, second)
        if month not in _MONTH_NUMBERS:
            month, day, other = first, second, None
    if month not in _MONTH_NUMBERS or day not in _DAYS:
        return None
    return Date(year, month, day, swapped=other if other and day in _MONTH_NUMBERS else None)


def _year(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read a year of four digits or a spoken one, without looking at what follows."""
    if at >= len(pieces) or (pieces[at].kind == "number" and len(pieces[at].text) != _YEAR_LENGTH):
        return None
    number = read_number(pieces, at)
    if number is None or number.ordinal or number.value.denominator != 1 or int(number.value) not in _YEARS:
        return None
    spoken_scale = pieces[at].kind == "word" and any(
        piece.text in {"thousand", "hundred"} for piece in pieces[at : number.end]
    )
    if spoken_scale or (pieces[at].kind == "number" and number.end != at + 1):
        return None
    return Date(int(number.value)), number.end


def _era_year(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "480 bc", "ad 79" and "79 ce"."""
    if text_at(pieces, at) == "ad" and text_at(pieces, at + 1).isdigit():
        return Date(int(pieces[at + 1].text)), at + 2
    if text_at(pieces, at).isdigit() and text_at(pieces, at + 1) in _ERAS:
        return Date(int(pieces[at].text) * _ERAS[pieces[at + 1].text]), at + 2
    return None


def _decade(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "1960s", "the 60s", "'60s" and "the sixties"."""
    word = text_at(pieces, at)
    introduced = text_at(pieces, at - 1) in {"the", "'", "early", "mid", "late", "-"}
    if word in _NAMED_DECADES and introduced:
        return Date(1900 + _NAMED_DECADES[word], span=_DECADE), at + 1
    follows = at + 1 < len(pieces) and pieces[at + 1].glued
    suffix = text_at(pieces, at + 1) if follows else ""
    end = at + 2
    if suffix == "'" and text_at(pieces, at + 2) == "s":
        suffix, end = "s", at + 3
    if not word.isdigit() or suffix != "s" or int(word) % _DECADE:
        return None
    if len(word) == _YEAR_LENGTH:
        return Date(int(word), span=_DECADE), end
    if len(word) == _SHORT_YEAR_LENGTH and introduced:
        return Date(1900 + int(word), span=_DECADE), end
    return None


def _century(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "19th century", "nineteenth-century" and "5th century bc"."""
    number = read_number(pieces, at)
    if number is None or not number.ordinal:
        return None
    end = number.end + (text_at(pieces, number.end) == "-")
    if text_at(pieces, end) not in {"century", "centuries"}:
        return None
    count = int(number.value)
    if _ERAS.get(text_at(pieces, end + 1)) == -1:
        return Date(-count * _CENTURY, span=_CENTURY), end + 2
    return Date((count - 1) * _CENTURY + 1, span=_CENTURY), end + 1 + (text_at(pieces, end + 1) in _ERAS)


def _day(pieces: Sequence[Lexeme], at: int) -> tuple[int, int] | None:
    if at >= len(pieces) or (pieces[at].kind == "number" and "." in pieces[at].text):
        return None
    number = read_number(pieces, at)
    if number is None or number.value not in _DAYS or number.part:
        return None
    return int(number.value), number.end


def _month(pieces: Sequence[Lexeme], at: int) -> int | None:
    word = text_at(pieces, at)
    return _MONTHS.get(word) or _SHORT_MONTHS.get(word)


def _then_year(pieces: Sequence[Lexeme], at: int, date: Date) -> tuple[Date, int]:
    after = at
    while text_at(pieces, after) in {",", "of", "in"}:
        after += 1
    year = _year(pieces, after)
    return (replace(date, year=year[0].year), year[1]) if year else (date, at)


def _day_month(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "9 November 1989" and "the 4th of July"."""
    day = _day(pieces, at)
    if day is None:
        return None
    after = day[1]
    while text_at(pieces, after) in {"of", "-"}:
        after += 1
    month = _month(pieces, after)
    return _then_year(pieces, after + 1, Date(month=month, day=day[0])) if month else None


def _month_day(pieces: Sequence[Lexeme], at: int, day_at: int | None = None) -> tuple[Date, int] | None:
    """Read "November 9, 1989", "Nov 1989" and "November".

    `day_at` is where the day stands if not right behind the month.
    """
    month = _month(pieces, at)
    if month is None:
        return None
    day = _day(pieces, day_at or at + 1 + (text_at(pieces, at + 1) == "the"))
    if day is not None:
        return _then_year(pieces, day[1], Date(month=month, day=day[0]))
    date, end = _then_year(pieces, at + 1, Date(month=month))
    word = text_at(pieces, at)
    named = word in _MONTHS and (
        word not in _AMBIGUOUS or text_at(pieces, at - 1) in _BEFORE_MONTH or len(pieces) == 1
    )
    return (date, end) if date.year is not None or named else None


def _days_range(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Date, ...], int] | None:
    """Read "30-31 October 2000" and "October 30 to 31, 2000" as two dates."""
    start = at + 1 if _month(pieces, at) else at
    first = _day(pieces, start)
    if first is None or text_at(pieces, first[1]) not in {"-", "to", "and", "or", "/"}:
        return None
    last = _month_day(pieces, at, first[1] + 1) if start > at else _day_month(pieces, first[1] + 1)
    if last is None or last[0].day is None:
        return None
    return (replace(last[0], day=first[0]), last[0]), last[1]


def _year_range(pieces: Sequence[Lexeme], first: Date, end: int) -> tuple[tuple[Date, ...], int]:
    """Read on over the short second year of "1939-45"."""
    if text_at(pieces, end) in {"-", "/"} and end + 1 < len(pieces) and first.year is not None:
        short = pieces[end + 1]
        if (
            short.kind == "number"
            and short.glued
            and len(short.text) == _SHORT_YEAR_LENGTH
            and short.text.isdigit()
        ):
            last = first.year // _CENTURY * _CENTURY + int(short.text)
            if last > first.year:
                return (first, Date(last)), end + 2
    return (first,), end


def read_dates(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Date, ...], int] | None:
    """Read the date that starts at a lexeme (two for "1939-45"), with the index after it.

    A number of four digits between 1000 and 2199 is a year wherever the
    caller finds no unit after it.

    >>> from pytest_rageval.answers.canonical.lexemes import lexemes
    >>> read_dates(lexemes("9 november 1989"), 0) == read_dates(lexemes("november 9 , 1989"), 0)
    False
    >>> read_dates(lexemes("9 november 1989"), 0)[0] == read_dates(lexemes("november 9 , 1989"), 0)[0]
    True
    """
    if pieces[at].kind == "date":
        numeric = _numeric(pieces[at].text)
        return ((numeric,), at + 1) if numeric else None
    days = _days_range(pieces, at)
    if days is not None:
        return days
    for read in (_century, _decade, _era_year, _day_month, _month_day):
        found = read(pieces, at)
        if found is not None:
            return (found[0],), found[1]
    year = _year(pieces, at)
    return _year_range(pieces, *year) if year else None


def _inside(wanted: Date, said: Date) -> bool:
    if wanted.year is not None and (
        said.year is None
        or not wanted.year <= said.year <= said.year + said.span - 1 <= wanted.year + wanted.span - 1
    ):
        return False
    return wanted.month in {None, said.month} and wanted.day in {None, said.day}


def date_states(wanted: Date, said: Date) -> bool:
    """Tell whether a said date lies inside the wanted one.

    >>> date_states(Date(1974), Date(1974, 5)), date_states(Date(1974, 5), Date(1974))
    (True, False)
    >>> date_states(Date(1960, span=10), Date(1965))
    True
    """
    readings = [date for date in (said, said.swapped) if date]
    return any(_inside(want, have) for want in (wanted, wanted.swapped) if want for have in readings)
