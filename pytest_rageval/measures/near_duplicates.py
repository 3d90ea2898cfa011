"""Near-duplicate passages and questions, by shared runs of three words (shingles).

Two chunks of one text share long runs of words; two texts on one topic share terms, but few runs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.tokenize import COMMON_UNSPACED, normal_form

__all__ = ["near_duplicate", "runs", "shared_runs", "similar_questions", "words"]

# A mark splits a word here: matches of gold passages by text, and with them labels, rest on these words.
_WORD: Final = lazy_pattern(rf"[{COMMON_UNSPACED}]|[^\W_{COMMON_UNSPACED}]+")

Runs = frozenset[tuple[str, ...]]

RUN: Final = 3  # words of a run
THRESHOLD: Final = 0.35
FEWEST: Final = 20  # the smallest divisor of a share, for short texts

SAME_QUESTION: Final = 0.6
"""Of the three-word runs. Questions are short and begin alike, so they share more than passages do: at 0.6 a word may
differ at an end of a question of six words, or within one of eleven."""


@lru_cache(maxsize=2048)  # some 10 kB each
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: letters and digits of any script, case folded, in Unicode's compatibility form.

    In scripts without spaces between words a character is a word.

    >>> words("The Straße, 東京")
    ('the', 'strasse', '東', '京')
    """
    return tuple(_WORD.findall(normal_form("NFKC", text).casefold()))


@lru_cache(maxsize=512)  # some 80 kB each
def runs(text: str, length: int) -> frozenset[tuple[str, ...]]:
    """Return all runs of `length` words next to each other; none in a text with fewer.

    >>> sorted(runs("to be or not", 3))
    [('be', 'or', 'not'), ('to', 'be', 'or')]
    """
    split = words(text)
    return frozenset(zip(*(split[first:] for first in range(length)), strict=False))


def shared_runs(a: str, b: str) -> float:
    """Return the share of three-word runs that the shorter of two texts has in common with the longer.

    `|A ∩ B| / min(|A|, |B|)` with A and B the sets of runs of three words (`words`) next to each other; 1.0 for equal
    words, 0.0 where a text has none.

    Many long texts contain a short one by a common phrase. So where the shorter has fewer than 20 runs, the divisor
    is 20, or the number of runs of the longer if that is below 20. A text of one or two words is a single run.

    Source: Broder (1997), "On the resemblance and containment of documents".

    >>> shared_runs("The cat sat on the mat.", "the cat sat on my mat")
    0.5
    """
    return _share(_runs_of(a), _runs_of(b))


def _share(a: Runs, b: Runs) -> float:
    ours, theirs = sorted((a, b), key=len)
    if not ours:
        return 0.0
    return len(ours & theirs) / max(len(ours), min(len(theirs), FEWEST))


def near_duplicate(a: str, b: str, threshold: float = THRESHOLD) -> bool:
    """Whether two passages are cuts or versions of one text: `shared_runs` reaches the threshold, in (0, 1].

    At the default two cuts that overlap by half are found, and one that lies within the other, if it has nine words
    or more. Lower ones also find texts that share set phrases.
    """
    return shared_runs(a, b) >= threshold


def _runs_of(text: str) -> Runs:
    """The runs of three words of a text; all of its words where there are fewer."""
    split = words(text)
    return frozenset([split]) if 0 < len(split) < RUN else runs(text, RUN)


def similar_questions(questions: Sequence[str], threshold: float = SAME_QUESTION) -> list[list[int]]:
    """Return groups of questions by position; each question is a near-duplicate of another one of its group.

    A pair that reaches the threshold shares one of the rarest runs of each question, so only questions that share one
    of these are compared (prefix filtering), and only while they are in different groups.

    Source: Chaudhuri et al. (2006), "A primitive operator for similarity joins in data cleaning".

    >>> similar_questions(["Who wrote the book Emma in 1815?", "Why?", "Who wrote the book Emma?"])
    [[0, 2]]
    """
    runs_by_question = [_runs_of(question) for question in questions]
    common = Counter(run for each in runs_by_question for run in each)
    # Of each question, one of its group that is nearer to the first (union-find).
    nearer = list(range(len(questions)))

    def group_of(i: int) -> int:
        while nearer[i] != i:
            nearer[i] = nearer[nearer[i]]
            i = nearer[i]
        return i

    by_run: dict[tuple[str, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, own in enumerate(runs_by_question):
        rarest = sorted(own, key=lambda run: (common[run], run))
        least = math.ceil(threshold * min(len(own), FEWEST) - 1e-9)
        for run in rarest[: len(own) - least + 1]:
            # By group, so that a question that is in it, or joins it, skips all of its questions at once.
            for group, others in by_run[run].items():
                if group_of(group) != group_of(i) and any(
                    _share(own, runs_by_question[other]) >= threshold for other in others
                ):
                    first, second = sorted((group_of(i), group_of(group)))
                    nearer[second] = first
            by_run[run][group_of(i)].append(i)
    members: dict[int, list[int]] = defaultdict(list)
    for i in range(len(questions)):
        members[group_of(i)].append(i)
    return [group for group in members.values() if len(group) > 1]
