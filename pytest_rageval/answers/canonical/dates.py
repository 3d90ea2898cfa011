"""Parses calendar dates, times of day and rates ("a week", "weekly"), and compares dates.

A date has any of year, month and day. A year may stand for a decade or a century. A predicted date matches an expected
one if it is equal or more exact: "May 1974" matches "1974", but "1974" does not match "May 1974".
"""

from dataclasses import dataclass, replace

from pytest_rageval.answers.canonical.quantities import Number, read_number
from pytest_rageval.answers.canonical.words import (
    Lexemes,
    numbers_by_word,
    parse_pairs,
    skip_words,
    text_at,
    word_set,
)

_MONTHS = numbers_by_word(
    "january february march april may june july august september october november december", start=1
)
_SHORT_MONTHS = {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}

# A month that is also a common word is a month only with a day or a year, or after one of the words below.
_AMBIGUOUS_MONTHS = frozenset({"may", "march"})
_BEFORE_MONTH = word_set("in of since until till by from during last next early mid late every each this")
_BEFORE_DECADE = word_set("the ' early mid late -")
_ERAS = {"bc": -1, "ad": 1, "ce": 1}
_NAMED_DECADES = numbers_by_word("twenties thirties forties fifties sixties seventies eighties nineties", 2)
_YEARS = range(1000, 2200)
_DAYS = range(1, 32)
_MONTH_NUMBERS = range(1, 13)
_DECADE, _CENTURY = 10, 100
_SHORT_YEAR_LENGTH = 2
_YEAR_LENGTH = 4
_PERIODS = word_set("hour day week month quarter year annum minute second")
_ADVERBS = parse_pairs(
    "hourly hour, daily day, weekly week, monthly month, quarterly quarter, yearly year, annual year, annually year"
)
_NOON, _MIDNIGHT = 12, 24
_HOUR = 60
_PARTS_OF_HOUR = {"half": 30, "quarter": 15}
_NAMED_TIMES = {"noon": _NOON * _HOUR, "midday": _NOON * _HOUR, "midnight": 0}

# What may follow the first number of a time, and of a date that is not only a year.
_AFTER_NUMBERS = word_set("minutes past am pm a p oclock of to and or - / ' s century centuries").union(
    _ERAS, _MONTHS, _SHORT_MONTHS
)
_RATE_WORDS = word_set("once per each every / a an").union(_ADVERBS)

# Words other than numbers that a date, a time or a rate may start with.
FIRST_WORDS = word_set("once per each every ad").union(
    _ADVERBS, _PARTS_OF_HOUR, _NAMED_TIMES, _MONTHS, _SHORT_MONTHS, _NAMED_DECADES
)


