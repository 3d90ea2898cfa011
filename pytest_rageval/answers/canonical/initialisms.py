"""Initialisms that can be checked against the words they come from."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.words import FUNCTION_WORDS, Word

__all__ = ["is_initialism"]

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
    if not _SHORTEST <= len(short) <= _LONGEST or short in FUNCTION_WORDS or len(words) < _SHORTEST:
        return False
    every = "".join(word.form[:1] for word in words)
    return short in {every, "".join(word.form[:1] for word in words if word.content)}
