"""Citations in an answer: `[1][3]`, `[1, 3]`, `[1-3]` or `[Passage 1]`, numbers of passages in the prompt."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Citations", "between_citations", "cited", "without_citations"]

# Four digits in brackets are a year, such as [1984], in a text about passages that are far fewer.
_NUMBER: Final = r"\d{1,3}"
_NAME: Final = (
    r"(?:passages?|documents?|docs?\.?|sources?|contexts?|excerpts?|refs?\.?|references?|no\.?|nos\.?|\#|\^)"
)
_NAMED: Final = rf"(?:(?i:{_NAME})\s*)?{_NUMBER}"
_NUMBERS: Final = rf"{_NAMED}(?:\s*[-\u2013\u2014]\s*{_NUMBER})?"
_AND: Final = r"(?:\s*[,;&]\s*(?:and\s+)?|\s+and\s+)"
_LIST: Final = rf"\s*{_NUMBERS}(?:{_AND}{_NUMBERS})*\s*"
_CITATION: Final = re.compile(rf"\[{_LIST}\]|\u3010{_LIST}(?:\u2020[^\u3010\u3011\n]*)?\u3011")
_RANGE: Final = re.compile(rf"({_NUMBER})(?:\s*[-\u2013\u2014]\s*({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class Citations:
    """What an answer cites, each number once, in the order of first mention.

    Attributes:
        positions: of passages in the prompt, from 1.
        hallucinated: numbers of no passage of the prompt: 0, and those above the last.
    """

    positions: tuple[int, ...]
    hallucinated: tuple[int, ...]


def cited(answer: str, passages: int) -> Citations:
    """Read the citations of an answer.

    A citation is a number of one to three digits in square or lenticular
    brackets, perhaps after a word such as "Passage"; several in one pair of
    brackets are separated by commas, semicolons or "and". A range stands for
    the passages of the prompt that it spans; where it goes beyond them, that is
    one hallucinated citation, its far end, however wide it is. Brackets with
    anything else in them ("[sic]", "[1984]", "[-1]") are text.

    Args:
        answer: as the generator gave it.
        passages: how many the prompt held, at least 0.

    >>> cited("Marazan [1][3], In the Wet [2, 9], On the Beach [1]", passages=3)
    Citations(positions=(1, 3, 2), hallucinated=(9,))
    """
    numbers = dict.fromkeys(
        number
        for citation in _CITATION.finditer(answer)
        for first, last in _RANGE.findall(citation[0].partition("\u2020")[0])
        for number in _spanned(int(first), int(last or first), passages)
    )
    there = tuple(number for number in numbers if 1 <= number <= passages)
    return Citations(there, tuple(number for number in numbers if not 1 <= number <= passages))


def without_citations(answer: str) -> str:
    """The answer without its citations and the spaces before them.

    >>> without_citations("Marazan [1][3], In the Wet [2].")
    'Marazan, In the Wet.'
    """
    *before, last = between_citations(answer)
    return "".join([*map(_without_space, before), last]).strip()


def between_citations(answer: str) -> list[str]:
    """What stands before, between and after the citations.

    >>> between_citations("Marazan [1][3] In the Wet [2].")
    ['Marazan ', '', ' In the Wet ', '.']
    """
    return _CITATION.split(answer)


def _without_space(text: str) -> str:
    """Without the space at its end, but with a line's end: lines are items of a list."""
    bare = text.rstrip()
    line = text.rfind("\n", len(bare))
    return bare if line < 0 else text[: line + 1]


def _spanned(first: int, last: int, passages: int) -> Iterator[int]:
    """The passages of the prompt from one number to another, and the ends beyond them."""
    low, high = min(first, last), max(first, last)
    if low < 1:
        yield low
    yield from range(max(low, 1), min(high, passages) + 1)
    if high > passages and high > 0:
        yield high
