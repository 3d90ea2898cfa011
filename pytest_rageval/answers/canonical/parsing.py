"""Parses a text into the figures, words and marks to compare, and a question into hints on its answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from pytest_rageval.answers.canonical import dates, numbers, quantities
from pytest_rageval.answers.canonical.dates import (
    ClockTime,
    Date,
    date_states,
    read_clock_time,
    read_dates,
    read_rate,
)
from pytest_rageval.answers.canonical.numbers import roman_value
from pytest_rageval.answers.canonical.quantities import (
    CURRENCIES,
    Quantity,
    Unit,
    read_quantity,
    same_quantity,
    unit_named,
)
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    NEGATORS,
    ROLES,
    Lexeme,
    Word,
    fold,
    lexemes,
    listed,
    skip,
    text_at,
    word_of,
)

__all__ = [
    "Figure",
    "Mark",
    "ParsedQuestion",
    "Token",
    "ask",
    "content_at",
    "figure_states",
    "form_at",
    "parse",
]

# Abbreviations and what they stand for. "us" is a country only where it cannot be the pronoun.
_FORMS = (
    (r"\bu\. ?s\.(?: ?a\b\.?)?|\busa\b|(?<=\bthe )us\b|^us$|^us(?=[.,])", "united states"),
    (r"\bunited states of america\b", "united states"),
    (r"\bu\. ?k\.|\buk\b", "united kingdom"),
    (r"\bu\. ?s\. ?s\. ?r\.|\bussr\b", "soviet union"),
    (r"\bu\. ?n\.|^un$|(?<=\bthe )un\b", "united nations"),
    (r"\be\. ?u\.|\beu\b", "european union"),
    (r"\bww ?(?:1|i)\b", "world war 1"),
    (r"\bww ?(?:2|ii)\b", "world war 2"),
    (r"\bb\. ?c\.(?: ?e\b\.?)?|\bbce\b", "bc"),
    (r"\ba\. ?d\.|\bc\. ?e\.", "ad"),
    (r"\bco ?2\b", "carbon dioxide"),
    (r"\bh2o\b", "water"),
    (r"\btv\b", "television"),
    (r"\bmph\b", "miles per hour"),
    (r"(?:kph|kmh|km/h)\b", "km per hour"),
    (r"\bst\.(?= [^\W\d])", "saint"),
    (r"\bmt\b\.?(?= [^\W\d])", "mount"),
    (r"\bvs\b\.?", "versus"),
    (r"\bper cent\b|pct\b", "percent"),
)
_ANY_FORM = re.compile("|".join(f"({form})" for form, _ in _FORMS))

_AT_LEAST = (
    "at least, no less than, not less than, no fewer than, more than, greater than, higher than, longer than, "
    "later than, minimum, over, above, exceeding, after, not under, not below, not before"
)
_AT_MOST = (
    "at most, no more than, not more than, no later than, not later than, no longer than, not exceeding, not above, "
    "not over, not after, up to, less than, fewer than, lower than, earlier than, maximum, under, below, before"
)
_QUALIFIERS: dict[tuple[str, ...], dict[str, Any]] = {
    tuple(phrase.split()): fields
    for phrases, fields in (
        (_AT_LEAST, {"bound": 1}),
        (_AT_MOST, {"bound": -1}),
        (
            "about, around, approximately, approx, roughly, nearly, almost, circa, ca, c, some",
            {"approximate": True},
        ),
        ("early, beginning", {"part": "early"}),
        ("mid, middle", {"part": "mid"}),
        ("late, end", {"part": "late"}),
    )
    for phrase in phrases.split(", ")
}
_NOTE = re.compile(r"\[\d{1,3}\]")
_GLUED_NUMBER = re.compile(r"(?<=[^\W\d_]{3})(?=\d+(?!\w))")
_STARTS = numbers.STARTS | dates.STARTS | quantities.STARTS | {words[0] for words in _QUALIFIERS} | {"-", "/"}
"""The words and marks that more than these may start with; all others are read at once."""
_SIMPLE = frozenset({"mark", "glyph"})

_LONGEST_QUALIFIER = 3
_MOST_QUALIFIERS = 6
_LINKS = frozenset({"of", "in", "the", "a", "-"})
_RANGE_LINKS = frozenset({"to", "or", "-", "through"})
_MARKS_OF_RANGE = 3

_PERSON_WORDS = frozenset({"who", "whom", "whose", "whos"})
_PERSON_NOUNS = ROLES | listed(
    "person man woman boy girl musician composer painter poet novelist scientist physicist chemist mathematician "
    "explorer inventor politician philosopher quarterback pitcher rapper drummer guitarist producer host father mother "
    "wife husband brother sister son daughter character"
)
_POLAR = listed(
    "is are was were do does did can could will would should shall may might must has have had am"
)
_PRICES = listed("cost costs price fee salary budget worth pay paid earn allowance value money bonus fine")
_EXACT = listed("exactly exact date day month precise precisely time")
_SHARES = listed("percentage percent share proportion fraction")


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


@dataclass(frozen=True, slots=True)
class Mark:
    """A punctuation mark between words."""

    text: str


Token = Figure | Word | Mark


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question as far as it matters for comparing answers.

    `stems` are the words it repeats and `figures` the figures it names; `understood` the dimensions that a bare
    number in an answer stands for; `counted` the unit after "how many"; `when` that it asks so, for no exact date.
    """

    stems: frozenset[str] = frozenset()
    figures: tuple[Figure, ...] = ()
    person: bool = False
    polar: bool = False
    negated: bool = False
    choice: bool = False
    year: bool = False
    place: bool = False
    when: bool = False
    understood: frozenset[str] = frozenset()
    counted: tuple[Unit, ...] = ()


