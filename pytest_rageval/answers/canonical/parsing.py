"""Parses a text into the figures, words and punctuation to compare, and a question into hints about its answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

from pytest_rageval.answers.canonical import dates, quantities
from pytest_rageval.answers.canonical.dates import (
    ClockTime,
    Date,
    date_matches,
    is_lone_number,
    read_clock_time,
    read_dates,
    read_rate,
    read_years,
)
from pytest_rageval.answers.canonical.quantities import (
    CURRENCIES,
    Quantity,
    Unit,
    read_quantity,
    roman_value,
    same_quantity,
    units_named,
)
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    NEGATORS,
    ROLES,
    Lexemes,
    Word,
    fold,
    make_word,
    skip_words,
    split_lexemes,
    text_at,
    word_set,
)

# Patterns of abbreviations, each with its expansion. "us" is expanded only if it cannot be the pronoun.
_ABBREVIATIONS = (
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
    (r"(?<![a-z])(?:kph|kmh|km/h)\b", "km per hour"),
    (r"\bst\.(?= [^\W\d])", "saint"),
    (r"\bmt\b\.?(?= [^\W\d])", "mount"),
    (r"\bvs\b\.?", "versus"),
    (r"\bper cent\b|(?<![a-z])pct\b", "percent"),
)
_WORDS_OF_ABBREVIATIONS = word_set(
    "us usa u america uk ussr un e eu ww wwi wwii b bce d co h tv mph kph kmh km st mt vs cent pct"
)
_LETTERS = re.compile("[a-z]+")
_ANY_ABBREVIATION = re.compile("|".join(f"({pattern})" for pattern, _ in _ABBREVIATIONS))

_AT_LEAST = (
    "at least, no less than, not less than, no fewer than, more than, greater than, higher than, longer than, "
    "later than, minimum, over, above, exceeding, after, not under, not below, not before"
)
_AT_MOST = (
    "at most, no more than, not more than, no later than, not later than, no longer than, not exceeding, not above, "
    "not over, not after, up to, less than, fewer than, lower than, earlier than, maximum, under, below, before"
)
_QUALIFIERS: dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]] = {}
"""The qualifiers by their first word, each with the fields of `Figure` that it sets. None begins with another."""
for _phrases, _fields in (
    (_AT_LEAST, {"bound": 1}),
    (_AT_MOST, {"bound": -1}),
    (
        "about, around, approximately, approx, roughly, nearly, almost, circa, ca, c, some",
        {"approximate": True},
    ),
    ("early, beginning", {"part": "early"}),
    ("mid, middle", {"part": "mid"}),
    ("late, end", {"part": "late"}),
):
    for _words in map(str.split, _phrases.split(", ")):
        _QUALIFIERS.setdefault(_words[0], []).append((tuple(_words), _fields))
_FOOTNOTE = re.compile(r"\[\d{1,3}\]")
_ATTACHED_NUMBER_START = re.compile(r"(?<=[^\W\d_]{3})(?=\d+(?!\w))")
_FIRST_WORDS = dates.FIRST_WORDS | quantities.FIRST_WORDS | _QUALIFIERS.keys() | {"-", "/"}
"""Words and punctuation that a figure or a rate may start with. Any other lexeme without digits is one token."""

_MAX_QUALIFIERS = 6
_QUALIFIER_LINKS = frozenset({"of", "in", "the", "a", "-"})
_RANGE_LINKS = frozenset({"to", "or", "-", "through"})
_MAX_TOKENS_IN_RANGE = 3

_PERSON_WORDS = frozenset({"who", "whom", "whose", "whos"})
_PERSON_NOUNS = ROLES | word_set(
    "person man woman boy girl musician composer painter poet novelist scientist physicist chemist mathematician "
    "explorer inventor politician philosopher quarterback pitcher rapper drummer guitarist producer host father mother "
    "wife husband brother sister son daughter character"
)
_POLAR_FIRST_WORDS = word_set(
    "is are was were do does did can could will would should shall may might must has have had am"
)
_PRICE_WORDS = word_set(
    "cost costs price fee salary budget worth pay paid earn allowance value money bonus fine"
)
_EXACT_TIME_WORDS = word_set("exactly exact date day month precise precisely time")
_SHARE_WORDS = word_set("percentage percent share proportion fraction")


@dataclass(frozen=True, slots=True)
class Figure:
    """A quantity, a date or a time with its qualifiers."""

    value: Quantity | Date | ClockTime
    bound: int = 0  # 1 after "at least", "over" or "after", -1 after "at most", "under" or "before"
    part: str = ""  # "early", "mid" or "late" before a date
    approximate: bool = False  # after a word such as "about"
    in_range: bool = False  # the end of a range, or one of two alternatives ("three or six months")
    form: ClassVar[str] = ""
    is_content_word: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Punctuation:
    form: str
    is_content_word: ClassVar[bool] = False


Token = Figure | Word | Punctuation


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """The properties of a question that the comparison of answers depends on."""

    stems: frozenset[str] = frozenset()  # of its content words
    figures: tuple[Figure, ...] = ()
    wants_person: bool = False
    is_polar: bool = False  # a yes-or-no question
    is_negated: bool = False
    offers_choice: bool = False  # with "or"
    alternatives: frozenset[str] = frozenset()  # the stems of the words beside "or"
    wants_year: bool = False  # "what year", "which year"
    wants_place: bool = False  # it starts with "where"
    asks_when: bool = False  # it starts with "when" and does not ask for an exact date or time
    implied_dimensions: frozenset[str] = frozenset()  # of a number without a unit in an answer
    counted_noun: str = ""  # the stem of the noun after "how many"
    counted_units: tuple[Unit, ...] = ()  # the readings of the unit after "how many"


def form_at(tokens: Sequence[Token], index: int) -> str:
    """Return the word or punctuation at an index; empty for a figure, and if the index is out of range."""
    return tokens[index].form if 0 <= index < len(tokens) else ""


def content_word_at(tokens: Sequence[Token], index: int) -> Word | None:
    token = tokens[index] if 0 <= index < len(tokens) else None
    return token if isinstance(token, Word) and token.is_content_word else None


def item_at(tokens: Sequence[Token], index: int) -> Word | Figure | None:
    """Return the content word or the figure at an index; None for another token, and if the index is out of range."""
    token = tokens[index] if 0 <= index < len(tokens) else None
    return token if isinstance(token, Figure) else content_word_at(tokens, index)


@lru_cache(maxsize=16384)
def parse(text: str) -> tuple[Token, ...]:
    """Parse a text into tokens; a blank text has none.

    >>> [type(token).__name__ for token in parse("Founded in 1974, by Maud")]
    ['Word', 'Word', 'Figure', 'Punctuation', 'Word', 'Word']
    """
    lexemes = split_lexemes(_expand_abbreviations(_separate_footnotes(fold(text))))
    tokens: list[Token] = []
    index = 0
    while index < len(lexemes):
        lexeme = lexemes[index]
        token = _lone_token(lexeme.text, lexeme.kind)
        if token is None:
            index = _read_tokens(lexemes, index, tokens)
        else:
            tokens.append(token)
            index += 1
    _mark_ranges(tokens)
    return tuple(tokens)


@lru_cache(maxsize=16384)
def _lone_token(text: str, kind: str) -> Token | None:
    """Return the token of a lexeme that is this token in any text, as most words are; None for another lexeme."""
    if text in _FIRST_WORDS or roman_value(text) is not None:
        return None
    if kind == "punctuation":
        return Punctuation(text)
    if kind == "unspaced":
        return make_word(text, unspaced=True)
    return make_word(text) if text[:1].isalpha() else None


def _separate_footnotes(text: str) -> str:
    """Remove footnotes in brackets from a folded text, and put a space between a word and a number attached to its end.

    Footnotes are kept if the text has nothing else.

    >>> _separate_footnotes("lloyd1 [2]"), _separate_footnotes("may2016")
    ('lloyd 1 ', 'may 2016')
    >>> _separate_footnotes("mp3 and h2o"), _separate_footnotes("[2]")
    ('mp3 and h2o', '[2]')
    """
    without_footnotes = _FOOTNOTE.sub("", text)
    return _ATTACHED_NUMBER_START.sub(" ", without_footnotes if without_footnotes.strip() else text)


def _expand_abbreviations(text: str) -> str:
    """Replace common abbreviations in a folded text by their full forms.

    >>> _expand_abbreviations("the u.s.a."), _expand_abbreviations("in the uk"), _expand_abbreviations("tell us")
    ('the united states', 'in the united kingdom', 'tell us')
    >>> _expand_abbreviations("co2"), _expand_abbreviations("44 b.c.")
    ('carbon dioxide', '44 bc')
    """
    # The search takes as long as all other parsing, and few texts have such a word.
    if _WORDS_OF_ABBREVIATIONS.isdisjoint(_LETTERS.findall(text)):
        return text
    return _ANY_ABBREVIATION.sub(lambda match: _ABBREVIATIONS[(match.lastindex or 1) - 1][1], text)


def _read_tokens(lexemes: Lexemes, index: int, tokens: list[Token]) -> int:
    """Parse the tokens that start at a lexeme, and add them to those before. Return the index after them."""
    lexeme, end = lexemes[index], index + 1
    text, kind = lexeme.text, lexeme.kind
    rate_or_figures = _read_rate_or_figures(lexemes, index, tokens[-1] if tokens else None)
    if rate_or_figures is not None:
        tokens += rate_or_figures[0]
        return rate_or_figures[1]
    roman = roman_value(text)
    if roman is not None and content_word_at(tokens, len(tokens) - 1):
        tokens.append(Figure(Quantity(roman)))
    elif kind == "punctuation":
        tokens.append(Punctuation(text))
    elif (
        kind == "number"
        and end < len(lexemes)
        and lexemes[end].touches_previous
        and lexemes[end].kind == "word"
    ):
        # "4k" and "3d" are words, although they start with a number.
        tokens.append(make_word(text + lexemes[end].text))
        end += 1
    else:
        tokens.append(make_word(text))
    return end


def _read_rate_or_figures(
    lexemes: Lexemes, index: int, previous: Token | None
) -> tuple[tuple[Token, ...], int] | None:
    """Parse a rate, or figures and their qualifiers, after the token `previous`."""
    rate = read_rate(lexemes, index, counted=isinstance(previous, Figure))
    if rate is not None:
        # "weekly" matches a price "a week", but not "twice a week", so a rate after a number of times is another word.
        value = previous.value if isinstance(previous, Figure) else None
        occasions = isinstance(value, Quantity) and "occasions" in value.dimensions()
        return (make_word(f"times{rate[0]}" if occasions else rate[0]),), rate[1]
    # "once every 180 days" means "every 180 days".
    text, following = text_at(lexemes, index), text_at(lexemes, index + 1)
    if text == "once" and following in {"every", "each", "in"}:
        return (), index + 1
    if text in _QUALIFIERS:
        return _read_qualified_figures(lexemes, index)
    if text in {"a", "an"} and following not in quantities.AFTER_ARTICLES:
        noun = lexemes[index + 1 : index + 2]
        if not noun or _lone_token(noun[0].text, noun[0].kind):
            return None
    return _read_figures(lexemes, index)


def _read_qualified_figures(lexemes: Lexemes, index: int) -> tuple[tuple[Figure, ...], int] | None:
    """Parse qualifiers and the figures after them; return None if no figure follows ("under the bridge")."""
    fields: dict[str, Any] = {}
    start = end = index
    for _ in range(_MAX_QUALIFIERS + 1):
        words, own_fields = _read_qualifier(lexemes, start)
        if not words:
            break
        fields |= own_fields
        end = start + len(words)
        start = end + (text_at(lexemes, end) in _QUALIFIER_LINKS)
    else:
        return None
    if not fields:
        return None
    start = skip_words(lexemes, end, ARTICLES | {"of", "in", "-"})
    figures = _read_figures(lexemes, start) if start < len(lexemes) else None
    if figures is None and text_at(lexemes, start - 1) in ARTICLES:
        figures = _read_figures(lexemes, start - 1)
    return figures and (tuple(replace(figure, **fields) for figure in figures[0]), figures[1])


def _read_qualifier(lexemes: Lexemes, index: int) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the words and the fields of the qualifier that starts at a lexeme; none if none starts there."""
    for words, fields in _QUALIFIERS.get(text_at(lexemes, index), ()):
        if words == tuple(lexeme.text for lexeme in lexemes[index : index + len(words)]):
            return words, fields
    return (), {}


