"""Times of day and rates ("a week", "per week", "weekly"), and when one states another."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_rageval.answers.canonical.lexemes import Lexeme, text_at
from pytest_rageval.answers.canonical.numbers import read_number

__all__ = ["ClockTime", "read_clock_time", "read_rate", "same_time"]

_PERIODS = {
    "hour": ("hourly",),
    "day": ("daily",),
    "week": ("weekly",),
    "month": ("monthly",),
    "quarter": ("quarterly",),
    "year": ("yearly", "annual", "annually"),
    "annum": (),
    "minute": (),
    "second": (),
}
_ADVERBS = {adverb: period for period, adverbs in _PERIODS.items() for adverb in adverbs}


def read_rate(pieces: Sequence[Lexeme], at: int, *, counted: bool) -> tuple[str, int] | None:
    """Read a rate that starts at a lexeme, as one made-up word with the index after it.

    `counted` says that a number stands before it: only then is "a week" a
    rate and not one week. "once" before a rate adds nothing to it.

    >>> from pytest_rageval.answers.canonical.lexemes import lexemes
    >>> read_rate(lexemes("once a week"), 0, counted=False), read_rate(lexemes("a week"), 0, counted=False)
    (('perweek', 3), None)
    >>> read_rate(lexemes("per annum"), 0, counted=True)
    ('peryear', 2)
    """
    once = text_at(pieces, at) == "once"
    start = at + once
    word = text_at(pieces, start)
    if word in _ADVERBS:
        return f"per{_ADVERBS[word]}", start + 1
    introduced = word in {"per", "each", "every", "/"} or (word in {"a", "an"} and (counted or once))
    period = text_at(pieces, start + 1)
    if introduced and period in _PERIODS:
        return f"per{'year' if period == 'annum' else period}", start + 2
    return None


_HALF_DAY, _DAY = 12, 24
_HOUR = 60
_PARTS_OF_HOUR = {"half": 30, "quarter": 15}
_NAMED = {"noon": _HALF_DAY * _HOUR, "midday": _HALF_DAY * _HOUR, "midnight": 0}


@dataclass(frozen=True, slots=True)
class ClockTime:
    """The minutes since midnight that a written time may mean."""

    minutes: frozenset[int]


def _half_of_day(pieces: Sequence[Lexeme], at: int) -> tuple[str, int]:
    """Read "am", "p.m." (whose stops the lexer drops) or "o'clock" after a time."""
    word = text_at(pieces, at)
    if word in {"am", "pm"}:
        return word[0], at + 1
    if word in {"a", "p"} and text_at(pieces, at + 1) == "m":
        return word, at + 2
    return "", at


def _time(hour: int, minute: int, half: str, *, leading_zero: bool = False) -> ClockTime | None:
    if hour > _DAY or minute >= _HOUR or (half and not 0 < hour <= _HALF_DAY):
        return None
    if half:
        hour = hour % _HALF_DAY + (_HALF_DAY if half == "p" else 0)
        return ClockTime(frozenset({hour * _HOUR + minute}))
    minutes = {hour % _DAY * _HOUR + minute}
    if 0 < hour <= _HALF_DAY and not leading_zero:
        # "9:30" may be said of the evening as well.
        minutes.add((hour % _HALF_DAY + _HALF_DAY) * _HOUR + minute)
    return ClockTime(frozenset(minutes))


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
        minutes, link = int(number.value), number.end
        link += text_at(pieces, link) == "minutes"
    direction = text_at(pieces, link)
    # "ten to twelve" may be a range; "to" is trusted after "quarter" only.
    if direction != "past" and not (direction == "to" and word == "quarter"):
        return None
    hour = read_number(pieces, link + 1)
    if hour is None or hour.value not in range(1, _HALF_DAY + 1):
        return None
    half, end = _half_of_day(pieces, hour.end)
    past = direction == "past"
    time = _time(
        int(hour.value) if past else (int(hour.value) - 1) or _HALF_DAY,
        minutes if past else _HOUR - minutes,
        half,
    )
    return (time, end) if time else None


def read_clock_time(pieces: Sequence[Lexeme], at: int) -> tuple[ClockTime, int] | None:
    """Read the time that starts at a lexeme, with the index after it.

    A bare number is no time; "half past nine", "9 am", "9.30 am", "9 o'clock", "09:30" and
    "noon" are.

    >>> from pytest_rageval.answers.canonical.lexemes import lexemes
    >>> read_clock_time(lexemes("2 p.m."), 0)[0] == read_clock_time(lexemes("14:00"), 0)[0]
    True
    >>> read_clock_time(lexemes("14 days"), 0) is None
    True
    """
    spoken = _to_or_past(pieces, at)
    if spoken is not None:
        return spoken
    piece = pieces[at]
    if piece.text in _NAMED:
        return ClockTime(frozenset({_NAMED[piece.text]})), at + 1
    end = at + 1
    if piece.kind == "clock" or (piece.kind == "number" and "." in piece.text):
        hour, minute = (int(part or 0) for part in piece.text.replace(".", ":").split(":"))
    else:
        number = read_number(pieces, at) if piece.kind in {"number", "word"} else None
        if number is None or number.ordinal or number.part or number.value not in range(_DAY + 1):
            return None
        hour, minute, end = int(Fraction(number.value)), 0, number.end
    half, after = _half_of_day(pieces, end)
    if text_at(pieces, after) == "oclock":
        after += 1
        late, after = _half_of_day(pieces, after)
        half = half or late
    elif piece.kind != "clock" and not half:
        return None
    time = _time(hour, minute, half, leading_zero=piece.text.startswith("0"))
    return (time, after) if time else None


def same_time(wanted: ClockTime, said: ClockTime) -> bool:
    """Tell whether two written times can be the same one.

    >>> nine, evening = ClockTime(frozenset({570, 1290})), ClockTime(frozenset({1290}))
    >>> same_time(nine, evening), same_time(ClockTime(frozenset({570})), evening)
    (True, False)
    """
    return not wanted.minutes.isdisjoint(said.minutes)
