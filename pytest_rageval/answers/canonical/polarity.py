"""Answers of yes or no, said outright or by repeating the question."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.negation import negates
from pytest_rageval.answers.canonical.parsing import Mark, Token
from pytest_rageval.answers.canonical.questions import Question
from pytest_rageval.answers.canonical.word_lists import listed
from pytest_rageval.answers.canonical.words import NEGATORS, Word, word_of

__all__ = ["ANSWER_STEMS", "polarity", "said_outright"]

_YES = listed("yes yeah yep true correct right affirmative indeed")
_NO = listed("no nope false incorrect wrong")
# The words of the answer itself, as `Word.stem` knows them.
ANSWER_STEMS = frozenset(word_of(form).stem for form in _YES | _NO)
# Words before the answer proper: "typically, no".
_REACH = 2


def said_outright(tokens: Sequence[Token]) -> bool | None:
    """Give the yes (True) or no (False) at the start of a text; None where it has none.

    "No" before a word it denies ("no dogs") is no answer of its own.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> said_outright(parse("Yes, it is")), said_outright(parse("Typically, no")), said_outright(parse("six"))
    (True, False, None)
    """
    words = [(at, token.form) for at, token in enumerate(tokens) if isinstance(token, Word)]
    for at, form in words[: _REACH + 1]:
        alone = at + 1 >= len(tokens) or isinstance(tokens[at + 1], Mark)
        if form in _YES and (alone or at == 0):
            return True
        follows = tokens[at + 1] if not alone else None
        pronoun = isinstance(follows, Word) and not follows.content and follows.form not in NEGATORS
        if form in _NO and (alone or (at == 0 and pronoun)):
            return False
    return None


def polarity(tokens: Sequence[Token], question: Question) -> bool | None:
    """Give the yes or no that a text amounts to; None where it is neither.

    To a yes-or-no question, a statement that repeats words of the question
    says yes, or no where it denies them.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> from pytest_rageval.answers.canonical.questions import ask
    >>> free = ask("Is parking free for staff?")
    >>> polarity(parse("Parking is free."), free), polarity(parse("It is not free"), free)
    (True, False)
    """
    outright = said_outright(tokens)
    if outright is not None or not question.polar or question.choice:
        return outright
    if any(negates(tokens, at) for at in range(len(tokens))):
        return False
    repeats = any(
        isinstance(token, Word) and token.content and token.stem in question.stems for token in tokens
    )
    return True if repeats else None
