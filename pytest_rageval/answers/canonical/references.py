"""Split a reference into what a prediction has to state."""

import re
from dataclasses import dataclass
from functools import lru_cache

from pytest_rageval.answers.canonical.figures import Figure
from pytest_rageval.answers.canonical.lexemes import fold
from pytest_rageval.answers.canonical.names import is_initialism
from pytest_rageval.answers.canonical.negation import ANSWER_STEMS, is_negated, polarity
from pytest_rageval.answers.canonical.parsing import Mark, Token, parse
from pytest_rageval.answers.canonical.phrases import Phrase
from pytest_rageval.answers.canonical.questions import Question
from pytest_rageval.answers.canonical.words import ARTICLES, PARTICLES, Word

__all__ = ["Demand", "demands_of", "versions"]

_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)\s*")
_REGION = re.compile(r"^([^,]+),(?!.*\b(?:and|or)\b)", re.IGNORECASE)
_ALTERNATIVE = re.compile(r"\s+/\s+|\s*;\s*or\s+")


@dataclass(frozen=True, slots=True)
class Demand:
    """The figures and phrases that a prediction must state, and whether each is denied.

    `counted` pairs a figure with the noun right behind it; `itemised` says
    that the phrases are the items of a list.
    """

    figures: tuple[tuple[Figure, bool], ...]
    phrases: tuple[Phrase, ...]
    counted: tuple[tuple[Figure, str], ...]
    itemised: bool = False

    def __bool__(self) -> bool:
        """Whether anything is demanded at all."""
        return bool(self.figures or self.phrases)


@lru_cache(maxsize=8192)
def versions(reference: str, *, place: bool = False) -> tuple[str, ...]:
    """Give the forms of a reference of which one suffices.

    A parenthesis adds to an answer and may be left out; it stands alone only
    where it abbreviates the rest. A slash between spaces separates
    alternatives. Where a place is asked for, the region behind its comma may
    be left out: it adds nothing to which place is meant.

    >>> versions("Tulsa (Oklahoma)"), versions("International Border (IB)")
    (('Tulsa',), ('International Border', 'IB'))
    >>> versions("soccer / football")
    ('soccer', 'football')
    >>> versions("Madison, Wisconsin", place=True)
    ('Madison, Wisconsin', 'Madison')
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
        found.extend(text for text in inside if is_initialism(fold(text), words))
    return tuple(dict.fromkeys(found))


def _joins_phrase(tokens: tuple[Token, ...], at: int) -> bool:
    """Tell whether a token between two content words keeps them one phrase."""
    token = tokens[at]
    if isinstance(token, Mark):
        return token.text in {"-", "'", '"', ".", "#"}
    inside = 0 < at < len(tokens) - 1
    return isinstance(token, Word) and (token.form in ARTICLES or (inside and token.form in PARTICLES))


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
    """Tell whether a word is the particle inside a name: "Leonardo da Vinci"."""
    token = tokens[at]
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    return (
        isinstance(token, Word)
        and token.form in PARTICLES
        and bool(run)
        and isinstance(following, Word)
        and following.content
    )


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


@lru_cache(maxsize=8192)
def demands_of(reference: str, question: Question) -> Demand:
    """Give what a prediction must state to state a reference.

    Words and figures that the question gives away are not demanded, unless
    nothing else is left or the question offers a choice. A reference made of
    function words only ("The Who") demands all its words.

    >>> from pytest_rageval.answers.canonical.questions import ask
    >>> [phrase.words[0].form for phrase in demands_of("the Amazon River", ask("Which river is longest?")).phrases]
    ['amazon']
    """
    tokens = parse(reference)
    given = frozenset() if question.choice else question.stems
    if polarity(tokens, question) is not None:
        # The yes or no is compared by itself; only what it adds is demanded.
        return _demand(tokens, question, given | ANSWER_STEMS)
    demand = _demand(tokens, question, given) or _demand(tokens, question, frozenset())
    return demand or _demand(tokens, question, frozenset(), every=True)