def _read_figures(lexemes: Lexemes, index: int) -> tuple[tuple[Figure, ...], int] | None:
    """Parse the time, the date (or the two of a range) or the quantity that starts at a lexeme, in this order."""
    if is_lone_number(lexemes, index):
        dates = read_years(lexemes, index)
    else:
        time = read_clock_time(lexemes, index)
        if time is not None:
            return (Figure(time[0]),), time[1]
        dates = read_dates(lexemes, index)
    quantity = read_quantity(lexemes, index)
    # A number of four digits is a year unless a unit or a scale follows it.
    if dates and not (quantity and quantity[1] > dates[1] and dates[0][0] == Date(dates[0][0].year)):
        return tuple(Figure(date) for date in dates[0]), dates[1]
    return ((Figure(quantity[0]),), quantity[1]) if quantity else None


def _mark_ranges(tokens: list[Token]) -> None:
    """Set `in_range` for both numbers of "3 to 6 months", "between 3 and 6" and "three, or six"; share their unit."""
    quantities = [
        (index, token.value)
        for index, token in enumerate(tokens)
        if isinstance(token, Figure) and isinstance(token.value, Quantity)
    ]
    for (low_index, low), (high_index, high) in pairwise(quantities):
        between = [form_at(tokens, index) for index in range(low_index + 1, high_index)]
        words = [form for form in between if form != ","]
        after_between = form_at(tokens, low_index - 1) == "between" and words == ["and"]
        linked = len(words) == 1 and words[0] in _RANGE_LINKS
        same_kind = not low.units or not high.units or low.dimensions() & high.dimensions()
        if (after_between or linked) and len(between) <= _MAX_TOKENS_IN_RANGE and same_kind:
            for index, value in (
                (low_index, replace(low, units=low.units or high.units)),
                (high_index, high),
            ):
                figure = tokens[index]
                if isinstance(figure, Figure):
                    tokens[index] = replace(figure, value=value, in_range=True)


