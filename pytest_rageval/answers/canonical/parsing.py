"""Parse a text into the figures, words and marks that are compared, with common abbreviations expanded."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise

from pytest_rageval.answers.canonical.dates import Date, read_clock_time, read_dates, read_rate
from pytest_rageval.answers.canonical.figures import Figure, read_qualifier
from pytest_rageval.answers.canonical.numbers import roman_value
from pytest_rageval.answers.canonical.quantities import Quantity, read_quantity
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    Lexeme,
    Word,
    fold,
    lexemes,
    skip,
    text_at,
    word_of,
)

__all__ = ["Mark", "Token", "parse", "written_out"]

_US = "united states"
_FORMS = (
    (r"u\. ?s\.(?: ?a\b\.?)?|\busa\b|(?<=\bthe )us\b|^us$|^us(?=[.,])", _US),
    (r"united states of america\b", _US),
    (r"u\. ?k\.|\buk\b", "united kingdom"),
    (r"u\. ?s\. ?s\. ?r\.|\bussr\b", "soviet union"),
    (r"u\. ?n\.|^un$|(?<=\bthe )un\b", "united nations"),
    (r"e\. ?u\.|\beu\b", "european union"),
    (r"ww ?(?:1|i)\b", "world war 1"),
    (r"ww ?(?:2|ii)\b", "world war 2"),
    (r"b\. ?c\.(?: ?e\b\.?)?|\bbce\b", "bc"),
    (r"a\. ?d\.|\bc\. ?e\.", "ad"),
    (r"co ?2\b", "carbon dioxide"),
    (r"h2o\b", "water"),
    (r"tv\b", "television"),
    (r"mph\b", "miles per hour"),
    (r"(?:kph|kmh|km/h)\b", "km per hour"),
    (r"st\.(?= [^\W\d])", "saint"),
    (r"mt\b\.?(?= [^\W\d])", "mount"),
    (r"vs\b\.?", "versus"),
    (r"per cent\b|pct\b", "percent"),
)
_ANY = re.compile(
    "|".join(
        rf"(?P<f{n}>{'' if form[0] == '(' else chr(92) + 'b'}{form})" for n, (form, _) in enumerate(_FORMS)
    )
)
_WRITTEN = tuple(written for _, written in _FORMS)


@dataclass(frozen=True, slots=True)
class Mark:
    """A punctuation mark between words."""

    text: str


Token = Figure | Word | Mark
_RANGE_LINKS = frozenset({"to", "or", "-", "through"})
_MARKS_OF_RANGE = 3


def written_out(text: str) -> str:
    """Replace common abbreviations in a folded text by the words they stand for.

    "us" is a country only where it cannot be the pronoun: alone, after "the", or with full stops.

    >>> written_out("the u.s.a."), written_out("in the uk"), written_out("tell us")
    ('the united states', 'in the united kingdom', 'tell us')
    >>> written_out("co2"), written_out("44 b.c.")
    ('carbon dioxide', '44 bc')
    """
    return _ANY.sub(lambda found: _WRITTEN[int((found.lastgroup or "f0")[1:])], text)


@lru_cache(maxsize=16384)
def parse(text: str) -> tuple[Token, ...]:
    """Read a text into tokens, in order; a text with nothing to read gives none.

    >>> [type(token).__name__ for token in parse("Founded in 1974, by Maud")]
    ['Word', 'Word', 'Figure', 'Mark', 'Word', 'Word']
    """
    pieces = lexemes(written_out(fold(text)))
    tokens: list[Token] = []
    at = 0
    while at < len(pieces):
        found, at = _token(pieces, at, tokens[-1] if tokens else None)
        tokens.extend(found)
    _mark_ranges(tokens)
    return tuple(tokens)


def _token(pieces: Sequence[Lexeme], at: int, before: Token | None) -> tuple[tuple[Token, ...], int]:
    rate = read_rate(pieces, at, counted=isinstance(before, Figure))
    if rate is not None:
        # "twice a week" is no "weekly"; a price "a week" is.
        return (word_of(f"times{rate[0]}" if _counts_occasions(before) else rate[0]),), rate[1]
    # "once every 180 days" says no more than "every 180 days".
    if text_at(pieces, at) == "once" and text_at(pieces, at + 1) in {"every", "each", "in"}:
        return (), at + 1
    found = _qualified(pieces, at) or _figures(pieces, at)
    if found is not None:
        return found
    piece = pieces[at]
    roman = roman_value(piece.text) if isinstance(before, Word) and before.content else None
    if roman is not None:
        return (Figure(Quantity(roman)),), at + 1
    if piece.kind == "mark":
        return (Mark(piece.text),), at + 1
    end = at + 1
    text = piece.text
    # "4k" and "3d" are words, although a number starts them.
    if piece.kind == "number" and end < len(pieces) and pieces[end].glued and pieces[end].kind == "word":
        text, end = text + pieces[end].text, end + 1
    return (word_of(text, glyph=piece.kind == "glyph"),), end


def _counts_occasions(token: Token | None) -> bool:
    return (
        isinstance(token, Figure)
        and isinstance(token.value, Quantity)
        and "occasions" in token.value.dimensions()
    )


def _qualified(pieces: Sequence[Lexeme], at: int) -> tuple[tuple[Figure, ...], int] | None:
    """Read qualifiers together with the figure they belong to."""
    qualifier = read_qualifier(pieces, at)
    if qualifier is None:
        return None
    meaning, start = qualifier
    start = skip(pieces, start, ARTICLES | {"of", "in", "-"})
    found = _figures(pieces, start) if start < len(pieces) else None
    if found is None and start > 0 and text_at(pieces, start - 1) in ARTICLES:
        found = _figures(pieces, start - 1)
    return found and (tuple(replace(figure, **asdict(meaning)) for figure in found[0]), found[1])


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
    places = [
        n for n, token in enumerate(tokens) if isinstance(token, Figure) and isinstance(token.value, Quantity)
    ]
    for low, high in pairwise(places):
        first, last = tokens[low], tokens[high]
        if not (isinstance(first, Figure) and isinstance(last, Figure)):
            continue
        between = [_link(tokens, n) for n in range(low + 1, high)]
        words = [link for link in between if link != ","]
        spanned = low > 0 and _link(tokens, low - 1) == "between" and words == ["and"]
        linked = len(words) == 1 and words[0] in _RANGE_LINKS
        if not (spanned or linked) or len(between) > _MARKS_OF_RANGE:
            continue
        one, other = first.value, last.value
        if isinstance(one, Quantity) and isinstance(other, Quantity) and _same_kind(one, other):
            tokens[low] = replace(first, value=replace(one, units=one.units or other.units), ranged=True)
            tokens[high] = replace(last, ranged=True)


def _link(tokens: Sequence[Token], at: int) -> str:
    token = tokens[at]
    return token.form if isinstance(token, Word) else token.text if isinstance(token, Mark) else ""


def _same_kind(one: Quantity, other: Quantity) -> bool:
    return not one.units or not other.units or bool(one.dimensions() & other.dimensions())
