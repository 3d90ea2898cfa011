"""Whether a prediction states a reference, and when most of a longer reference is enough.

People who compare answers accept one that leaves out a detail of a long reference: "Landover, Maryland" for
"FedExField in Landover, Maryland". They do not when a figure, an item of a list or a word such as "south" is
missing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from pytest_rageval.answers.canonical.dates import Date
from pytest_rageval.answers.canonical.figures import Figure, figure_states
from pytest_rageval.answers.canonical.lexemes import fold
from pytest_rageval.answers.canonical.negation import is_negated, polarity, said_outright
from pytest_rageval.answers.canonical.parsing import Token, parse
from pytest_rageval.answers.canonical.phrases import Phrase, phrase_spans
from pytest_rageval.answers.canonical.quantities import Quantity
from pytest_rageval.answers.canonical.questions import Question, ask
from pytest_rageval.answers.canonical.references import Demand, demands_of, versions
from pytest_rageval.answers.canonical.words import DISTINGUISHING, Word

__all__ = ["LEAST_SHARE", "is_long", "mostly_stated", "states"]

LEAST_SHARE = Fraction(2, 3)
_LEAST_WORDS = 3
_MOST_MISSING = 20


def _shortened(phrase: Phrase) -> Iterator[Phrase]:
    """Give the beginnings and ends of a phrase, longest first; only so many words may be missing."""
    words = phrase.words
    for missing in range(1, min(len(words), _MOST_MISSING + 1)):
        if not any(word.form in DISTINGUISHING for word in words[-missing:]):
            yield replace(phrase, words=words[:-missing], cut_right=True)
        if not any(word.form in DISTINGUISHING for word in words[:missing]):
            yield replace(phrase, words=words[missing:], cut_left=True)


def mostly_stated(
    tokens: Sequence[Token],
    phrases: Sequence[Phrase],
    stated: Callable[[Phrase], bool],
    *,
    itemised: bool,
) -> bool:
    """Tell whether a prediction states two thirds of at least three content words.

    `stated` decides for one phrase; `itemised` says that the phrases are items
    of a list, none of which may be missing whole.
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
        lost = itemised or any(word.form in DISTINGUISHING for word in phrase.words)
        if found is None and lost:
            return False
        covered += len(found.words) if found else 0
    return covered >= LEAST_SHARE * total


LONGEST = 4000
"""Characters of a text that are read: short answers have far fewer, and each word is held against each."""
MOST_SAID = 1000
"""Words, figures and marks of a prediction that are read."""
MOST_WANTED = 300
"""Those of a reference that has more than so many are not compared."""

# Between the parts of one reference a prediction may say this many tokens.
_REACH = 12


def _with_counted_unit(figure: Figure, question: Question) -> Figure:
    """Give a bare number the unit that the question asks for ("how many kilograms")."""
    value = figure.value
    if isinstance(value, Quantity) and not value.units and question.counted:
        return replace(figure, value=replace(value, units=question.counted))
    return figure


def _without_given_parts(figure: Figure, question: Question) -> Figure:
    """Take the parts of a date that the question names, or does not ask for, off the figure."""
    date = figure.value
    if not isinstance(date, Date) or date.day is date.month is None:
        return figure
    if question.year and date.year is not None:
        return replace(figure, value=Date(date.year))
    named = {other.value.year for other in question.figures if isinstance(other.value, Date)}
    return replace(figure, value=replace(date, year=None, swapped=None)) if date.year in named else figure


def _figure_places(tokens: Sequence[Token], figure: Figure, question: Question) -> Iterator[int]:
    wanted = _without_given_parts(_with_counted_unit(figure, question), question)
    for at, token in enumerate(tokens):
        if isinstance(token, Figure) and figure_states(wanted, token, question.understood):
            yield at


def _figure_stated(tokens: Sequence[Token], figure: Figure, question: Question, *, negated: bool) -> bool:
    return any(
        question.negated or is_negated(tokens, at, at + 1) == negated
        for at in _figure_places(tokens, figure, question)
    )


def _phrase_stated(tokens: Sequence[Token], phrase: Phrase, question: Question) -> bool:
    return any(
        question.negated or is_negated(tokens, *span) == phrase.negated
        for span in phrase_spans(tokens, phrase, question)
    )


def _phrases_stated(tokens: Sequence[Token], demand: Demand, question: Question) -> bool:
    def stated(phrase: Phrase) -> bool:
        return _phrase_stated(tokens, phrase, question)

    if all(map(stated, demand.phrases)):
        return True
    # A person's name has its own short forms; a part of it may be someone else.
    return not question.person and mostly_stated(tokens, demand.phrases, stated, itemised=demand.itemised)


def _miscounts(tokens: Sequence[Token], demand: Demand, question: Question) -> bool:
    """Tell whether the prediction counts another number of what the reference counts."""
    for figure, noun in demand.counted:
        said = [
            token
            for token, following in pairwise(tokens)
            if isinstance(token, Figure) and isinstance(following, Word) and following.stem == noun
        ]
        if said and not any(figure_states(figure, token, question.understood) for token in said):
            return True
    return False


def _version_stated(tokens: Sequence[Token], reference: str, question: Question) -> bool:
    wanted = polarity(parse(reference), question)
    said = polarity(tokens, question)
    outright = said_outright(parse(reference)) is not None
    if wanted is not None and (outright or said_outright(tokens) is not None) and said is not wanted:
        return False
    demand = demands_of(reference, question)
    if not demand:
        return wanted is not None and said is wanted
    return (
        all(_figure_stated(tokens, figure, question, negated=negated) for figure, negated in demand.figures)
        and _phrases_stated(tokens, demand, question)
        and not _miscounts(tokens, demand, question)
    )


def is_long(reference: str) -> bool:
    """Tell whether a reference is too long to be compared by its words: more than 4,000 characters or 300 words."""
    return len(reference) > LONGEST or len(parse(reference)) > MOST_WANTED


def _beginning(text: str) -> str:
    """What is read of a text, up to the end of a word where it has words."""
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST + 1].rsplit(maxsplit=1)[0][:LONGEST] if text[:LONGEST].split() else ""


def states(prediction: str, reference: str, *, question: str = "") -> bool:
    """Tell whether a prediction states a reference answer.

    A prediction states a reference when it gives every figure of it (number,
    date, time; units converted where that is exact) and its content words, as
    phrases in order, neither denied nor put as one of several choices. More
    information is allowed. What the question gives away need not be repeated;
    a question for a person admits the family name alone.

    `prediction` is the answer to judge, a phrase or some sentences;
    `reference` one correct answer; `question` what both answer: without it,
    nothing is given away.

    Edge cases: a blank prediction states nothing; a reference of signs only
    ("?!") is compared as it stands, and so is one that is long (`is_long`); of a
    prediction the first 4,000 characters are read. Of a reference with three or more content
    words, two thirds suffice (see `coverage`). Case, surrounding space, accents
    and the writing of numbers never matter.

    Meant for short factual answers in English. Names and words of other
    languages and scripts are compared by equality and containment. Synonyms
    are not known.

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
    return any(_version_stated(tokens, version, asked) for version in versions(reference, place=asked.place))
