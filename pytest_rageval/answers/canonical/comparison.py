"""Whether a prediction states a reference: what the reference demands, and how much of it is enough.

People who compare answers accept one that leaves out a detail of a long reference: "Landover, Maryland" for
"FedExField in Landover, Maryland". They do not when a figure, an item of a list or a word such as "south" is missing.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from pytest_rageval.answers.canonical.dates import Date
from pytest_rageval.answers.canonical.negation import ANSWER_STEMS, is_negated, polarity, said_outright
from pytest_rageval.answers.canonical.parsing import Figure, Mark, Question, Token, ask, figure_states, parse
from pytest_rageval.answers.canonical.phrases import Phrase, Span, initialisms, phrase_spans
from pytest_rageval.answers.canonical.quantities import Quantity
from pytest_rageval.answers.canonical.words import ARTICLES, DISTINGUISHING, PARTICLES, Word, fold

__all__ = ["is_long", "states"]

LEAST_SHARE = Fraction(2, 3)
_LEAST_WORDS = 3
_MOST_MISSING = 20
LONGEST = 4000
"""Characters of a text that are read: short answers have far fewer, and each word is held against each."""
MOST_SAID = 1000
"""Words, figures and marks of a prediction that are read."""
MOST_WANTED = 300
"""Those of a reference that has more than so many are not compared."""

# Between the parts of one reference a prediction may say this many tokens.
_REACH = 12
_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)\s*")
_REGION = re.compile(r"^([^,]+),(?!.*\b(?:and|or)\b)", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"\s+/\s+|\s*;\s*or\s+")


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
        """Whether anything is demanded at all."""
        return bool(self.figures or self.phrases)


def is_long(reference: str) -> bool:
    """Return whether a reference is too long to be compared by its words: more than 4,000 characters or 300 words."""
    return len(reference) > LONGEST or len(parse(reference)) > MOST_WANTED


def states(prediction: str, reference: str, *, question: str = "") -> bool:
    """Tell whether a prediction states a reference answer.

    It does when it gives every figure of the reference (number, date, time; units converted where that is exact) and
    its content words, as phrases in order, neither denied nor as one of several choices. More information is allowed.
    Of three or more content words two thirds suffice. Words of the question need not be repeated; a question for a
    person accepts the family name alone.

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
    if not prediction.strip():
        return False
    said, wanted = fold(prediction), fold(reference)
    if said == wanted:
        return bool(said) or prediction.strip().casefold() == reference.strip().casefold()
    if is_long(reference) or not parse(reference):
        return False
    asked = ask(_beginning(question))
    tokens = parse(_beginning(prediction))[:MOST_SAID]
    return any(_version_stated(tokens, version, asked) for version in _versions(reference, place=asked.place))