def figure_matches(expected: Figure, predicted: Figure, implied_dimensions: frozenset[str]) -> bool:
    """Return True if a predicted figure matches the expected one.

    A qualifier may be missing, because it is often in the question, but it must not be the opposite. One end of a range
    does not match a single number.
    """
    return (
        _value_matches(expected, predicted, implied_dimensions)
        and expected.bound * predicted.bound >= 0
        and (not expected.part or not predicted.part or expected.part == predicted.part)
        and (expected.in_range or not predicted.in_range)
    )


def _value_matches(expected: Figure, predicted: Figure, implied_dimensions: frozenset[str]) -> bool:
    expected_value, predicted_value = expected.value, predicted.value
    if isinstance(expected_value, Quantity) and isinstance(predicted_value, Quantity):
        return same_quantity(
            expected_value, predicted_value, implied_dimensions, approximate=expected.approximate
        )
    if isinstance(expected_value, Date) and isinstance(predicted_value, Date):
        return date_matches(expected_value, predicted_value)
    if isinstance(expected_value, ClockTime) and isinstance(predicted_value, ClockTime):
        return not expected_value.minutes.isdisjoint(predicted_value.minutes)
    # "1200" may have been parsed as a year on one side and as a number on the other.
    if isinstance(expected_value, Quantity):
        return expected_value.number == _bare_year(predicted_value)
    year = _bare_year(expected_value)
    return (
        year is not None
        and isinstance(predicted_value, Quantity)
        and same_quantity(Quantity(Fraction(year)), predicted_value, implied_dimensions)
    )


