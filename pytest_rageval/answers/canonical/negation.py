"""Whether a stretch of a text is denied by the words around it."""

from collections.abc import Sequence

from pytest_rageval.answers.canonical.parsing import Mark, Token
from pytest_rageval.answers.canonical.word_lists import listed
from pytest_rageval.answers.canonical.words import NEGATORS, Word

__all__ = ["breaks_clause", "is_negated", "negates"]

_REACH = 3
_CLAUSE_ENDS = frozenset(".,;:!?()")
_CONTRASTS = frozenset({"but", "and", "although", "though", "however", "because", "while"})
# "not only A", "not until 1989" and "no more than 20" assert what follows.
_ASSERTING = frozenset(
    {
        "only",
        "until",
        "till",
        "before",
        "merely",
        "just",
        "more",
        "less",
        "later",
        "fewer",
        "exceed",
    }
)
_VERBS = listed(
    "is are was were be do does did has have had can could will would should shall may might must"
)
_REPLACING = (("rather", "than"), ("instead", "of"), ("opposed", "to"))


def breaks_clause(token: Token) -> bool:
    """Tell whether a negation before a token does not reach behind it."""
    if isinstance(token, Mark):
        return token.text in _CLAUSE_ENDS
    return isinstance(token, Word) and token.form in _CONTRASTS


def _form(tokens: Sequence[Token], at: int) -> str:
    token = tokens[at] if 0 <= at < len(tokens) else None
    return token.form if isinstance(token, Word) else ""


def negates(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether the token at a place denies what follows it."""
    if _form(tokens, at) in NEGATORS:
        return _form(tokens, at + 1) not in _ASSERTING
    return (_form(tokens, at), _form(tokens, at + 1)) in _REPLACING


def is_negated(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Tell whether the stretch of tokens from `start` to before `end` is denied.

    A negation reaches over three content words within its clause. A verb with
    "not" right behind the stretch denies it too ("six months is not ...").

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> is_negated(parse("not six months"), 1, 2), is_negated(parse("No, six months"), 2, 3)
    (True, False)
    """
    passed = 0
    for at in range(start - 1, -1, -1):
        token = tokens[at]
        if breaks_clause(token) or passed > _REACH:
            break
        if negates(tokens, at):
            return True
        passed += not isinstance(token, Word) or token.content
    return _form(tokens, end) in _VERBS and _form(tokens, end + 1) == "not" and negates(tokens, end + 1)
