"""Decides whether a text asserts what it names: negation and hedges."""

import re
from collections.abc import Container, Sequence

from pytest_rageval.answers.canonical.parsing import Token, content_word_at, form_at
from pytest_rageval.answers.canonical.words import AUXILIARIES, NEGATORS, Word, word_set

# A negation extends over three content words or figures within its clause.
_MAX_WORDS_AFTER_NEGATION = 3
CLAUSE_ENDS = frozenset(".,;:!?()") | word_set("and but although though however because while")

# A negator before one of these words does not negate: "not only A", "not until 1989", "no more than 20".
_ASSERTING = word_set("only until till before merely just more less later fewer exceed")
_CONTRASTS = (("rather", "than"), ("instead", "of"), ("opposed", "to"))

_HEDGE = re.compile(
    r"\b(?:not|cannot)(?: \w+){0,2}? (?:say|state|mention|specify|know|tell|sure|certain|clear|enough|confirm|name)\b"
    r"|\b(?:unclear|unsure|unknown|uncertain|asks? (?:whether|if))\b(?!.*\b(?:but|however)\b)"
    r"|\b(?:either|maybe|perhaps|possibly|could be|might be)\b.*\b(?:or|maybe|perhaps|possibly|might be)\b"
)


def is_negated(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Return True if the tokens from `start` to before `end` are negated.

    A verb with "not" directly after them negates them too ("six months is not ...").

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> is_negated(parse("not six months"), 1, 2), is_negated(parse("No, six months"), 2, 3)
    (True, False)
    """
    distance = 0
    for index in range(start - 1, -1, -1):
        if form_at(tokens, index) in CLAUSE_ENDS or distance > _MAX_WORDS_AFTER_NEGATION:
            break
        if negates(tokens, index):
            return True
        distance += not isinstance(tokens[index], Word) or content_word_at(tokens, index) is not None
    return (
        form_at(tokens, end) in AUXILIARIES | {"may"}
        and form_at(tokens, end + 1) == "not"
        and negates(tokens, end + 1)
    )


def negates(tokens: Sequence[Token], index: int) -> bool:
    """Return True if the token at an index negates the tokens after it."""
    form, following = form_at(tokens, index), form_at(tokens, index + 1)
    return following not in _ASSERTING if form in NEGATORS else (form, following) in _CONTRASTS


def is_hedged(tokens: Sequence[Token], reference: Sequence[Token], given: Container[str] = ()) -> bool:
    """Return True if a prediction mentions a reference without commitment, in each sentence that mentions it.

    Hedges are "either A or B", "maybe A, maybe B" and "I cannot say whether it is A", but not "it is probably A". The
    stems that are `given` by the question are no hedges.

    >>> from pytest_rageval.answers.canonical.parsing import parse
    >>> texts = "It is probably Oslo.", "Either Oslo or Bergen", "They name Oslo, but do not say why."
    >>> [is_hedged(parse(text), parse("Oslo")) for text in texts]
    [False, True, True]
    """
    expected = [form_at(reference, index) for index in range(len(reference))]
    content = {form for index, form in enumerate(expected) if content_word_at(reference, index)}
    text = " ".join(
        "#" if isinstance(token, Word) and token.stem in given else form_at(tokens, index) or "#"
        for index, token in enumerate(tokens)
    )
    sentences = [
        part for part in re.split(r"[.!?]", text) if not content or not content.isdisjoint(part.split())
    ]
    hedged = bool(sentences) and all(_HEDGE.search(part) for part in sentences)
    return hedged and "or" not in expected and not _HEDGE.search(" ".join(expected))