def _bare_year(value: Quantity | Date | ClockTime) -> int | None:
    return value.year if isinstance(value, Date) and value == Date(value.year) else None


@lru_cache(maxsize=4096)
def parse_question(text: str) -> ParsedQuestion:
    """Parse a question; an empty text has no properties.

    >>> parse_question("Who wrote Frankenstein?").wants_person, parse_question("Is parking free?").is_polar
    (True, True)
    >>> sorted(parse_question("How many weeks does it take?").implied_dimensions)
    ['seconds']
    """
    tokens = parse(text)
    words = [token for token in tokens if isinstance(token, Word)]
    forms = [token.form if isinstance(token, Word) else "" for token in tokens]
    first, pairs = form_at(tokens, 0), list(pairwise(forms))
    names_person = any(
        form in {"which", "what"} and not _PERSON_NOUNS.isdisjoint(forms[index + 1 : index + 3])
        for index, form in enumerate(forms)
    )
    implied_dimensions = {unit.dimension for form in forms if len(form) > 1 for unit in units_named(form)}
    if not _PRICE_WORDS.isdisjoint(forms) or ("how", "much") in pairs:
        implied_dimensions |= CURRENCIES
    if not _SHARE_WORDS.isdisjoint(forms):
        implied_dimensions.add("share")
    how_many = pairs.index(("how", "many")) if ("how", "many") in pairs else len(forms)
    return ParsedQuestion(
        stems=frozenset(
            stem for word in words if word.is_content_word for stem in (word.stem, word.alternative_stem)
        ),
        figures=tuple(token for token in tokens if isinstance(token, Figure)),
        wants_person=names_person or not _PERSON_WORDS.isdisjoint(forms),
        is_polar=first in _POLAR_FIRST_WORDS,
        is_negated=not NEGATORS.isdisjoint(forms),
        offers_choice="or" in forms,
        alternatives=frozenset(
            make_word(forms[beside]).stem
            for index, form in enumerate(forms)
            if form == "or"
            for beside in (index - 1, index + 1)
            if content_word_at(tokens, beside)
        ),
        wants_year=("what", "year") in pairs or ("which", "year") in pairs,
        wants_place=first in {"where", "wheres"},
        asks_when=first in {"when", "whens"} and _EXACT_TIME_WORDS.isdisjoint(forms),
        implied_dimensions=frozenset(implied_dimensions),
        counted_noun=noun.stem if (noun := content_word_at(tokens, how_many + 2)) else "",
        counted_units=units_named(form_at(tokens, how_many + 2)),
    )


