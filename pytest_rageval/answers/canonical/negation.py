"""Negation: whether the words around a stretch of text deny it, and answers of yes or no."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.parsing import Mark, Question, Token
from pytest_rageval.answers.canonical.words import NEGATORS, Word, listed, word_of

__all__ = ["ANSWER_STEMS", "is_negated", "polarity", "said_outright"]

_REACH = 3
_CLAUSE_ENDS = frozenset(".,;:!?()")
_CONTRASTS = frozenset({"but", "and", "although", "though", "however", "because", "while"})

# "not only A", "not until 1989" and "no more than 20" assert what follows.
_ASSERTING = listed("only until till before merely just more less later fewer exceed")
_VERBS = listed(
    "is are was were be do does did has have had can could will would should shall may might must"
)
_REPLACING = (("rather", "than"), ("instead", "of"), ("opposed", "to"))
_YES = listed("yes yeah yep true correct right affirmative indeed")
_NO = listed("no nope false incorrect wrong")

# The words of the answer itself, as `Word.stem` knows them.
ANSWER_STEMS = frozenset(word_of(form).stem for form in _YES | _NO)

# Words before the answer proper: "typically, no".
_POLARITY_REACH = 2


def is_negated(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return whether the stretch of tokens from `start` to before `end` is denied.

    A negation reaches over three content words within its clause. A verb with "not" right after the stretch denies
    it too ("six months is not ...").

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> is_negated(parse("not six months"), 1, 2), is_negated(parse("No, six months"), 2, 3)
    (True, False)
    """
    passed = 0
    for at in range(start - 1, -1, -1):
        token = tokens[at]
        if _breaks_clause(token) or passed > _REACH:
            break
        if _negates(tokens, at):
            return True
        passed += not isinstance(token, Word) or token.content
    return _form(tokens, end) in _VERBS and _form(tokens, end + 1) == "not" and _negates(tokens, end + 1)


def said_outright(tokens: Sequence[Token]) -> bool | None:
    """Return the yes (True) or no (False) at the start of a text; None where it has none.

    "No" before a word it denies ("no dogs") is no answer of its own.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> said_outright(parse("Yes, it is")), said_outright(parse("Typically, no")), said_outright(parse("six"))
    (True, False, None)
    """
    words = [(at, token.form) for at, token in enumerate(tokens) if isinstance(token, Word)]
    for at, form in words[: _POLARITY_REACH + 1]:
        alone = at + 1 >= len(tokens) or isinstance(tokens[at + 1], Mark)
        if form in _YES and (alone or at == 0):
            return True
        follows = tokens[at + 1] if not alone else None
        pronoun = isinstance(follows, Word) and not follows.content and follows.form not in NEGATORS
        if form in _NO and (alone or (at == 0 and pronoun)):
            return False
    return None


def polarity(tokens: Sequence[Token], question: Question) -> bool | None:
    """Return the yes or no that a text amounts to; None where it is neither.

    To a yes-or-no question, a statement that repeats words of the question says yes, or no where it denies them.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> from pytest_rageval.answers.canonical.parsing import ask
    >>> free = ask("Is parking free for staff?")
    >>> polarity(parse("Parking is free."), free), polarity(parse("It is not free"), free)
    (True, False)
    """
    outright = said_outright(tokens)
    if outright is not None or not question.polar or question.choice:
        return outright
    if any(_negates(tokens, at) for at in range(len(tokens))):
        return False
    repeats = any(
        isinstance(token, Word) and token.content and token.stem in question.stems for token in tokens
    )
    return True if repeats else None


def _breaks_clause(token: Token) -> bool:
    """Return whether a negation before a token does not reach beyond it."""
    if isinstance(token, Mark):
        return token.text in _CLAUSE_ENDS
    return isinstance(token, Word) and token.form in _CONTRASTS


def _negates(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the token at a place denies what follows it."""
    if _form(tokens, at) in NEGATORS:
        return _form(tokens, at + 1) not in _ASSERTING
    return (_form(tokens, at), _form(tokens, at + 1)) in _REPLACING


def _form(tokens: Sequence[Token], at: int) -> str:
    token = tokens[at] if 0 <= at < len(tokens) else None
    return token.form if isinstance(token, Word) else ""