@dataclass(frozen=True, slots=True)
class Date:
    """A date, a decade or a century."""

    year: int | None = None  # negative before Christ; the first one of a decade or a century
    month: int | None = None
    day: int | None = None
    span: int = 1  # the number of years: 1, 10 or 100
    swapped: "Date | None" = None  # the other reading of a numeric date with two, such as 04/05/1974

    @property
    def exactness(self) -> int:
        """How many of year, month and day the date has; 0 for a decade or a century."""
        return sum(part is not None for part in (self.year, self.month, self.day)) - (self.span > 1)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day."""

    minutes: frozenset[int]  # since midnight, of each reading: "9:30" may be in the morning or in the evening


def read_dates(lexemes: Lexemes, index: int) -> tuple[tuple[Date, ...], int] | None:
    """Parse the date (or the two of "1939-45") that starts at a lexeme; return it with the index after it, or None.

    A number from 1000 to 2199 is parsed as a year. The caller checks whether a unit follows it.

    >>> from pytest_rageval.answers.canonical.words import split_lexemes
    >>> british, american = (read_dates(split_lexemes(text), 0) for text in ("9 november 1989", "november 9 , 1989"))
    >>> british[0] == american[0], british[1], american[1]
    (True, 3, 4)
    """
    if lexemes[index].kind == "date":
        numeric = _read_numeric_date(lexemes[index].text)
        return ((numeric,), index + 1) if numeric else None
    days = _read_day_range(lexemes, index)
    if days is not None:
        return days
    for read in (_read_century, _read_decade, _read_era_year, _read_day_month, _read_month_day):
        date = read(lexemes, index)
        if date is not None:
            return (date[0],), date[1]
    return read_years(lexemes, index)


def read_years(lexemes: Lexemes, index: int) -> tuple[tuple[Date, ...], int] | None:
    """Parse the year (or the two of "1939-45") that starts at a lexeme; return it with the index after it, or None."""
    year = _read_year(lexemes, index)
    return _read_year_range(lexemes, *year) if year else None


def is_lone_number(lexemes: Lexemes, index: int) -> bool:
    """Return True if a number starts at a lexeme, and what follows it makes it no time, and no date but a year."""
    number = read_number(lexemes, index)
    return (
        number is not None
        and text_at(lexemes, number.end) not in _AFTER_NUMBERS
        and lexemes[index].text not in {"a", "an", "half"}
    )


def date_matches(expected: Date, predicted: Date) -> bool:
    """Return True if a predicted date equals the expected one or lies within it.

    >>> date_matches(Date(1974), Date(1974, 5)), date_matches(Date(1974, 5), Date(1974))
    (True, False)
    >>> date_matches(Date(1960, span=10), Date(1965))
    True
    """
    readings = [date for date in (predicted, predicted.swapped) if date]
    return any(
        _lies_within(reading, date) for date in (expected, expected.swapped) if date for reading in readings
    )


def dates_compatible(first: Date, second: Date) -> bool:
    """Return True if two dates may be the same day: the parts that both have are equal.

    >>> dates_compatible(Date(1974), Date(1974, 5)), dates_compatible(Date(1974, 5), Date(1974, 6))
    (True, False)
    """
    readings = [(a, b) for a in (first, first.swapped) if a for b in (second, second.swapped) if b]
    return any(
        all(
            None in pair or len(set(pair)) == 1
            for pair in ((a.year, b.year), (a.month, b.month), (a.day, b.day))
        )
        for a, b in readings
    )


def _lies_within(date: Date, period: Date) -> bool:
    if period.year is not None and (
        date.year is None
        or not period.year <= date.year <= date.year + date.span - 1 <= period.year + period.span - 1
    ):
        return False
    return period.month in {None, date.month} and period.day in {None, date.day}


def read_rate(lexemes: Lexemes, index: int, *, counted: bool) -> tuple[str, int] | None:
    """Parse the rate that starts at a lexeme; return one word for it, such as "perweek", with the index after it.

    `counted` is True after a number: only there, and after "once", is "a week" a rate and not one week. "once" does not
    change the rate.

    >>> from pytest_rageval.answers.canonical.words import split_lexemes
    >>> read_rate(split_lexemes("once a week"), 0, counted=False), read_rate(split_lexemes("a week"), 0, counted=False)
    (('perweek', 3), None)
    >>> read_rate(split_lexemes("per annum"), 0, counted=True)
    ('peryear', 2)
    """
    if text_at(lexemes, index) not in _RATE_WORDS:
        return None
    once = text_at(lexemes, index) == "once"
    start = index + once
    word, period = text_at(lexemes, start), text_at(lexemes, start + 1)
    if word in _ADVERBS:
        return f"per{_ADVERBS[word]}", start + 1
    introduced = word in {"per", "each", "every", "/"} or (word in {"a", "an"} and (counted or once))
    if introduced and period in _PERIODS:
        return f"per{'year' if period == 'annum' else period}", start + 2
    return None


def _read_numeric_date(text: str) -> Date | None:
    first, second, third = (int(part) for part in text.replace("/", "-").replace(".", "-").split("-"))
    if first > _DAYS[-1]:
        readings = [Date(first, second, third)]
    else:
        readings = [Date(third, second, first), Date(third, first, second)]
    valid = [date for date in readings if date.month in _MONTH_NUMBERS and date.day in _DAYS]
    return replace(valid[0], swapped=valid[1] if valid[1:] else None) if valid else None


def _read_day_range(lexemes: Lexemes, index: int) -> tuple[tuple[Date, ...], int] | None:
    """Parse "30-31 October 2000" or "October 30 to 31, 2000" as two dates."""
    month_first = _month_number(lexemes, index) is not None
    first = _read_day(lexemes, index + month_first)
    if first is None or text_at(lexemes, first[1]) not in {"-", "to", "and", "or", "/"}:
        return None
    last = (
        _read_month_day(lexemes, index, first[1] + 1)
        if month_first
        else _read_day_month(lexemes, first[1] + 1)
    )
    if last is None or last[0].day is None:
        return None
    return (replace(last[0], day=first[0]), last[0]), last[1]


def _month_number(lexemes: Lexemes, index: int) -> int | None:
    word = text_at(lexemes, index)
    return _MONTHS.get(word) or _SHORT_MONTHS.get(word)


def _read_day(lexemes: Lexemes, index: int) -> tuple[int, int] | None:
    number = read_number(lexemes, index)
    if number is None or number.value not in _DAYS or number.is_fraction or "." in lexemes[index].text:
        return None
    return int(number.value), number.end


def _read_month_day(lexemes: Lexemes, index: int, day_index: int | None = None) -> tuple[Date, int] | None:
    """Parse "November 9, 1989", "Nov 1989" or "November"; `day_index` is after the month by default."""
    month = _month_number(lexemes, index)
    if month is None:
        return None
    day = _read_day(lexemes, day_index or index + 1 + (text_at(lexemes, index + 1) == "the"))
    if day is not None:
        return _add_year(lexemes, day[1], Date(month=month, day=day[0]))
    date, end = _add_year(lexemes, index + 1, Date(month=month))
    word = text_at(lexemes, index)
    introduced = text_at(lexemes, index - 1) in _BEFORE_MONTH or len(lexemes) == 1
    named = word in _MONTHS and (word not in _AMBIGUOUS_MONTHS or introduced)
    return (date, end) if date.year is not None or named else None


def _read_day_month(lexemes: Lexemes, index: int) -> tuple[Date, int] | None:
    """Parse "9 November 1989" or "4th of July"."""
    day = _read_day(lexemes, index)
    if day is None:
        return None
    after = skip_words(lexemes, day[1], {"of", "-"})
    month = _month_number(lexemes, after)
    return _add_year(lexemes, after + 1, Date(month=month, day=day[0])) if month else None


def _add_year(lexemes: Lexemes, index: int, date: Date) -> tuple[Date, int]:
    year = _read_year(lexemes, skip_words(lexemes, index, {",", "of", "in"}))
    return (replace(date, year=year[0].year), year[1]) if year else (date, index)


def _read_year(lexemes: Lexemes, index: int) -> tuple[Date, int] | None:
    """Parse a year of four digits or a spoken year; do not check whether a unit follows it."""
    number = read_number(lexemes, index)
    if number is None or number.is_ordinal or number.value.denominator != 1:
        return None
    # `int`: a range finds an int without iterating, but not a Fraction.
    if int(number.value) not in _YEARS:
        return None
    words = [lexeme.text for lexeme in lexemes[index : number.end]]
    if lexemes[index].kind == "number":
        plain = len(words) == 1 and len(words[0]) == _YEAR_LENGTH
    else:
        plain = lexemes[index].kind != "word" or not {"thousand", "hundred"} & set(words)
    return (Date(int(number.value)), number.end) if plain else None


def _read_century(lexemes: Lexemes, index: int) -> tuple[Date, int] | None:
    """Parse "19th century", "nineteenth-century" or "5th century bc"."""
    number = read_number(lexemes, index)
    if number is None or not number.is_ordinal:
        return None
    end = number.end + (text_at(lexemes, number.end) == "-")
    if text_at(lexemes, end) not in {"century", "centuries"}:
        return None
    century, era = int(number.value), _ERAS.get(text_at(lexemes, end + 1), 0)
    first_year = -century * _CENTURY if era < 0 else (century - 1) * _CENTURY + 1
    return Date(first_year, span=_CENTURY), end + 1 + bool(era)


def _read_decade(lexemes: Lexemes, index: int) -> tuple[Date, int] | None:
    word = text_at(lexemes, index)
    introduced = text_at(lexemes, index - 1) in _BEFORE_DECADE
    if word in _NAMED_DECADES and introduced:
        return Date(1900 + _DECADE * _NAMED_DECADES[word], span=_DECADE), index + 1
    apostrophe = text_at(lexemes, index + 1) == "'"
    plural = text_at(lexemes, index + 1 + apostrophe) == "s" and lexemes[index + 1].touches_previous
    if not word.isdigit() or not plural or int(word) % _DECADE:
        return None
    end = index + 2 + apostrophe
    if len(word) == _YEAR_LENGTH:
        return Date(int(word), span=_DECADE), end
    if len(word) == _SHORT_YEAR_LENGTH and introduced:
        return Date(1900 + int(word), span=_DECADE), end
    return None


def _read_era_year(lexemes: Lexemes, index: int) -> tuple[Date, int] | None:
    """Parse "480 bc", "ad 79" or "79 ce"."""
    word, following = text_at(lexemes, index), text_at(lexemes, index + 1)
    if word == "ad" and following.isdigit():
        return Date(int(following)), index + 2
    if word.isdigit() and following in _ERAS:
        return Date(int(word) * _ERAS[following]), index + 2
    return None


def _read_year_range(lexemes: Lexemes, first: Date, end: int) -> tuple[tuple[Date, ...], int]:
    """Parse the short second year of "1939-45", if there is one."""
    short = text_at(lexemes, end + 1)
    if (
        text_at(lexemes, end) in {"-", "/"}
        and len(short) == _SHORT_YEAR_LENGTH
        and short.isdigit()
        and lexemes[end + 1].touches_previous
        and first.year is not None
    ):
        last = first.year // _CENTURY * _CENTURY + int(short)
        if last > first.year:
            return (first, Date(last)), end + 2
    return (first,), end


def read_clock_time(lexemes: Lexemes, index: int) -> tuple[ClockTime, int] | None:
    """Parse the time that starts at a lexeme; return it with the index after it, or None.

    "half past nine", "9 am", "9.30 am", "9 o'clock", "09:30" and "noon" are times. A number alone is not.

    >>> from pytest_rageval.answers.canonical.words import split_lexemes
    >>> read_clock_time(split_lexemes("2 p.m."), 0)[0] == read_clock_time(split_lexemes("14:00"), 0)[0]
    True
    >>> read_clock_time(split_lexemes("14 days"), 0) is None
    True
    """
    spoken = _read_spoken_time(lexemes, index)
    if spoken is not None:
        return spoken
    lexeme = lexemes[index]
    if lexeme.text in _NAMED_TIMES:
        return ClockTime(frozenset({_NAMED_TIMES[lexeme.text]})), index + 1
    end = index + 1
    if lexeme.kind == "clock" or (lexeme.kind == "number" and "." in lexeme.text):
        hour, minute = (int(part or 0) for part in lexeme.text.replace(".", ":").split(":"))
    else:
        number = _read_cardinal(lexemes, index) if lexeme.kind in {"number", "word"} else None
        if number is None or number.value not in range(_MIDNIGHT + 1):
            return None
        hour, minute, end = int(number.value), 0, number.end
    am_pm, after = _read_am_pm(lexemes, end)
    if text_at(lexemes, after) == "oclock":
        am_pm_after, after = _read_am_pm(lexemes, after + 1)
        am_pm = am_pm or am_pm_after
    elif lexeme.kind != "clock" and not am_pm:
        return None
    time = _clock_time(hour, minute, am_pm, leading_zero=lexeme.text.startswith("0"))
    return (time, after) if time else None


def _read_cardinal(lexemes: Lexemes, index: int) -> Number | None:
    number = read_number(lexemes, index)
    return None if number is None or number.is_ordinal or number.is_fraction else number


def _read_spoken_time(lexemes: Lexemes, index: int) -> tuple[ClockTime, int] | None:
    """Parse "half past nine", "a quarter to ten" or "ten past nine pm"."""
    start = index + (text_at(lexemes, index) in {"a", "an"})
    word = text_at(lexemes, start)
    if word in _PARTS_OF_HOUR:
        minutes, link = _PARTS_OF_HOUR[word], start + 1
    else:
        number = _read_cardinal(lexemes, start)
        if number is None or number.value not in range(1, _HOUR // 2):
            return None
        minutes, link = int(number.value), number.end + (text_at(lexemes, number.end) == "minutes")
    past = text_at(lexemes, link) == "past"
    # "ten to twelve" may be a range, so "to" makes a time only after "quarter".
    if not past and not (text_at(lexemes, link) == "to" and word == "quarter"):
        return None
    hour = read_number(lexemes, link + 1)
    if hour is None or hour.value not in range(1, _NOON + 1):
        return None
    am_pm, end = _read_am_pm(lexemes, hour.end)
    full_hour = int(hour.value)
    time = _clock_time(*(full_hour, minutes) if past else (full_hour - 1 or _NOON, _HOUR - minutes), am_pm)
    return (time, end) if time else None


def _read_am_pm(lexemes: Lexemes, index: int) -> tuple[str, int]:
    """Parse "am" or "p.m." after a time; the lexer drops the full stops. Return "a", "p" or an empty text."""
    word = text_at(lexemes, index)
    if word in {"am", "pm"}:
        return word[0], index + 1
    if word in {"a", "p"} and text_at(lexemes, index + 1) == "m":
        return word, index + 2
    return "", index


def _clock_time(hour: int, minute: int, am_pm: str, *, leading_zero: bool = False) -> ClockTime | None:
    if hour > _MIDNIGHT or minute >= _HOUR or (am_pm and not 0 < hour <= _NOON):
        return None
    if am_pm:
        hours = {hour % _NOON + (_NOON if am_pm == "p" else 0)}
    else:
        # "9:30" may be in the morning or in the evening, but "09:30" is in the morning.
        ambiguous = 0 < hour <= _NOON and not leading_zero
        hours = {hour % _MIDNIGHT, hour % _NOON + _NOON} if ambiguous else {hour % _MIDNIGHT}
    return ClockTime(frozenset(hour * _HOUR + minute for hour in hours))
