"""Which of several wanted answers an output lists."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_rageval.answers.citations import between_citations
from pytest_rageval.answers.text import normalize

__all__ = ["Listed", "listed"]

# What stands between two items. A comma within 1,000 does not, and a list's bullet or number does.
_SEPARATOR: Final = re.compile(
    r"(?<![0-9]),|,(?![0-9]{3}(?![0-9]))|[;、，；،؛\n]|(?<!\S)(?i:and)(?!\S)|(?m:^)[^\S\n]*(?:[-*•–]|[0-9]{1,3}[.)])(?=\s)"
)
MOST: Final = 20
"""Parts that separators may cut one answer into; a runaway output has thousands."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What an output lists.

    Attributes:
        found: the positions, from 0, of the wanted answers that it lists.
        others: its items that are no alias of a wanted answer, in normal form,
            each once, in their order.
    """

    found: frozenset[int]
    others: tuple[str, ...]


def listed(output: str, wanted: Sequence[Sequence[str]]) -> Listed:
    """Find the wanted answers in an output that lists answers.

    A citation ends an item, as its passage is where that item was found, and is
    dropped. Items are what stands between citations, commas, semicolons, line
    ends, bullets and the word "and"; "&", "/" and "or" are parts of names.
    Before they are separated, the longest stretch between two citations, from
    one item's beginning to another's end, that equals an alias is taken as one
    item: "Washington, D.C." and "Tom and Jerry" stay whole where they are wanted.

    An item counts when it equals an alias as a whole, both in the normal form
    of `text.normalize` (lower case, no punctuation, no articles, single
    spaces). Equal items count once, and an item counts for one wanted answer:
    where several have the alias, items are assigned so that the most are found.

    Args:
        output: the generator's.
        wanted: answers, each as its aliases.

    Source: Amouyal et al. (2023), QAMPARI, as scored in ALCE, Gao et al. (2023),
    which separates at commas alone.

    >>> listed("Paris [1], Washington, D.C. [2] and Atlantis", [["Paris"], ["Washington, D.C."], ["Rome"]])
    Listed(found=frozenset({0, 1}), others=('atlantis',))
    """
    answers_of = _by_alias(wanted)
    parts = between_citations(output)
    items = dict.fromkeys(item for part in parts for item in _items(part, answers_of))
    others = tuple(item for item in items if item not in answers_of)
    return Listed(_assigned([answers_of[item] for item in items if item in answers_of]), others)


def _by_alias(wanted: Sequence[Sequence[str]]) -> Mapping[str, list[int]]:
    """The positions of the answers that have an alias, by its normal form."""
    found = defaultdict(list)
    for position, aliases in enumerate(wanted):
        for alias in dict.fromkeys(map(normalize, aliases)):
            if alias:
                found[alias].append(position)
    return dict(found)


def _items(text: str, aliases: Mapping[str, object]) -> list[str]:
    """The items of an output in normal form; those without a letter or digit are left out, unless wanted."""
    cuts = [match.span() for match in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    words = max((len(alias.split()) for alias in aliases), default=0)
    characters = max(map(len, aliases), default=0)
    items, first = [], 0
    while first < len(starts):
        last = first
        for other in range(first + 1, min(first + MOST, len(starts))):
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
        items.append(normalize(text[starts[first] : ends[last]]))
        first = last + 1
    return [item for item in items if item in aliases or any(map(str.isalnum, item))]


def _assigned(choices: Sequence[Sequence[int]]) -> frozenset[int]:
    """The most answers that items can be assigned to, one each: a largest matching."""
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
