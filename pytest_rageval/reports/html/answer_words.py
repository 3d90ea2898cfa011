"""Marks the words of a passage that an answer probably took from it."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

from pytest_rageval.lib.normal_forms import COMMON_UNSPACED

WORD: Final = re.compile(rf"[{COMMON_UNSPACED}]|[^\W{COMMON_UNSPACED}]+")
"""A word; in a script without spaces, a character."""

MIN_MARKED_LENGTH: Final = 4  # minimum length of a marked word; shorter words are mostly function words


def mark_answer_words(passage: str, answer: str, question: str) -> list[tuple[str, bool]]:
    """Return the text of a passage in pieces, each with True if the answer probably took it from the passage.

    A word is marked if it is in the answer and not in the question, and has at least four letters or a digit. Words
    between two marked words are marked if they all are in the answer. In scripts without spaces, pairs of characters
    take the place of words.

    >>> mark_answer_words("Parcels arrive within 5 days.", "It takes 5 days.", "When do parcels arrive?")
    [('Parcels arrive within ', False), ('5 days', True), ('.', False)]
    """
    answer_words = _words(answer)
    new_words = answer_words and answer_words - _words(question)
    if not new_words:
        return [(passage, False)]
    matches = list(WORD.finditer(passage))
    words = [match[0].casefold() for match in matches]
    marked = [
        word in new_words and (len(word) >= MIN_MARKED_LENGTH or any(map(str.isdigit, word)))
        for word in words
    ]
    for index in range(len(words) - 1):
        # Only pairs of characters count: "foot" and "ball" do not match "football".
        if words[index] + words[index + 1] in new_words and len(words[index]) == len(words[index + 1]) == 1:
            marked[index] = marked[index + 1] = True
    last_marked = None
    for index, is_marked in enumerate(marked):
        if is_marked:
            if last_marked is not None and all(
                word in answer_words for word in words[last_marked + 1 : index]
            ):
                marked[last_marked:index] = [True] * (index - last_marked)
            last_marked = index
        elif words[index] not in answer_words:
            last_marked = None
    return list(_split(passage, [match.span() for match in matches], marked))


def _words(text: str) -> set[str]:
    """Return the words of a text, and the pairs of neighbouring one-character words, as in scripts without spaces."""
    words = [word.casefold() for word in WORD.findall(text)]
    pairs = (a + b for a, b in pairwise(words) if len(a) == len(b) == 1)
    return {*words, *pairs}


def _split(text: str, spans: Sequence[tuple[int, int]], marked: Sequence[bool]) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, split where runs of marked words begin and end."""
    end = 0
    for is_marked, run in groupby(zip(marked, spans, strict=True), key=itemgetter(0)):
        words = [span for _, span in run]
        if is_marked:
            start, stop = words[0][0], words[-1][1]
            if start > end:
                yield text[end:start], False
            yield text[start:stop], True
            end = stop
    if end < len(text):
        yield text[end:], False