def same_figure(figure: Figure, predicted: Figure, question: ParsedQuestion) -> bool:
    expected = _adapt_figure(figure, question)
    matches = figure_matches(expected, predicted, question.implied_dimensions)
    return matches or _is_coarser_date(expected, predicted, question)


def _is_coarser_date(expected: Figure, predicted: Figure, question: ParsedQuestion) -> bool:
    """Return True if the question asks "when" and the prediction is the year, or year and month, of the date."""
    date, coarser = expected.value, predicted.value
    return (
        question.asks_when
        and isinstance(date, Date)
        and isinstance(coarser, Date)
        and coarser.year is not None
        and coarser.span == 1
        and predicted not in question.figures
        and date_matches(coarser, date)
    )


def _adapt_figure(figure: Figure, question: ParsedQuestion) -> Figure:
    """Return the figure of a reference as the question asks for it.

    A number without a unit gets the unit after "how many". A date is reduced to its year if the question asks for a
    year, and loses its year if the question contains it.
    """
    value = figure.value
    if isinstance(value, Quantity) and not value.units:
        return replace(figure, value=replace(value, units=question.counted_units))
    if not isinstance(value, Date) or value.day is value.month is None:
        return figure
    if question.wants_year and value.year is not None:
        return replace(figure, value=Date(value.year))
    question_years = {other.value.year for other in question.figures if isinstance(other.value, Date)}
    if value.year in question_years:
        return replace(figure, value=replace(value, year=None, swapped=None))
    return figure
