"""Decides whether a prediction states a reference: what is required, how much of it is enough, what is negated.

People who compare answers accept one that leaves out a detail of a long reference: "Landover, Maryland" for
"FedExField in Landover, Maryland". They do not when a figure, an item of a list or a word such as "south" is missing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from pytest_rageval.answers.canonical.dates import Date, date_states, dates_agree
from pytest_rageval.answers.canonical.parsing import (
    Figure,
    Mark,
    ParsedQuestion,
    Token,
    ask,
    content_at,
    figure_states,
    form_at,
    parse,
)
from pytest_rageval.answers.canonical.phrases import Phrase, Span, initialisms, phrase_spans
from pytest_rageval.answers.canonical.quantities import Quantity
from pytest_rageval.answers.canonical.words import (
    ARTICLES,
    DISTINGUISHING,
    NEGATORS,
    PARTICLES,
    Word,
    fold,
    listed,
    word_of,
)

__all__ = ["is_long", "states", "states_any"]

LEAST_SHARE = Fraction(2, 3)
_LEAST_WORDS = 3
_MOST_MISSING = 20
LONGEST = 4000
"""Characters of a text that are read: short answers have far fewer, and each word is held against each."""
MOST_SAID = 1000  # words, figures and marks of a prediction that are read
MOST_WANTED = 300  # those of a reference that has more than so many are not compared

# Between the parts of one reference a prediction may say this many tokens.
_REACH = 12
_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)\s*")
_REGION = re.compile(r"^([^,]+),(?!.*\b(?:and|or)\b)", re.IGNORECASE)
_PLACE_AROUND = re.compile(r"[^,]+? in ([^,]+)(?:,.*)?", re.IGNORECASE | re.DOTALL)
_ALTERNATIVE = re.compile(r"\s+/\s+|\s*;\s*or\s+")
# The number of a footnote that data has kept ("Lloyd1"); with another number there it is another ("Apollo12").
_GLUED_NOTE = re.compile(r"(?<=[^\W\d_]{3})\d{1,2}(?!\w)")
_CAPITALS = re.compile(r"[A-Z]{2,7}")
_JOINING = ARTICLES | frozenset("-'\".#")

# A negation reaches over three content words within its clause.
_NEGATION_REACH = 3
_CLAUSE_ENDS = frozenset(".,;:!?()") | listed("but and although though however because while")

# "not only A", "not until 1989" and "no more than 20" assert what follows.
_ASSERTING = listed("only until till before merely just more less later fewer exceed")
_VERBS = listed(
    "is are was were be do does did has have had can could will would should shall may might must"
)
_REPLACING = (("rather", "than"), ("instead", "of"), ("opposed", "to"))
_YES = listed("yes yeah yep true correct right affirmative indeed")
_NO = listed("no nope false incorrect wrong")
_ANSWER_STEMS = frozenset(word_of(form).stem for form in _YES | _NO)

# Words before the answer proper: "typically, no".
_POLARITY_REACH = 2


@dataclass(frozen=True, slots=True)
class Demand:
    """The figures and phrases that a prediction must state, and whether each is denied.

    `counted` pairs a figure with the noun right after it; `itemised` says that the phrases are the items of a list.
    """

    figures: tuple[tuple[Figure, bool], ...]
    phrases: tuple[Phrase, ...]
    counted: tuple[tuple[Figure, str], ...]
    itemised: bool = False

    def __bool__(self) -> bool:
        """Return True if the reference demands a figure or a phrase."""
        return bool(self.figures or self.phrases)


def is_long(reference: str) -> bool:
    """Return True if a reference is too long to be compared by words: over 4,000 characters or 300 words."""
    return len(reference) > LONGEST or len(parse(reference)) > MOST_WANTED


def states(prediction: str, reference: str, *, question: str = "") -> bool:
    """Tell whether a prediction states a reference answer.

    It does when it gives every figure of the reference (number, date, time; units converted where that is exact) and
    its content words, as phrases in order, neither denied nor as one of several choices. More information is allowed.
    Of three or more content words two thirds suffice. Words of the question need not be repeated; a question for a
    person accepts the family name alone, one that begins with "when" the year of a date, one with "where" the town of
    a building. An initialism from the question is not evidence, nor is a name that says whose relative someone is.

    Case, spaces, accents and the spelling of numbers never matter. A blank prediction states nothing. A reference of
    signs only ("?!") is compared unchanged, and so is one that is long (`is_long`); of a prediction the first 4,000
    characters are read. Meant for short factual answers in English; names and words of other languages and scripts
    are compared by equality and containment. Synonyms are not known.

    >>> states("The period is half a year.", "six months")
    True
    >>> states("York", "New York"), states("It is not allowed", "allowed")
    (False, False)
    >>> states("Shelley", "Mary Shelley", question="Who wrote Frankenstein?")
    True
    """
    return _states(prediction, reference, ask(_beginning(question)))


def _states(prediction: str, reference: str, asked: ParsedQuestion) -> bool:
    if not prediction.strip():
        return False
    said, wanted = fold(prediction), fold(reference)
    if said == wanted:
        return bool(said) or prediction.strip().casefold() == reference.strip().casefold()
    if is_long(reference) or not parse(reference):
        return False
    tokens = parse(_beginning(prediction))[:MOST_SAID]
    versions = _versions(reference, place=asked.place, given=frozenset() if asked.choice else asked.stems)
    if any(_version_stated(tokens, version, asked) for version in versions):
        return not _numbered_otherwise(tokens, reference)
    return asked.place and _place_around_stated(tokens, reference, asked)


def _numbered_otherwise(tokens: Sequence[Token], reference: str) -> bool:
    """Return True if the prediction has another number after a word that the reference glues to one ("Apollo11")."""
    if not _GLUED_NOTE.search(reference):
        return False
    numbered = {
        (form_at(pair, 0), pair[1]) for pair in pairwise(parse(reference)) if isinstance(pair[1], Figure)
    }
    words = {word for word, _ in numbered}
    said = {
        (form_at(tokens, at), following)
        for at, following in enumerate(tokens[1:])
        if isinstance(following, Figure) and form_at(tokens, at) in words
    }
    return bool(said) and said.isdisjoint(numbered)


def states_any(prediction: str, references: Sequence[str], *, question: str = "") -> bool:
    """Tell whether a prediction states any of several references to one answer.

    Of two that are dates, the more exact one counts where the prediction is exact too: "12 March 1990" does not state
    "1990" where "14 June 1990" is a reference as well. Where exact dates of several years are right, a year alone does
    not tell which is meant.

    >>> [states_any(date, ["1990", "14 June 1990"]) for date in ("12 March 1990", "14 June 1990", "1990")]
    [False, True, True]
    """
    dates = {reference: date for reference in references if (date := _date_alone(reference)) is not None}
    said = [
        token.value
        for token in (parse(_beginning(prediction)) if len(dates) > 1 else ())
        if isinstance(token, Figure) and isinstance(token.value, Date)
    ]

    def belied(reference: str) -> bool:
        date = dates.get(reference)
        if date is None:
            return False
        finer = [
            other for other in dates.values() if other.exactness > date.exactness and date_states(date, other)
        ]
        stating = [each for each in said if date_states(date, each)]
        exact = bool(stating) and all(each.exactness > date.exactness for each in stating)
        return (
            exact and bool(finer) and not any(dates_agree(each, other) for each in stating for other in finer)
        )

    years = {date.year for date in dates.values() if date.month is not None}
    asked = ask(_beginning(question))
    if len(years) > 1:
        asked = replace(asked, when=False)
    return any(_states(prediction, each, asked) and not belied(each) for each in references)


def _date_alone(reference: str) -> Date | None:
    """The date that a reference is, but for a word such as "in"."""
    tokens = parse(reference) if not is_long(reference) else ()
    figures = [token for token in tokens if isinstance(token, Figure)]
    words = any(content_at(tokens, at) for at in range(len(tokens)))
    value = figures[0].value if len(figures) == 1 and not words else None
    return value if isinstance(value, Date) else None


def _place_around_stated(tokens: Sequence[Token], reference: str, question: ParsedQuestion) -> bool:
    """Return True if a prediction names the place that contains the reference's place, and no other place in it.

    For the reference "the stadium in Orlando", "Orlando, Florida" does; "the harbour in Orlando" names another place
    there. Only words of the question may stand before the place.
    """
    found = _PLACE_AROUND.fullmatch(reference)
    words = (
        tuple(token for token in parse(found[1]) if isinstance(token, Word) and token.content)
        if found
        else ()
    )
    if not words or all(word.stem in question.stems for word in words):
        return False
    spans = phrase_spans(tokens, Phrase(words), question)
    return any(
        all((word := content_at(tokens, at)) is None or word.stem in question.stems for at in range(start))
        and not _is_negated(tokens, start, end)
        for start, end in spans
    )


def _beginning(text: str) -> str:
    """Return the part of a text that is compared: its first `LONGEST` characters, cut at the end of a word."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST + 1].rsplit(maxsplit=1)[0][:LONGEST] if text[:LONGEST].split() else ""