def form_at(tokens: Sequence[Token], at: int) -> str:
    """Return the word or mark at a place; empty where a figure or nothing stands there."""
    token = tokens[at] if 0 <= at < len(tokens) else None
    return token.form if isinstance(token, Word) else token.text if isinstance(token, Mark) else ""


def content_at(tokens: Sequence[Token], at: int) -> Word | None:
    """Return the content word at a place, if one stands there."""
    token = tokens[at] if 0 <= at < len(tokens) else None
    return token if isinstance(token, Word) and token.content else None


@lru_cache(maxsize=16384)
def parse(text: str) -> tuple[Token, ...]:
    """Read a text into tokens, in order; a text with nothing to read gives none.

    >>> [type(token).__name__ for token in parse("Founded in 1974, by Maud")]
    ['Word', 'Word', 'Figure', 'Mark', 'Word', 'Word']
    """
    pieces = lexemes(_written_out(_unglued(fold(text))))
    tokens: list[Token] = []
    at = 0
    while at < len(pieces):
        found, at = _token(pieces, at, tokens)
        tokens.extend(found)
    _mark_ranges(tokens)
    return tuple(tokens)


def _unglued(text: str) -> str:
    """Take notes in brackets from a folded text, unless nothing else is left, and part a word from a number at its end.

    >>> _unglued("lloyd1 [2]"), _unglued("may2016"), _unglued("mp3 and h2o"), _unglued("[2]")
    ('lloyd 1 ', 'may 2016', 'mp3 and h2o', '[2]')
    """
    without = _NOTE.sub("", text)
    return _GLUED_NUMBER.sub(" ", without if without.strip() else text)


def _written_out(text: str) -> str:
    """Replace common abbreviations in a folded text by the words they stand for.

    >>> _written_out("the u.s.a."), _written_out("in the uk"), _written_out("tell us")
    ('the united states', 'in the united kingdom', 'tell us')
    >>> _written_out("co2"), _written_out("44 b.c.")
    ('carbon dioxide', '44 bc')
    """
    return _ANY_FORM.sub(lambda found: _FORMS[(found.lastindex or 1) - 1][1], text)


def _token(pieces: Sequence[Lexeme], at: int, tokens: Sequence[Token]) -> tuple[tuple[Token, ...], int]:
    """Read what starts at a lexeme, after these tokens, with the index after it."""
    piece, end = pieces[at], at + 1
    if piece.text in _STARTS or not (piece.kind in _SIMPLE or piece.text[:1].isalpha()):
        found = _beyond_a_word(pieces, at, tokens[-1] if tokens else None)
        if found is not None:
            return found
    roman = roman_value(piece.text) if content_at(tokens, len(tokens) - 1) else None
    if roman is not None:
        return (Figure(Quantity(roman)),), end
    if piece.kind == "mark":
        return (Mark(piece.text),), end
    text = piece.text
    # "4k" and "3d" are words, although a number starts them.
    if piece.kind == "number" and end < len(pieces) and pieces[end].glued and pieces[end].kind == "word":
        text, end = text + pieces[end].text, end + 1
    return (word_of(text, glyph=piece.kind == "glyph"),), end


def _beyond_a_word(
    pieces: Sequence[Lexeme], at: int, before: Token | None
) -> tuple[tuple[Token, ...], int] | None:
    """Read a rate or a figure, perhaps with qualifiers."""
    rate = read_rate(pieces, at, counted=isinstance(before, Figure))
    if rate is not None:
        # "twice a week" is no "weekly"; a price "a week" is.
        value = before.value if isinstance(before, Figure) else None
        occasions = isinstance(value, Quantity) and "occasions" in value.dimensions()
        return (word_of(f"times{rate[0]}" if occasions else rate[0]),), rate[1]
    # "once every 180 days" says no more than "every 180 days".
    if text_at(pieces, at) == "once" and text_at(pieces, at + 1) in {"every", "each", "in"}:
        return (), at + 1
    return _qualified(pieces, at) or _figures(pieces, at)


def _qualified(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Figure, ...], int] | None:
    """Read qualifiers together with the figure they belong to: "under the bridge" qualifies nothing."""
    fields: dict[str, Any] = {}
    start = end = at
    for _ in range(_MOST_QUALIFIERS + 1):
        words = _qualifier(pieces, start)
        if not words:
            break
        fields |= _QUALIFIERS[words]
        end = start + len(words)
        start = end + (text_at(pieces, end) in _LINKS)
    else:
        return None
    if not fields:
        return None
    start = skip(pieces, end, ARTICLES | {"of", "in", "-"})
    found = _figures(pieces, start) if start < len(pieces) else None
    if found is None and text_at(pieces, start - 1) in ARTICLES:
        found = _figures(pieces, start - 1)
    return found and (tuple(replace(figure, **fields) for figure in found[0]), found[1])


