"""Calendar dates, times of day and rates ("a week", "weekly") as they are written, and when one states another.

A date has any of year, month and day. A year may stand for a decade or a century. A wanted date is stated by an equal
or a more exact one: "May 1974" states "1974", but not the other way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_rageval.answers.canonical.numbers import read_number
from pytest_rageval.answers.canonical.words import Lexeme, listed, numbered, pairs, skip, text_at

__all__ = [
    "STARTS",
    "ClockTime",
    "Date",
    "date_states",
    "dates_agree",
    "read_clock_time",
    "read_dates",
    "read_rate",
]

_MONTHS = numbered(
    "january february march april may june july august september october november december", start=1
)
_SHORT_MONTHS = {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}

# Months that are words or verbs as well count only next to a number or after these.
_AMBIGUOUS = frozenset({"may", "march"})
_BEFORE_MONTH = listed("in of since until till by from during last next early mid late every each this")
_BEFORE_DECADE = listed("the ' early mid late -")
_ERAS = {"bc": -1, "ad": 1, "ce": 1}
_NAMED_DECADES = numbered("twenties thirties forties fifties sixties seventies eighties nineties", 2)
_YEARS = range(1000, 2200)
_DAYS = range(1, 32)
_MONTH_NUMBERS = range(1, 13)
_DECADE, _CENTURY = 10, 100
_SHORT_YEAR_LENGTH = 2
_YEAR_LENGTH = 4
_PERIODS = listed("hour day week month quarter year annum minute second")
_ADVERBS = pairs(
    "hourly hour, daily day, weekly week, monthly month, quarterly quarter, yearly year, annual year, annually year"
)
_NOON, _MIDNIGHT = 12, 24
_HOUR = 60
_PARTS_OF_HOUR = {"half": 30, "quarter": 15}
_NAMED_TIMES = {"noon": _NOON * _HOUR, "midday": _NOON * _HOUR, "midnight": 0}

# What dates, times and rates start with where it is a word and no number.
STARTS = frozenset(
    {
        "once",
        "per",
        "each",
        "every",
        "ad",
        *_ADVERBS,
        *_PARTS_OF_HOUR,
        *_NAMED_TIMES,
        *_MONTHS,
        *_SHORT_MONTHS,
    }
    | {*_NAMED_DECADES}
)


@dataclass(frozen=True, slots=True)
class Date:
    """Parts of a date; None where a part is not given.

    `span` is how many years the year stands for (1, 10 or 100, counted from it on); a year before Christ is negative.
    `swapped` is the other reading of a numeric date whose first two numbers may both be months.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    span: int = 1
    swapped: "Date | None" = None

    @property
    def exactness(self) -> int:
        """The number of given parts, of year, month and day; 0 for a decade or a century."""
        return sum(part is not None for part in (self.year, self.month, self.day)) - (self.span > 1)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """The minutes since midnight that a written time may mean."""

    minutes: frozenset[int]