def _version_stated(tokens: Sequence[Token], reference: str, question: ParsedQuestion) -> bool:
    wanted = _polarity(parse(reference), question)
    said = _polarity(tokens, question)
    outright = _said_outright(parse(reference)) is not None
    if wanted is not None and (outright or _said_outright(tokens) is not None) and said is not wanted:
        return False
    demand = _demands_of(reference, question)
    if not demand:
        return wanted is not None and said is wanted
    return (
        all(
            _asserted(tokens, _figure_spans(tokens, figure, question), question, negated=negated)
            for figure, negated in demand.figures
        )
        and _phrases_stated(tokens, demand, question)
        and not _miscounts(tokens, demand, question)
    )


@lru_cache(maxsize=8192)
def _demands_of(reference: str, question: ParsedQuestion) -> Demand:
    """Return the demands of a reference.

    Words and figures of the question are not demanded, unless nothing else is left or the question offers a choice.
    A reference of function words only ("The Who") demands all its words.
    """
    tokens = parse(reference)
    given = frozenset() if question.choice else question.stems
    if _polarity(tokens, question) is not None:
        # The yes or no is compared separately; only what it adds is demanded.
        return _demand(tokens, question, given | _ANSWER_STEMS)
    demand = _demand(tokens, question, given) or _demand(tokens, question, frozenset())
    return demand or _demand(tokens, question, frozenset(), every=True)