def _qualifier(pieces: Sequence[Lexeme], at: int) -> tuple[str, ...]:
    """The words of the longest qualifier that starts at a lexeme."""
    for length in range(_LONGEST_QUALIFIER, 0, -1):
        words = tuple(piece.text for piece in pieces[at : at + length])
        if words in _QUALIFIERS:
            return words
    return ()


def _figures(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Figure, ...], int] | None:
    """Read the figure that starts here, preferring the reading that explains more."""
    time = read_clock_time(pieces, at)
    if time is not None:
        return (Figure(time[0]),), time[1]
    dates = read_dates(pieces, at)
    quantity = read_quantity(pieces, at)
    # A number of four digits is a year unless a unit or a scale follows it.
    if dates and not (quantity and quantity[1] > dates[1] and dates[0][0] == Date(dates[0][0].year)):
        return tuple(Figure(date) for date in dates[0]), dates[1]
    return ((Figure(quantity[0]),), quantity[1]) if quantity else None


def _mark_ranges(tokens: list[Token]) -> None:
    """Mark the ends of "3 to 6 months", "between 3 and 6" and "three, or six"."""
    found = [
        (at, token.value)
        for at, token in enumerate(tokens)
        if isinstance(token, Figure) and isinstance(token.value, Quantity)
    ]
    for (low, one), (high, other) in pairwise(found):
        between = [form_at(tokens, at) for at in range(low + 1, high)]
        words = [form for form in between if form != ","]
        spanned = form_at(tokens, low - 1) == "between" and words == ["and"]
        linked = len(words) == 1 and words[0] in _RANGE_LINKS
        same_kind = not one.units or not other.units or one.dimensions() & other.dimensions()
        if (spanned or linked) and len(between) <= _MARKS_OF_RANGE and same_kind:
            for at, value in ((low, replace(one, units=one.units or other.units)), (high, other)):
                figure = tokens[at]
                if isinstance(figure, Figure):
                    tokens[at] = replace(figure, value=value, ranged=True)


def figure_states(wanted: Figure, said: Figure, understood: frozenset[str]) -> bool:
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


def _value_states(wanted: Figure, said: Figure, understood: frozenset[str]) -> bool:
    want, have = wanted.value, said.value
    if isinstance(want, Quantity) and isinstance(have, Quantity):
        return same_quantity(want, have, understood, approximate=wanted.approximate)
    if isinstance(want, Date) and isinstance(have, Date):
        return date_states(want, have)
    if isinstance(want, ClockTime) and isinstance(have, ClockTime):
        return not want.minutes.isdisjoint(have.minutes)
    # A year may be a count ("1200"), and a number a year.
    if isinstance(want, Quantity):
        return want.number == _bare_year(have)
    year = _bare_year(want)
    return (
        year is not None
        and isinstance(have, Quantity)
        and same_quantity(Quantity(Fraction(year)), have, understood)
    )


def _bare_year(value: Quantity | Date | ClockTime) -> int | None:
    return value.year if isinstance(value, Date) and value == Date(value.year) else None


@lru_cache(maxsize=4096)
def ask(text: str) -> ParsedQuestion:
    """Read a question; an empty text gives nothing away.

    >>> ask("Who wrote Frankenstein?").person, ask("Is parking free?").polar
    (True, True)
    >>> sorted(ask("How many weeks does it take?").understood)
    ['seconds']
    """
    tokens = parse(text)
    words = [token for token in tokens if isinstance(token, Word)]
    forms = [token.form if isinstance(token, Word) else "" for token in tokens]
    first, pairs = form_at(tokens, 0), list(pairwise(forms))
    person_named = any(
        form in {"which", "what"} and not _PERSON_NOUNS.isdisjoint(forms[at + 1 : at + 3])
        for at, form in enumerate(forms)
    )
    understood = {unit.dimension for form in forms if len(form) > 1 for unit in unit_named(form)}
    if not _PRICES.isdisjoint(forms) or ("how", "much") in pairs:
        understood |= CURRENCIES
    if not _SHARES.isdisjoint(forms):
        understood.add("share")
    how_many = pairs.index(("how", "many")) if ("how", "many") in pairs else len(forms)
    return ParsedQuestion(
        stems=frozenset(stem for word in words if word.content for stem in (word.stem, word.alternative)),
        figures=tuple(token for token in tokens if isinstance(token, Figure)),
        person=person_named or not _PERSON_WORDS.isdisjoint(forms),
        polar=first in _POLAR,
        negated=not NEGATORS.isdisjoint(forms),
        choice="or" in forms,
        year=("what", "year") in pairs or ("which", "year") in pairs,
        place=first in {"where", "wheres"},
        when=first in {"when", "whens"} and _EXACT.isdisjoint(forms),
        understood=frozenset(understood),
        counted=unit_named(form_at(tokens, how_many + 2)),
    )
