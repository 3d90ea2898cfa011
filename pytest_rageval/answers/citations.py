"""Parses the citations of an answer, such as `[1][3]` or `[1-3]`, and matches its items with the wanted answers."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_rageval.answers.overlap import normalize

# Prompts have far fewer than 1,000 passages. Four digits in brackets are a year, such as [1984].
_NUMBER: Final = r"\d{1,3}"
_PASSAGE_NOUN: Final = (
    r"(?:passages?|documents?|docs?\.?|sources?|contexts?|excerpts?|refs?\.?|references?|no\.?|nos\.?|\#|\^)"
)
_NAMED_NUMBER: Final = rf"(?:(?i:{_PASSAGE_NOUN})\s*)?{_NUMBER}"
_NUMBER_OR_RANGE: Final = rf"{_NAMED_NUMBER}(?:\s*[-\u2013\u2014]\s*{_NUMBER})?"
_AND: Final = r"(?:\s*[,;&]\s*(?:and\s+)?|\s+and\s+)"
_LIST: Final = rf"\s*{_NUMBER_OR_RANGE}(?:{_AND}{_NUMBER_OR_RANGE})*\s*"
_CITATION: Final = re.compile(rf"\[{_LIST}\]|\u3010{_LIST}(?:\u2020[^\u3010\u3011\n]*)?\u3011")
_RANGE: Final = re.compile(rf"({_NUMBER})(?:\s*[-\u2013\u2014]\s*({_NUMBER}))?")


@dataclass(frozen=True, slots=True)
class Citations:
    """The citations of an answer, each number once, in the order of first mention.

    `positions` are those of passages in the prompt, from 1; `hallucinated` are all other numbers.
    """

    positions: tuple[int, ...]
    hallucinated: tuple[int, ...]


# Separators of items, which include bullets and the numbers of a list. The comma within 1,000 is not a separator.
_SEPARATOR: Final = re.compile(
    r"(?<![0-9]),|,(?![0-9]{3}(?![0-9]))|[;、，；،؛\n]|(?<!\S)(?i:and)(?!\S)|(?m:^)[^\S\n]*(?:[-*•–]|[0-9]{1,3}[.)])(?=\s)"
)
MAX_JOINED_PARTS: Final = 20
"""At most this many parts between separators are joined to one item, because a runaway output has thousands."""


@dataclass(frozen=True, slots=True)
class ListedAnswers:
    """The different items that an output lists, in their order and as it first writes them."""

    candidates: Mapping[str, Sequence[int]]  # by item: the indices of the wanted answers that it equals

    @property
    def matched(self) -> frozenset[int]:
        """The indices of the wanted answers that are listed. Each item is assigned to at most one answer."""
        return _match_items(list(self.candidates.values()))

    @property
    def unmatched(self) -> tuple[str, ...]:
        return tuple(item for item, answers in self.candidates.items() if not answers)


def parse_citations(answer: str, passages: int) -> Citations:
    """Return the citations of an answer; `passages` is the number of passages in the prompt.

    A citation is a number of one to three digits in square or lenticular brackets, perhaps after a word such as
    "Passage". Several numbers in one pair of brackets are separated by commas, semicolons or "and". A range cites all
    passages in it; if it ends beyond the last passage, its end is one hallucinated citation. Brackets with other text
    ("[sic]", "[1984]", "[-1]") are not citations.

    >>> parse_citations("Marazan [1][3], In the Wet [2, 9], On the Beach [1]", passages=3)
    Citations(positions=(1, 3, 2), hallucinated=(9,))
    """
    numbers = dict.fromkeys(
        number
        for citation in _CITATION.finditer(answer)
        for first, last in _RANGE.findall(citation[0].partition("\u2020")[0])
        for number in _expand_range(int(first), int(last or first), passages)
    )
    positions = tuple(number for number in numbers if 1 <= number <= passages)
    return Citations(positions, tuple(number for number in numbers if not 1 <= number <= passages))


def without_citations(answer: str) -> str:
    """Return an answer without its citations and the spaces before them.

    >>> without_citations("Marazan [1][3], In the Wet [2].")
    'Marazan, In the Wet.'
    """
    if "[" not in answer and "\u3010" not in answer:
        return answer.strip()
    *before, last = _CITATION.split(answer)
    return "".join([*map(_strip_trailing_spaces, before), last]).strip()


def match_listed_answers(output: str, wanted: Sequence[Sequence[str]]) -> ListedAnswers:
    """Match the items of an output with the wanted answers; `wanted` has all aliases of each answer.

    Items are separated by citations, commas, semicolons, line ends, bullets and the word "and", but not by "&", "/" and
    "or", which are parts of names. A sequence of items between two citations that equals an alias is joined to one
    item, the longest such sequence first: "Washington, D.C." and "Tom and Jerry" are not split if they are wanted.

    An item must equal an alias as a whole, both in the normal form of `overlap.normalize` (lower case, no punctuation,
    no articles, single spaces). Equal items count once, and an item counts for one wanted answer. If several answers
    have the same alias, items are assigned so that as many answers as possible are matched.

    Source: Amouyal et al. (2023), QAMPARI, as scored in ALCE, Gao et al. (2023), which separates at commas only.

    >>> output = "Paris [1], Washington, D.C. [2] and Atlantis"
    >>> listing = match_listed_answers(output, [["Paris"], ["Washington, D.C."], ["Rome"]])
    >>> listing.matched, listing.unmatched
    (frozenset({0, 1}), ('Atlantis',))
    """
    answers_by_alias: dict[str, list[int]] = defaultdict(list)
    for index, aliases in enumerate(wanted):
        for alias in {normalize(alias) for alias in aliases} - {""}:
            answers_by_alias[alias].append(index)
    first_spelling: dict[str, str] = {}
    for part in _CITATION.split(output):
        for item in _split_items(part, answers_by_alias):
            first_spelling.setdefault(normalize(item), item)
    return ListedAnswers(
        {item: tuple(answers_by_alias.get(normalized, ())) for normalized, item in first_spelling.items()}
    )


def _expand_range(first: int, last: int, passages: int) -> Iterator[int]:
    """Yield the positions of passages in a range of numbers, and its ends that are not the position of a passage."""
    low, high = sorted((first, last))
    if low < 1:
        yield low
    yield from range(max(low, 1), min(high, passages) + 1)
    if high > passages and high > 0:
        yield high


def _strip_trailing_spaces(text: str) -> str:
    """Strip spaces at the end of a text, but keep a line break, because lines are items of a list."""
    stripped = text.rstrip()
    line_break = text.rfind("\n", len(stripped))
    return stripped if line_break < 0 else text[: line_break + 1]


def _split_items(text: str, aliases: Mapping[str, object]) -> list[str]:
    """Return the items of a text; an item without a letter or digit is left out unless it is an alias."""
    separators = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in separators)]
    ends = [*(start for start, _ in separators), len(text)]
    max_words = max((len(alias.split()) for alias in aliases), default=0)
    max_characters = max(map(len, aliases), default=0)
    items, first = [], 0
    while first < len(starts):
        last = first
        for index in range(first + 1, min(first + MAX_JOINED_PARTS, len(starts))):
            joined = normalize(text[starts[first] : ends[index]])
            if len(joined) > max_characters or len(joined.split()) > max_words:
                break
            # The first and the last part must each add a word: "A, B" is "b" in normal form, but "A" is its own item.
            if (
                joined in aliases
                and joined != normalize(text[starts[first + 1] : ends[index]])
                and joined != normalize(text[starts[first] : ends[index - 1]])
            ):
                last = index
        items.append(text[starts[first] : ends[last]].strip())
        first = last + 1
    return [item for item in items if normalize(item) in aliases or any(map(str.isalnum, normalize(item)))]


def _match_items(candidates: Sequence[Sequence[int]]) -> frozenset[int]:
    """Return the answers in a maximum matching: each item is assigned to at most one of its candidate answers."""
    item_of_answer: dict[int, int] = {}

    def assign(item: int, tried: set[int]) -> bool:
        for answer in candidates[item]:
            if answer not in tried:
                tried.add(answer)
                if answer not in item_of_answer or assign(item_of_answer[answer], tried):
                    item_of_answer[answer] = item
                    return True
        return False

    for item in range(len(candidates)):
        assign(item, set())
    return frozenset(item_of_answer)
