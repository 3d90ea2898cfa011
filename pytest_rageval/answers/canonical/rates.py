"""How often: "a week", "per week", "every week" and "weekly" are one word."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.lexemes import Lexeme, text_at

__all__ = ["read_rate"]

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
