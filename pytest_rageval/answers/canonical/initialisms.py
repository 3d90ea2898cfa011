"""Initialisms that can be checked against the words they come from."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.words import FUNCTION_WORDS, Word

__all__ = ["initialisms", "is_initialism"]

_SHORTEST, _LONGEST = 2, 7


def is_initialism(short: str, words: Sequence[Word]) -> bool:
    """Tell whether a word is made of the first letters of others.

    Function words may count or not ("USA" and "DoD" both occur). Words that
    are function words themselves ("is", "it") never are initialisms here.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> words = [word_of(form) for form in "international space station".split()]
    >>> is_initialism("iss", words), is_initialism("isa", words)
    (True, False)
    """
    return short in initialisms(words)


def initialisms(words: Sequence[Word]) -> frozenset[str]:
    """Give the initialisms of some words: of all, and of those with content.

    >>> from pytest_rageval.answers.canonical.words import word_of
    >>> sorted(initialisms([word_of(form) for form in "department of defense".split()]))
    ['dd', 'dod']
    """
    if len(words) < _SHORTEST:
        return frozenset()
    every = "".join(word.form[:1] for word in words)
    content = "".join(word.form[:1] for word in words if word.content)
    return frozenset(
        short
        for short in (every, content)
        if _SHORTEST <= len(short) <= _LONGEST and short not in FUNCTION_WORDS
    )
