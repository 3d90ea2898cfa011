"""Words before a figure that bound it, blur it or place it within a period."""

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_rageval.answers.canonical.lexemes import Lexeme, text_at
from pytest_rageval.answers.canonical.word_lists import listed

__all__ = ["Qualifier", "read_qualifier"]


@dataclass(frozen=True, slots=True)
class Qualifier:
    """What the words before a figure say about it (see `figures.Figure`)."""

    bound: int = 0
    part: str = ""
    approximate: bool = False

    def and_also(self, other: "Qualifier") -> "Qualifier":
        """Join two qualifiers of one figure, the later one winning."""
        return Qualifier(
            other.bound or self.bound,
            other.part or self.part,
            self.approximate or other.approximate,
        )


_LEAST, _MOST = Qualifier(bound=1), Qualifier(bound=-1)
_PHRASES = {
    "at least": _LEAST,
    "no less than": _LEAST,
    "not less than": _LEAST,
    "no fewer than": _LEAST,
    "more than": _LEAST,
    "greater than": _LEAST,
    "higher than": _LEAST,
    "longer than": _LEAST,
    "later than": _LEAST,
    "minimum": _LEAST,
    "over": _LEAST,
    "above": _LEAST,
    "exceeding": _LEAST,
    "after": _LEAST,
    "at most": _MOST,
    "no more than": _MOST,
    "not more than": _MOST,
    "no later than": _MOST,
    "not later than": _MOST,
    "no longer than": _MOST,
    "not exceeding": _MOST,
    "not above": _MOST,
    "not over": _MOST,
    "not after": _MOST,
    "not under": _LEAST,
    "not below": _LEAST,
    "not before": _LEAST,
    "up to": _MOST,
    "less than": _MOST,
    "fewer than": _MOST,
    "lower than": _MOST,
    "earlier than": _MOST,
    "maximum": _MOST,
    "under": _MOST,
    "below": _MOST,
    "before": _MOST,
} | dict.fromkeys(
    listed("about around approximately approx roughly nearly almost circa ca c some"),
    Qualifier(approximate=True),
)
_PARTS = {
    "early": "early",
    "mid": "mid",
    "middle": "mid",
    "late": "late",
    "beginning": "early",
    "end": "late",
}
_LONGEST = 3
_CHAIN = 6
_LINKS = frozenset({"of", "in", "the", "a", "-"})
_BY_WORDS = {tuple(phrase.split()): meaning for phrase, meaning in _PHRASES.items()}


def _one(pieces: Sequence[Lexeme], at: int) -> tuple[Qualifier, int] | None:
    for length in range(_LONGEST, 0, -1):
        words = tuple(piece.text for piece in pieces[at : at + length])
        if words in _BY_WORDS:
            return _BY_WORDS[words], at + len(words)
    word = text_at(pieces, at)
    return (Qualifier(part=_PARTS[word]), at + 1) if word in _PARTS else None


def read_qualifier(pieces: Sequence[Lexeme], at: int) -> tuple[Qualifier, int] | None:
    """Read the qualifiers that start at a lexeme, with the index of what they qualify.

    Whether a figure follows is for the caller to see: "under the bridge"
    qualifies nothing.

    >>> from pytest_rageval.answers.canonical.lexemes import lexemes
    >>> read_qualifier(lexemes("no more than about 20"), 0)
    (Qualifier(bound=-1, part='', approximate=True), 4)
    """
    found = _one(pieces, at)
    if found is None:
        return None
    meaning, end = found
    # More than a few in a row qualify nothing.
    for _ in range(_CHAIN):
        after = end + (text_at(pieces, end) in _LINKS)
        further = _one(pieces, after)
        if further is None:
            return meaning, end
        meaning, end = meaning.and_also(further[0]), further[1]
    return None