def read_dates(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Date, ...], int] | None:
    """Read the date that starts at a lexeme (two for "1939-45"), with the index after it.

    A number of four digits between 1000 and 2199 is a year wherever the caller finds no unit after it.

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> british, american = (read_dates(lexemes(text), 0) for text in ("9 november 1989", "november 9 , 1989"))
    >>> british[0] == american[0], british[1], american[1]
    (True, 3, 4)
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


def date_states(wanted: Date, said: Date) -> bool:
    """Return whether a said date lies inside the wanted one.

    >>> date_states(Date(1974), Date(1974, 5)), date_states(Date(1974, 5), Date(1974))
    (True, False)
    >>> date_states(Date(1960, span=10), Date(1965))
    True
    """
    readings = [date for date in (said, said.swapped) if date]
    return any(_inside(want, have) for want in (wanted, wanted.swapped) if want for have in readings)


def dates_agree(one: Date, other: Date) -> bool:
    """Return whether two dates may be one day: the parts that both give are equal.

    >>> dates_agree(Date(1974), Date(1974, 5)), dates_agree(Date(1974, 5), Date(1974, 6))
    (True, False)
    """
    readings = [(a, b) for a in (one, one.swapped) if a for b in (other, other.swapped) if b]
    return any(
        all(
            None in pair or len(set(pair)) == 1
            for pair in ((a.year, b.year), (a.month, b.month), (a.day, b.day))
        )
        for a, b in readings
    )


def _inside(wanted: Date, said: Date) -> bool:
    if wanted.year is not None and (
        said.year is None
        or not wanted.year <= said.year <= said.year + said.span - 1 <= wanted.year + wanted.span - 1
    ):
        return False
    return wanted.month in {None, said.month} and wanted.day in {None, said.day}


def read_rate(pieces: Sequence[Lexeme], at: int, *, counted: bool) -> tuple[str, int] | None:
    """Read a rate that starts at a lexeme, as one made-up word with the index after it.

    `counted` says that a number stands before it: only then is "a week" a rate and not one week. "once" before a rate
    adds nothing to it.

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> read_rate(lexemes("once a week"), 0, counted=False), read_rate(lexemes("a week"), 0, counted=False)
    (('perweek', 3), None)
    >>> read_rate(lexemes("per annum"), 0, counted=True)
    ('peryear', 2)
    """
    once = text_at(pieces, at) == "once"
    start = at + once
    word, period = text_at(pieces, start), text_at(pieces, start + 1)
    if word in _ADVERBS:
        return f"per{_ADVERBS[word]}", start + 1
    introduced = word in {"per", "each", "every", "/"} or (word in {"a", "an"} and (counted or once))
    if introduced and period in _PERIODS:
        return f"per{'year' if period == 'annum' else period}", start + 2
    return None


def _numeric(text: str) -> Date | None:
    """Read 2017-12-15, 15.12.2017 or 12/15/2017."""
    first, second, third = (int(part) for part in text.replace("/", "-").replace(".", "-").split("-"))
    if first > _DAYS[-1]:
        readings = [Date(first, second, third)]
    else:
        readings = [Date(third, second, first), Date(third, first, second)]
    valid = [date for date in readings if date.month in _MONTH_NUMBERS and date.day in _DAYS]
    return replace(valid[0], swapped=valid[1] if valid[1:] else None) if valid else None


def _days_range(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Date, ...], int] | None:
    """Read "30-31 October 2000" and "October 30 to 31, 2000" as two dates."""
    month_first = _month(pieces, at) is not None
    first = _day(pieces, at + month_first)
    if first is None or text_at(pieces, first[1]) not in {"-", "to", "and", "or", "/"}:
        return None
    last = _month_day(pieces, at, first[1] + 1) if month_first else _day_month(pieces, first[1] + 1)
    if last is None or last[0].day is None:
        return None
    return (replace(last[0], day=first[0]), last[0]), last[1]


def _month(pieces: Sequence[Lexeme], at: int) -> int | None:
    word = text_at(pieces, at)
    return _MONTHS.get(word) or _SHORT_MONTHS.get(word)


def _day(pieces: Sequence[Lexeme], at: int) -> tuple[int, int] | None:
    number = read_number(pieces, at)
    if number is None or number.value not in _DAYS or number.part or "." in pieces[at].text:
        return None
    return int(number.value), number.end


def _month_day(pieces: Sequence[Lexeme], at: int, day_at: int | None = None) -> tuple[Date, int] | None:
    """Read "November 9, 1989", "Nov 1989" and "November".

    `day_at` is the index of the day where it does not follow the month.
    """
    month = _month(pieces, at)
    if month is None:
        return None
    day = _day(pieces, day_at or at + 1 + (text_at(pieces, at + 1) == "the"))
    if day is not None:
        return _then_year(pieces, day[1], Date(month=month, day=day[0]))
    date, end = _then_year(pieces, at + 1, Date(month=month))
    word = text_at(pieces, at)
    alone = text_at(pieces, at - 1) in _BEFORE_MONTH or len(pieces) == 1
    named = word in _MONTHS and (word not in _AMBIGUOUS or alone)
    return (date, end) if date.year is not None or named else None


def _day_month(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "9 November 1989" and "the 4th of July"."""
    day = _day(pieces, at)
    if day is None:
        return None
    after = skip(pieces, day[1], {"of", "-"})
    month = _month(pieces, after)
    return _then_year(pieces, after + 1, Date(month=month, day=day[0])) if month else None