def _demand(
    tokens: tuple[Token, ...], question: ParsedQuestion, given: frozenset[str], *, every: bool = False
) -> Demand:
    numbered = [(at, token) for at, token in enumerate(tokens) if isinstance(token, Figure)]
    figures = [
        (token, _is_negated(tokens, at, at + 1))
        for at, token in numbered
        if not given or token not in question.figures
    ]
    counted = [(token, noun.stem) for at, token in numbered if (noun := content_at(tokens, at + 1))]
    phrases = [_phrase(tokens, run, given) for run in _runs(tokens, every=every)]
    listing = {"and", "or"} if question.place else {"and", "or", ",", ";"}
    itemised = any(form_at(tokens, at) in listing for at in range(len(tokens)))
    return Demand(tuple(figures), tuple(phrase for phrase in phrases if phrase), tuple(counted), itemised)


def _phrase(tokens: tuple[Token, ...], run: list[int], given: frozenset[str]) -> Phrase | None:
    """Make the phrase of a run, without the words that the question gives away."""
    words = [token for at in run if isinstance(token := tokens[at], Word)]
    kept = [word for word in words if word.stem not in given]
    if not kept:
        return None
    return Phrase(
        tuple(kept),
        cut_left=words[0] is not kept[0],
        cut_right=words[-1] is not kept[-1],
        negated=_is_negated(tokens, run[0], run[-1] + 1),
        article=form_at(tokens, run[0] - 1) in ARTICLES,
        companions=frozenset(token.stem for token in tokens if isinstance(token, Word)),
        uncut=tuple(words),
    )


def _runs(tokens: tuple[Token, ...], *, every: bool) -> list[list[int]]:
    """Group the places of content words into phrases (of all words where `every`).

    A hyphen, an article or the particle inside a name ("Leonardo da Vinci") keeps two of them one phrase.
    """
    runs: list[list[int]] = [[]]
    for at, token in enumerate(tokens):
        form = form_at(tokens, at)
        inside = form in PARTICLES and 0 < at < len(tokens) - 1
        between = inside and runs[-1] and content_at(tokens, at + 1)
        if isinstance(token, Word) and (every or (token.content and not between)):
            runs[-1].append(at)
        elif form not in _JOINING and not inside:
            runs.append([])
    return [run for run in runs if run]


