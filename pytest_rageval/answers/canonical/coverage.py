"""When most of a longer reference is enough.

People who compare answers accept one that leaves out a detail of a long
reference: "Landover, Maryland" for "FedExField in Landover, Maryland". They
do not when a figure, an item of a list or a word such as "south" is missing,
or when something else stands in its place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from pytest_rageval.answers.canonical.parsing import Token
from pytest_rageval.answers.canonical.phrases import Phrase
from pytest_rageval.answers.canonical.words import DISTINGUISHING, Word

__all__ = ["LEAST_SHARE", "mostly_stated"]

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