def _beginning(text: str) -> str:
    """What is read of a text, up to the end of a word where it has words."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST + 1].rsplit(maxsplit=1)[0][:LONGEST] if text[:LONGEST].split() else ""


def _version_stated(tokens: Sequence[Token], reference: str, question: Question) -> bool:
    wanted = polarity(parse(reference), question)
    said = polarity(tokens, question)
    outright = said_outright(parse(reference)) is not None
    if wanted is not None and (outright or said_outright(tokens) is not None) and said is not wanted:
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
def _demands_of(reference: str, question: Question) -> Demand:
    """Return the demands of a reference.

    Words and figures of the question are not demanded, unless nothing else is left or the question offers a choice.
    A reference of function words only ("The Who") demands all its words.
    """
    tokens = parse(reference)
    given = frozenset() if question.choice else question.stems
    if polarity(tokens, question) is not None:
        # The yes or no is compared separately; only what it adds is demanded.
        return _demand(tokens, question, given | ANSWER_STEMS)
    demand = _demand(tokens, question, given) or _demand(tokens, question, frozenset())
    return demand or _demand(tokens, question, frozenset(), every=True)


def _demand(
    tokens: tuple[Token, ...], question: Question, given: frozenset[str], *, every: bool = False
) -> Demand:
    numbered = [(at, token) for at, token in enumerate(tokens) if isinstance(token, Figure)]
    figures = [
        (token, is_negated(tokens, at, at + 1))
        for at, token in numbered
        if not given or token not in question.figures
    ]
    counted = [
        (token, following.stem)
        for at, token in numbered
        if at + 1 < len(tokens) and isinstance(following := tokens[at + 1], Word) and following.content
    ]
    phrases = [_phrase(tokens, run, given) for run in _runs(tokens, every=every)]
    listing = {"and", "or"} if question.place else {"and", "or", ",", ";"}
    itemised = any(
        (token.text if isinstance(token, Mark) else token.form) in listing
        for token in tokens
        if not isinstance(token, Figure)
    )
    return Demand(tuple(figures), tuple(phrase for phrase in phrases if phrase), tuple(counted), itemised)


def _phrase(tokens: tuple[Token, ...], run: list[int], given: frozenset[str]) -> Phrase | None:
    """Make the phrase of a run, without the words that the question gives away."""
    words = [token for at in run if isinstance(token := tokens[at], Word)]
    kept = [word for word in words if word.stem not in given]
    if not kept:
        return None
    before = tokens[run[0] - 1] if run[0] else None
    return Phrase(
        tuple(kept),
        cut_left=words[0] is not kept[0],
        cut_right=words[-1] is not kept[-1],
        negated=is_negated(tokens, run[0], run[-1] + 1),
        article=isinstance(before, Word) and before.form in ARTICLES,
        companions=frozenset(token.stem for token in tokens if isinstance(token, Word)),
    )


def _runs(tokens: tuple[Token, ...], *, every: bool) -> list[list[int]]:
    """Group the places of content words into phrases (of all words where `every`)."""
    runs: list[list[int]] = [[]]
    for at, token in enumerate(tokens):
        if isinstance(token, Word) and (every or (token.content and not _between(tokens, at, runs[-1]))):
            runs[-1].append(at)
        elif not _joins_phrase(tokens, at):
            runs.append([])
    return [run for run in runs if run]


def _between(tokens: tuple[Token, ...], at: int, run: list[int]) -> bool:
    """Whether a word is the particle inside a name: "Leonardo da Vinci"."""
    token = tokens[at]
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    return (
        isinstance(token, Word)
        and token.form in PARTICLES
        and bool(run)
        and isinstance(following, Word)
        and following.content
    )


def _joins_phrase(tokens: tuple[Token, ...], at: int) -> bool:
    """Whether a token between two content words keeps them one phrase."""
    token = tokens[at]
    if isinstance(token, Mark):
        return token.text in {"-", "'", '"', ".", "#"}
    inside = 0 < at < len(tokens) - 1
    return isinstance(token, Word) and (token.form in ARTICLES or (inside and token.form in PARTICLES))


def _asserted(tokens: Sequence[Token], spans: Iterable[Span], question: Question, *, negated: bool) -> bool:
    """Whether any of the spans is denied, or not, as the reference wants it."""
    return any(question.negated or is_negated(tokens, *span) == negated for span in spans)


def _figure_spans(tokens: Sequence[Token], figure: Figure, question: Question) -> Iterator[Span]:
    wanted = _without_given_parts(_with_counted_unit(figure, question), question)
    for at, token in enumerate(tokens):
        if isinstance(token, Figure) and figure_states(wanted, token, question.understood):
            yield at, at + 1


def _without_given_parts(figure: Figure, question: Question) -> Figure:
    """Remove the parts of a date that the question names, or does not ask for."""
    date = figure.value
    if not isinstance(date, Date) or date.day is date.month is None:
        return figure
    if question.year and date.year is not None:
        return replace(figure, value=Date(date.year))
    named = {other.value.year for other in question.figures if isinstance(other.value, Date)}
    return replace(figure, value=replace(date, year=None, swapped=None)) if date.year in named else figure


def _with_counted_unit(figure: Figure, question: Question) -> Figure:
    """Add to a bare number the unit that the question asks for ("how many kilograms")."""
    value = figure.value
    if isinstance(value, Quantity) and not value.units and question.counted:
        return replace(figure, value=replace(value, units=question.counted))
    return figure


def _phrases_stated(tokens: Sequence[Token], demand: Demand, question: Question) -> bool:
    def stated(phrase: Phrase) -> bool:
        return _asserted(tokens, phrase_spans(tokens, phrase, question), question, negated=phrase.negated)

    if all(map(stated, demand.phrases)):
        return True
    # A person's name has its own short forms; a part of it may be someone else.
    return not question.person and _mostly_stated(tokens, demand.phrases, stated, itemised=demand.itemised)


def _mostly_stated(
    tokens: Sequence[Token],
    phrases: Sequence[Phrase],
    stated: Callable[[Phrase], bool],
    *,
    itemised: bool,
) -> bool:
    """Whether a prediction states two thirds of at least three content words.

    The phrases may be items of a list (`itemised`), none of which may be missing entirely.
    """
    total = sum(len(phrase.words) for phrase in phrases)
    if total < _LEAST_WORDS:
        return False
    said = {token.stem for token in tokens if isinstance(token, Word)}
    # Most predictions share no word with the reference: spare them the search.
    if sum(word.stem in said for phrase in phrases for word in phrase.words) < LEAST_SHARE * total:
        return False
    covered = 0
    for phrase in phrases:
        found = next((part for part in (phrase, *_shortened(phrase)) if stated(part)), None)
        required = itemised or any(word.form in DISTINGUISHING for word in phrase.words)
        if found is None and required:
            return False
        covered += len(found.words) if found else 0
    return covered >= LEAST_SHARE * total


def _shortened(phrase: Phrase) -> Iterator[Phrase]:
    """The beginnings and ends of a phrase, longest first; only so many words may be missing."""
    words = phrase.words
    for missing in range(1, min(len(words), _MOST_MISSING + 1)):
        if not any(word.form in DISTINGUISHING for word in words[-missing:]):
            yield replace(phrase, words=words[:-missing], cut_right=True)
        if not any(word.form in DISTINGUISHING for word in words[:missing]):
            yield replace(phrase, words=words[missing:], cut_left=True)


def _miscounts(tokens: Sequence[Token], demand: Demand, question: Question) -> bool:
    """Whether the prediction counts another number of what the reference counts."""
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
def _versions(reference: str, *, place: bool = False) -> tuple[str, ...]:
    """Return the forms of a reference, any one of which is enough.

    A parenthesis may be left out; it is a form of its own where it abbreviates the rest. A slash between spaces
    separates alternatives. Where a place is asked for, the region after its comma may be left out.

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
        region = _REGION.match(outside) if place else None
        if region:
            found.append(region[1])
        words = [token for token in parse(outside) if isinstance(token, Word)]
        found.extend(text for text in inside if fold(text) in initialisms(words))
    return tuple(dict.fromkeys(found))