def _asserted(
    tokens: Sequence[Token], spans: Iterable[Span], question: ParsedQuestion, *, negated: bool
) -> bool:
    """Return True if any of the spans is negated exactly as the reference is."""
    return any(question.negated or _is_negated(tokens, *span) == negated for span in spans)


def _figure_spans(tokens: Sequence[Token], figure: Figure, question: ParsedQuestion) -> Iterator[Span]:
    wanted = _as_asked(figure, question)
    for at, token in enumerate(tokens):
        if isinstance(token, Figure) and (
            figure_states(wanted, token, question.understood) or _coarser(wanted, token, question)
        ):
            yield at, at + 1


def _coarser(wanted: Figure, said: Figure, question: ParsedQuestion) -> bool:
    """Return True if the question asks "when" and the answer is the year, or year and month, of the wanted date."""
    want, have = wanted.value, said.value
    return (
        question.when
        and isinstance(want, Date)
        and isinstance(have, Date)
        and have.year is not None
        and have.span == 1
        and said not in question.figures
        and date_states(have, want)
    )


def _as_asked(figure: Figure, question: ParsedQuestion) -> Figure:
    """Give a bare number the unit that the question asks for; take from a date what it names, or does not ask for."""
    value = figure.value
    if isinstance(value, Quantity) and not value.units:
        return replace(figure, value=replace(value, units=question.counted))
    if not isinstance(value, Date) or value.day is value.month is None:
        return figure
    if question.year and value.year is not None:
        return replace(figure, value=Date(value.year))
    named = {other.value.year for other in question.figures if isinstance(other.value, Date)}
    return replace(figure, value=replace(value, year=None, swapped=None)) if value.year in named else figure


def _phrases_stated(tokens: Sequence[Token], demand: Demand, question: ParsedQuestion) -> bool:
    def stated(phrase: Phrase) -> bool:
        return _asserted(tokens, phrase_spans(tokens, phrase, question), question, negated=phrase.negated)

    if all(map(stated, demand.phrases)):
        return True
    # A person's name has its own short forms; a part of it may be someone else.
    return not question.person and _mostly_stated(tokens, demand, stated)


def _mostly_stated(tokens: Sequence[Token], demand: Demand, stated: Callable[[Phrase], bool]) -> bool:
    """Return True if a prediction states two thirds of at least three content words, and part of each list item."""
    total = sum(len(phrase.words) for phrase in demand.phrases)
    if total < _LEAST_WORDS:
        return False
    said = {token.stem for token in tokens if isinstance(token, Word)}
    # Most predictions share no word with the reference: spare them the search.
    if sum(word.stem in said for phrase in demand.phrases for word in phrase.words) < LEAST_SHARE * total:
        return False
    covered = 0
    for phrase in demand.phrases:
        # Beside a part of an item, a word of another item makes it that other one.
        known = frozenset(word.stem for word in phrase.words) if demand.itemised else phrase.companions
        shortened = _shortened(replace(phrase, companions=known))
        found = next((part for part in (phrase, *shortened) if stated(part)), None)
        if found is None and (demand.itemised or _distinguishes(phrase.words)):
            return False
        covered += len(found.words) if found else 0
    return covered >= LEAST_SHARE * total


def _distinguishes(words: Sequence[Word]) -> bool:
    return any(word.form in DISTINGUISHING for word in words)


def _shortened(phrase: Phrase) -> Iterator[Phrase]:
    """The beginnings and ends of a phrase, longest first; only so many words may be missing."""
    words = phrase.words
    for missing in range(1, min(len(words), _MOST_MISSING + 1)):
        if not _distinguishes(words[-missing:]):
            yield replace(phrase, words=words[:-missing], cut_right=True, uncut=())
        if not _distinguishes(words[:missing]):
            yield replace(phrase, words=words[missing:], cut_left=True, uncut=())


def _miscounts(tokens: Sequence[Token], demand: Demand, question: ParsedQuestion) -> bool:
    """Return True if the prediction has another number before a noun that the reference counts."""
    for figure, noun in demand.counted:
        said = [
            token
            for token, following in pairwise(tokens)
            if isinstance(token, Figure) and isinstance(following, Word) and following.stem == noun
        ]
        if said and not any(figure_states(figure, token, question.understood) for token in said):
            return True
    return False