def _then_year(pieces: Sequence[Lexeme], at: int, date: Date) -> tuple[Date, int]:
    year = _year(pieces, skip(pieces, at, {",", "of", "in"}))
    return (replace(date, year=year[0].year), year[1]) if year else (date, at)


def _year(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read a year of four digits or a spoken one, without looking at what follows."""
    number = read_number(pieces, at)
    # A range would be searched for a Fraction from end to end.
    if number is None or number.ordinal or number.value.denominator != 1 or int(number.value) not in _YEARS:
        return None
    said = [piece.text for piece in pieces[at : number.end]]
    if pieces[at].kind == "number":
        plain = len(said) == 1 and len(said[0]) == _YEAR_LENGTH
    else:
        plain = pieces[at].kind != "word" or not {"thousand", "hundred"} & set(said)
    return (Date(int(number.value)), number.end) if plain else None


def _century(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "19th century", "nineteenth-century" and "5th century bc"."""
    number = read_number(pieces, at)
    if number is None or not number.ordinal:
        return None
    end = number.end + (text_at(pieces, number.end) == "-")
    if text_at(pieces, end) not in {"century", "centuries"}:
        return None
    count, era = int(number.value), _ERAS.get(text_at(pieces, end + 1), 0)
    first = -count * _CENTURY if era < 0 else (count - 1) * _CENTURY + 1
    return Date(first, span=_CENTURY), end + 1 + bool(era)


def _decade(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "1960s", "the 60s", "'60s" and "the sixties"."""
    word = text_at(pieces, at)
    introduced = text_at(pieces, at - 1) in _BEFORE_DECADE
    if word in _NAMED_DECADES and introduced:
        return Date(1900 + _DECADE * _NAMED_DECADES[word], span=_DECADE), at + 1
    apostrophe = text_at(pieces, at + 1) == "'"
    plural = text_at(pieces, at + 1 + apostrophe) == "s" and pieces[at + 1].glued
    if not word.isdigit() or not plural or int(word) % _DECADE:
        return None
    end = at + 2 + apostrophe
    if len(word) == _YEAR_LENGTH:
        return Date(int(word), span=_DECADE), end
    if len(word) == _SHORT_YEAR_LENGTH and introduced:
        return Date(1900 + int(word), span=_DECADE), end
    return None


def _era_year(pieces: Sequence[Lexeme], at: int) -> tuple[Date, int] | None:
    """Read "480 bc", "ad 79" and "79 ce"."""
    word, following = text_at(pieces, at), text_at(pieces, at + 1)
    if word == "ad" and following.isdigit():
        return Date(int(following)), at + 2
    if word.isdigit() and following in _ERAS:
        return Date(int(word) * _ERAS[following]), at + 2
    return None


def _year_range(pieces: Sequence[Lexeme], first: Date, end: int) -> tuple[tuple[Date, ...], int]:
    """Read on over the short second year of "1939-45"."""
    short = text_at(pieces, end + 1)
    if (
        text_at(pieces, end) in {"-", "/"}
        and len(short) == _SHORT_YEAR_LENGTH
        and short.isdigit()
        and pieces[end + 1].glued
        and first.year is not None
    ):
        last = first.year // _CENTURY * _CENTURY + int(short)
        if last > first.year:
            return (first, Date(last)), end + 2
    return (first,), end


def read_clock_time(pieces: Sequence[Lexeme], at: int) -> tuple[ClockTime, int] | None:
    """Read the time that starts at a lexeme, with the index after it.

    A bare number is not a time; "half past nine", "9 am", "9.30 am", "9 o'clock", "09:30" and "noon" are.

    >>> from pytest_rageval.answers.canonical.words import lexemes
    >>> read_clock_time(lexemes("2 p.m."), 0)[0] == read_clock_time(lexemes("14:00"), 0)[0]
    True
    >>> read_clock_time(lexemes("14 days"), 0) is None
    True
    """
    spoken = _to_or_past(pieces, at)
    if spoken is not None:
        return spoken
    piece = pieces[at]
    if piece.text in _NAMED_TIMES:
        return ClockTime(frozenset({_NAMED_TIMES[piece.text]})), at + 1
    end = at + 1
    if piece.kind == "clock" or (piece.kind == "number" and "." in piece.text):
        hour, minute = (int(part or 0) for part in piece.text.replace(".", ":").split(":"))
    else:
        number = read_number(pieces, at) if piece.kind in {"number", "word"} else None
        if number is None or number.ordinal or number.part or number.value not in range(_MIDNIGHT + 1):
            return None
        hour, minute, end = int(number.value), 0, number.end
    half, after = _half_of_day(pieces, end)
    if text_at(pieces, after) == "oclock":
        late, after = _half_of_day(pieces, after + 1)
        half = half or late
    elif piece.kind != "clock" and not half:
        return None
    time = _time(hour, minute, half, leading_zero=piece.text.startswith("0"))
    return (time, after) if time else None


def _to_or_past(pieces: Sequence[Lexeme], at: int) -> tuple[ClockTime, int] | None:
    """Read "half past nine", "a quarter to ten" and "ten past nine pm"."""
    start = at + (text_at(pieces, at) in {"a", "an"})
    word = text_at(pieces, start)
    if word in _PARTS_OF_HOUR:
        minutes, link = _PARTS_OF_HOUR[word], start + 1
    else:
        number = read_number(pieces, start)
        if number is None or number.ordinal or number.part or number.value not in range(1, _HOUR // 2):
            return None
        minutes, link = int(number.value), number.end + (text_at(pieces, number.end) == "minutes")
    past = text_at(pieces, link) == "past"
    # "ten to twelve" may be a range; "to" is trusted after "quarter" only.
    if not past and not (text_at(pieces, link) == "to" and word == "quarter"):
        return None
    hour = read_number(pieces, link + 1)
    if hour is None or hour.value not in range(1, _NOON + 1):
        return None
    half, end = _half_of_day(pieces, hour.end)
    full = int(hour.value)
    time = _time(*(full, minutes) if past else (full - 1 or _NOON, _HOUR - minutes), half)
    return (time, end) if time else None


def _half_of_day(pieces: Sequence[Lexeme], at: int) -> tuple[str, int]:
    """Read "am" or "p.m." (whose stops the lexer drops) after a time."""
    word = text_at(pieces, at)
    if word in {"am", "pm"}:
        return word[0], at + 1
    if word in {"a", "p"} and text_at(pieces, at + 1) == "m":
        return word, at + 2
    return "", at


def _time(hour: int, minute: int, half: str, *, leading_zero: bool = False) -> ClockTime | None:
    if hour > _MIDNIGHT or minute >= _HOUR or (half and not 0 < hour <= _NOON):
        return None
    if half:
        hours = {hour % _NOON + (_NOON if half == "p" else 0)}
    else:
        # "9:30" may also mean the evening.
        either = 0 < hour <= _NOON and not leading_zero
        hours = {hour % _MIDNIGHT, hour % _NOON + _NOON} if either else {hour % _MIDNIGHT}
    return ClockTime(frozenset(each * _HOUR + minute for each in hours))
