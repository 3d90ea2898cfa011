"""Citations in an answer, such as `[1][3]` or `[1-3]`, and the wanted answers that it lists."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_rageval.answers.overlap import normalize
from pytest_rageval.lazy import lazy_pattern

__all__ = ["Citations", "Listed", "between_citations", "cited", "listed", "without_citations"]

# Four digits in brackets are a year, such as [1984], in a text about passages that are far fewer.
_NUMBER: Final = r"\d{1,3}"
_NAME: Final = (
    r"(?:passages?|documents?|docs?\.?|sources?|contexts?|excerpts?|refs?\.?|references?|no\.?|nos\.?|\#|\^)"
)
_NAMED: Final = rf"(?:(?i:{_NAME})\s*)?{_NUMBER}"
_NUMBERS: Final = rf"{_NAMED}(?:\s*[-\u2013\u2014]\s*{_NUMBER})?"
_AND: Final = r"(?:\s*[,;&]\s*(?:and\s+)?|\s+and\s+)"
_LIST: Final = rf"\s*{_NUMBERS}(?:{_AND}{_NUMBERS})*\s*"
_CITATION: Final = lazy_pattern(rf"\[{_LIST}\]|\u3010{_LIST}(?:\u2020[^\u3010\u3011\n]*)?\u3011")
_RANGE: Final = lazy_pattern(rf"({_NUMBER})(?:\s*[-\u2013\u2014]\s*({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class Citations:
    """The citations of an answer, each number once, in the order of first mention.

    `positions` are those of passages in the prompt, from 1; `hallucinated` are 0 and numbers above the last.
    """

    positions: tuple[int, ...]
    hallucinated: tuple[int, ...]


# Separators of items: not a comma within 1,000, but a bullet or a number of a list.
_SEPARATOR: Final = lazy_pattern(
    r"(?<![0-9]),|,(?![0-9]{3}(?![0-9]))|[;、，；،؛\n]|(?<!\S)(?i:and)(?!\S)|(?m:^)[^\S\n]*(?:[-*•–]|[0-9]{1,3}[.)])(?=\s)"
)
MOST_PARTS: Final = 20
"""Parts that separators may cut one answer into; a runaway output has thousands."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The items that an output lists, each once, in their order and as it first writes them.

    Attributes:
        choices: by item, the positions, from 0, of the wanted answers that it equals.
    """

    choices: Mapping[str, Sequence[int]]

    @property
    def found(self) -> frozenset[int]:
        """The wanted answers that are listed; an item counts for one of those that it equals."""
        return _assigned(list(self.choices.values()))

    @property
    def others(self) -> tuple[str, ...]:
        """The items that equal none."""
        return tuple(item for item, answers in self.choices.items() if not answers)


def cited(answer: str, passages: int) -> Citations:
    """Read the citations of an answer.

    A citation is a number of one to three digits in square or lenticular brackets, perhaps after a word such as
    "Passage"; several in one pair of brackets are separated by commas, semicolons or "and". A range means the
    passages of the prompt that it spans. Where it goes beyond them, its far end is one hallucinated citation.
    Brackets with anything else in them ("[sic]", "[1984]", "[-1]") are text. `passages` is their number in the prompt.

    >>> cited("Marazan [1][3], In the Wet [2, 9], On the Beach [1]", passages=3)
    Citations(positions=(1, 3, 2), hallucinated=(9,))
    """
    numbers = dict.fromkeys(
        number
        for citation in _CITATION.finditer(answer)
        for first, last in _RANGE.findall(citation[0].partition("\u2020")[0])
        for number in _spanned(int(first), int(last or first), passages)
    )
    positions = tuple(number for number in numbers if 1 <= number <= passages)
    return Citations(positions, tuple(number for number in numbers if not 1 <= number <= passages))


def without_citations(answer: str) -> str:
    """Return the answer without its citations and the spaces before them.

    >>> without_citations("Marazan [1][3], In the Wet [2].")
    'Marazan, In the Wet.'
    """
    if "[" not in answer and "\u3010" not in answer:
        return answer.strip()
    *before, last = between_citations(answer)
    return "".join([*map(_without_space, before), last]).strip()


def between_citations(answer: str) -> list[str]:
    """Return the text before, between and after the citations.

    >>> between_citations("Marazan [1][3] In the Wet [2].")
    ['Marazan ', '', ' In the Wet ', '.']
    """
    return _CITATION.split(answer)


def listed(output: str, wanted: Sequence[Sequence[str]]) -> Listed:
    """Find the wanted answers in an output that lists answers.

    Items are separated by citations, commas, semicolons, line ends, bullets and the word "and"; "&", "/" and "or" are
    parts of names. Before that, the longest stretch of items between two citations that equals an alias is taken as
    one item: "Washington, D.C." and "Tom and Jerry" stay whole where they are wanted.

    An item counts when it equals an alias as a whole, both in the normal form of `overlap.normalize` (lower case, no
    punctuation, no articles, single spaces). Equal items count once, and an item counts for one wanted answer: where
    several have the alias, items are assigned so that the most are found. `wanted` has all aliases of each answer.

    Source: Amouyal et al. (2023), QAMPARI, as scored in ALCE, Gao et al. (2023), which separates at commas only.

    >>> found = listed("Paris [1], Washington, D.C. [2] and Atlantis", [["Paris"], ["Washington, D.C."], ["Rome"]])
    >>> found.found, found.others
    (frozenset({0, 1}), ('Atlantis',))
    """
    answers_of: dict[str, list[int]] = defaultdict(list)
    for position, aliases in enumerate(wanted):
        for alias in {normalize(alias) for alias in aliases} - {""}:
            answers_of[alias].append(position)
    written: dict[str, str] = {}
    for part in between_citations(output):
        for text in _items(part, answers_of):
            written.setdefault(normalize(text), text)
    return Listed({text: tuple(answers_of.get(item, ())) for item, text in written.items()})


def _spanned(first: int, last: int, passages: int) -> Iterator[int]:
    """The passages of the prompt in a range of numbers, and the ends of the range beyond them."""
    low, high = sorted((first, last))
    if low < 1:
        yield low
    yield from range(max(low, 1), min(high, passages) + 1)
    if high > passages and high > 0:
        yield high


def _without_space(text: str) -> str:
    """Strip spaces at the end, but keep a line break: lines are items of a list."""
    bare = text.rstrip()
    line = text.rfind("\n", len(bare))
    return bare if line < 0 else text[: line + 1]


def _items(text: str, aliases: Mapping[str, object]) -> list[str]:
    """The items of an output, without those that have no letter or digit and are not wanted."""
    cuts = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    words = max((len(alias.split()) for alias in aliases), default=0)
    characters = max(map(len, aliases), default=0)
    items, first = [], 0
    while first < len(starts):
        last = first
        for other in range(first + 1, min(first + MOST_PARTS, len(starts))):
            stretch = normalize(text[starts[first] : ends[other]])
            if len(stretch) > characters or len(stretch.split()) > words:
                break
            # Each end must add a word: "A, B" is "b" in normal form, but no item of its own.
            if (
                stretch in aliases
                and stretch != normalize(text[starts[first + 1] : ends[other]])
                and stretch != normalize(text[starts[first] : ends[other - 1]])
            ):
                last = other
        items.append(text[starts[first] : ends[last]].strip())
        first = last + 1
    return [item for item in items if normalize(item) in aliases or any(map(str.isalnum, normalize(item)))]


def _assigned(choices: Sequence[Sequence[int]]) -> frozenset[int]:
    """Assign items to answers, one each, so that the most answers are found: a maximum matching."""
    item_of: dict[int, int] = {}

    def assign(item: int, tried: set[int]) -> bool:
        for answer in choices[item]:
            if answer not in tried:
                tried.add(answer)
                if answer not in item_of or assign(item_of[answer], tried):
                    item_of[answer] = item
                    return True
        return False

    for item in range(len(choices)):
        assign(item, set())
    return frozenset(item_of)