@lru_cache(maxsize=8192)
def _versions(reference: str, *, place: bool = False, given: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the forms of a reference, any one of which is enough.

    A parenthesis may be left out; it is a form of its own where it abbreviates the rest, and is not `given`. A slash
    between spaces separates alternatives. Where a place is asked for, the region after its comma may be left out.

    >>> _versions("Tulsa (Oklahoma)"), _versions("International Border (IB)"), _versions("soccer / football")
    (('Tulsa',), ('International Border', 'IB'), ('soccer', 'football'))
    """
    found: list[str] = []
    for part in _ALTERNATIVE.split(reference):
        outside = _PARENTHESIS.sub(" ", part).strip()
        inside = [text.strip() for text in _PARENTHESIS.findall(part)]
        if not parse(outside):
            found.append(part.strip())
            continue
        found.append(outside)
        if _GLUED_NOTE.search(outside):
            found.append(_GLUED_NOTE.sub("", outside))
        region = _REGION.match(outside) if place else None
        if region:
            found.append(region[1])
        words = [token for token in parse(outside) if isinstance(token, Word)]
        short = initialisms(words)
        found.extend(
            text
            for text in inside
            if (fold(text) in short or _abbreviates(text, outside)) and word_of(fold(text)).stem not in given
        )
    return tuple(dict.fromkeys(found))


def _abbreviates(short: str, text: str) -> bool:
    """Return True if the capitals are letters of a text in order, and start it ("ADP", "adenosine diphosphate")."""
    letters = iter(fold(text))
    capitals = fold(short)
    return (
        _CAPITALS.fullmatch(short) is not None
        and fold(text)[:1] == capitals[:1]
        and all(letter in letters for letter in capitals)
    )


def _is_negated(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return whether the stretch of tokens from `start` to before `end` is denied.

    A verb with "not" right after the stretch denies it too ("six months is not ...").

    >>> _is_negated(parse("not six months"), 1, 2), _is_negated(parse("No, six months"), 2, 3)
    (True, False)
    """
    passed = 0
    for at in range(start - 1, -1, -1):
        if form_at(tokens, at) in _CLAUSE_ENDS or passed > _NEGATION_REACH:
            break
        if _negates(tokens, at):
            return True
        passed += not isinstance(tokens[at], Word) or content_at(tokens, at) is not None
    return form_at(tokens, end) in _VERBS and form_at(tokens, end + 1) == "not" and _negates(tokens, end + 1)


def _negates(tokens: Sequence[Token], at: int) -> bool:
    """Return True if the token at a position negates what follows it."""
    form, following = form_at(tokens, at), form_at(tokens, at + 1)
    return following not in _ASSERTING if form in NEGATORS else (form, following) in _REPLACING


def _said_outright(tokens: Sequence[Token]) -> bool | None:
    """Return the yes (True) or no (False) at the start of a text; None where it has none.

    "No" before a word it denies ("no dogs") is no answer of its own.

    >>> [_said_outright(parse(text)) for text in ("Yes, it is", "Typically, no", "six")]
    [True, False, None]
    """
    words = [(at, token.form) for at, token in enumerate(tokens) if isinstance(token, Word)]
    for at, form in words[: _POLARITY_REACH + 1]:
        alone = at + 1 >= len(tokens) or isinstance(tokens[at + 1], Mark)
        if form in _YES and (alone or at == 0):
            return True
        follows = None if alone else tokens[at + 1]
        pronoun = isinstance(follows, Word) and not follows.content and follows.form not in NEGATORS
        if form in _NO and (alone or (at == 0 and pronoun)):
            return False
    return None


def _polarity(tokens: Sequence[Token], question: ParsedQuestion) -> bool | None:
    """Return the yes or no that a text amounts to; None where it is neither.

    To a yes-or-no question, a statement that repeats words of the question says yes, or no where it denies them.

    >>> free = ask("Is parking free for staff?")
    >>> _polarity(parse("Parking is free."), free), _polarity(parse("It is not free"), free)
    (True, False)
    """
    outright = _said_outright(tokens)
    if outright is not None or not question.polar or question.choice:
        return outright
    places = range(len(tokens))
    if any(_negates(tokens, at) for at in places):
        return False
    repeats = any((word := content_at(tokens, at)) and word.stem in question.stems for at in places)
    return True if repeats else None
