"""Near-duplicate passages and questions, by the shingles that two texts share.

A shingle is a sequence of consecutive words, here three. Two chunks of one text share long sequences of words and so
many shingles. Two texts on one topic share terms, but few shingles.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pytest_rageval.lib.normal_forms import COMMON_UNSPACED, normal_form

# A combining mark splits a word here. This must not change: labels depend on matches of gold passages by these words.
_WORD: Final = re.compile(rf"[{COMMON_UNSPACED}]|[^\W_{COMMON_UNSPACED}]+")

Shingle = tuple[str, ...]

SHINGLE_LENGTH: Final = 3  # number of words of a shingle

DUPLICATE_THRESHOLD: Final = 0.35  # `shingle_overlap` from which on two passages are near-duplicates

MIN_DIVISOR: Final = 20  # smallest divisor of `shingle_overlap`, for short texts

SAME_QUESTION_THRESHOLD: Final = 0.6
"""The `shingle_overlap` from which on two questions are near-duplicates. Questions are short and begin alike, so they
share more shingles than passages do. At 0.6 one word may differ: at an end of a question of six words, or within a
question of eleven words."""


@lru_cache(maxsize=128)  # some 10 kB each
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text: letters and digits of any script, case-folded, in the normalization form NFKC.

    In scripts without spaces between words, each character is a word.

    >>> words("The Straße, 東京")
    ('the', 'strasse', '東', '京')
    """
    return tuple(_WORD.findall(normal_form("NFKC", text).casefold()))


@lru_cache(maxsize=128)  # some 80 kB each
def shingles(text: str, length: int) -> frozenset[Shingle]:
    """Return all sequences of `length` consecutive words of a text; none if the text has fewer words.

    >>> sorted(shingles("to be or not", 3))
    [('be', 'or', 'not'), ('to', 'be', 'or')]
    """
    split = words(text)
    return frozenset(zip(*(split[first:] for first in range(length)), strict=False))


def shingle_overlap(a: str, b: str) -> float:
    """Return the share of the shingles of the shorter text that the longer text has too.

    `|A ∩ B| / min(|A|, |B|)` with A and B the sets of shingles of three words (`words`). 1.0 for equal words, 0.0 if
    one of the texts has no words. A text of one or two words is a single shingle.

    A short text may be a common phrase, which many long texts contain. So if the shorter text has fewer than 20
    shingles, the divisor is 20, or the number of shingles of the longer text if that is below 20.

    Source: Broder (1997), "On the resemblance and containment of documents".

    >>> shingle_overlap("The cat sat on the mat.", "the cat sat on my mat")
    0.5
    """
    return _overlap(_text_shingles(a), _text_shingles(b))


def _overlap(a: frozenset[Shingle], b: frozenset[Shingle]) -> float:
    shorter, longer = sorted((a, b), key=len)
    if not shorter:
        return 0.0
    return len(shorter & longer) / max(len(shorter), min(len(longer), MIN_DIVISOR))


def near_duplicate(a: str, b: str, threshold: float = DUPLICATE_THRESHOLD) -> bool:
    """Return True if two passages are cuts or versions of one text.

    They are if their `shingle_overlap` reaches the threshold, in (0, 1]. With the default, two cuts that overlap by
    half are near-duplicates, and so is a cut of nine words or more that lies within the other. With a lower threshold,
    texts that share set phrases are near-duplicates too.
    """
    return shingle_overlap(a, b) >= threshold


def _text_shingles(text: str) -> frozenset[Shingle]:
    """Return the shingles of a text; if it has fewer words than a shingle, all its words are one shingle."""
    split = words(text)
    return frozenset([split]) if 0 < len(split) < SHINGLE_LENGTH else shingles(text, SHINGLE_LENGTH)


def similar_questions(
    questions: Sequence[str], threshold: float = SAME_QUESTION_THRESHOLD
) -> list[list[int]]:
    """Return groups of questions by position. Each question is a near-duplicate of another question of its group.

    Two questions that reach the threshold share a shingle that is among the rarest shingles of both. So only questions
    with a common rare shingle are compared (prefix filtering), and only while they are in different groups.

    Source: Chaudhuri et al. (2006), "A primitive operator for similarity joins in data cleaning".

    >>> similar_questions(["Who wrote the book Emma in 1815?", "Why?", "Who wrote the book Emma?"])
    [[0, 2]]
    """
    by_question = [_text_shingles(question) for question in questions]
    frequency = Counter(shingle for own in by_question for shingle in own)
    # A union-find structure. The parent of a question is an earlier question of its group, or the question itself.
    parents = list(range(len(questions)))

    def group_of(i: int) -> int:
        while parents[i] != i:
            parents[i] = parents[parents[i]]
            i = parents[i]
        return i

    by_shingle: dict[Shingle, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, own in enumerate(by_question):
        rarest_first = sorted(own, key=lambda shingle: (frequency[shingle], shingle))
        min_common = math.ceil(threshold * min(len(own), MIN_DIVISOR) - 1e-9)
        for shingle in rarest_first[: len(own) - min_common + 1]:
            # Candidates are grouped, so that a question that joins a group skips the other questions of that group.
            for group, others in by_shingle[shingle].items():
                if group_of(group) != group_of(i) and any(
                    _overlap(own, by_question[other]) >= threshold for other in others
                ):
                    first, second = sorted((group_of(i), group_of(group)))
                    parents[second] = first
            by_shingle[shingle][group_of(i)].append(i)
    members: dict[int, list[int]] = defaultdict(list)
    for i in range(len(questions)):
        members[group_of(i)].append(i)
    return [group for group in members.values() if len(group) > 1]
