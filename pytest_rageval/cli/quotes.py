"""Quotes found word for word in texts, ignoring white space; many quotes in many texts in one pass."""

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Final

from pytest_rageval.tokenize import has_unspaced, join_unspaced, separate_unspaced

__all__ = ["Quotable", "Quotes"]

RUN: Final = 3  # words in a row by which a quote is looked up; two documents rarely share them by chance
SIMPLE_SEARCHES: Final = 8  # occurrences that are searched one by one, before the linear algorithm starts
WORD: Final = re.compile(r"\w+")
PIECE: Final = re.compile(r"\S+")
LONG: Final = 8  # words from which a quote is also found in other punctuation: so many rarely match by chance
MARKS: Final = "#*_~`>|.,:;!?…()[]{}\"'“”„‘’«»‹›—–•·\\/+-="
"""Punctuation and Markdown, which may surround a word."""
NUMBER: Final = re.compile(r"\d[.,]\d")


class Quotable:
    """A text in which quotes are looked up.

    A quote is found where the text has the same characters with any white space at the same places; next to
    characters of scripts without spaces between words, it is optional. Words and numbers are whole: "art" is
    not in "party", nor 3 in 3.5. A quote of eight words or more is found also where the text has the same
    words with other punctuation or Markdown around them.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quote: str) -> list[tuple[int, int]]:
        r"""Return start and end of each occurrence, as offsets in the text; none of a blank quote.

        >>> Quotable("To be,\n  or not to be.").find("be, or not")
        [(3, 15)]
        """
        return self._exactly(quote) or self._in_words(quote)

    def holds(self, quote: str) -> bool:
        """Return True if the text contains the quote: its characters without white space, or its words."""
        return "".join(quote.split()) in "".join(self.text.split()) or bool(self._in_words(quote))

    def _exactly(self, quote: str) -> list[tuple[int, int]]:
        wanted = join_unspaced(" ".join(quote.split()))
        if not wanted:
            return []
        tight, starts, originals = self._tight

        def original(at: int) -> int:
            piece = bisect_right(starts, at) - 1
            return originals[piece] + at - starts[piece]

        places = ((original(at), original(at + len(wanted) - 1) + 1) for at in _occurrences(wanted, tight))
        return [place for place in places if not any(_splits(self.text, at) for at in place)]

    def _in_words(self, quote: str) -> list[tuple[int, int]]:
        sought = list(_words_in_marks(quote))
        if len(sought) < LONG:
            return []
        words, starts, line = self._words
        closing = PIECE.match(quote, sought[-1][2])
        found = []
        for at in _occurrences(_on_lines(sought), line):
            first = bisect_right(starts, at) - 1
            start, end = words[first][1], words[first + len(sought) - 1][2]
            if closing:
                # Punctuation after the last word, such as a full stop, as far as the quote has it too.
                pairs = zip(closing[0], self.text[end : end + len(closing[0])], strict=False)
                end += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            found.append((start, end))
        return found

    @cached_property
    def _words(self) -> tuple[list[tuple[str, int, int]], list[int], str]:
        """The words with their places, the offset of each in the joined words, and the joined words."""
        words = list(_words_in_marks(self.text))
        starts = list(accumulate((len(word) + 1 for word, _, _ in words), initial=0))
        return words, starts, _on_lines(words)

    @cached_property
    def _tight(self) -> tuple[str, list[int], list[int]]:
        """The text with one space between words, none in scripts without spaces; offsets of its pieces in both."""
        parts: list[str] = []
        starts, originals, length = [], [], 0
        for piece in PIECE.finditer(self.text):
            if parts and not has_unspaced(parts[-1][-1] + piece[0][0]):
                parts.append(" ")
                length += 1
            starts.append(length)
            originals.append(piece.start())
            parts.append(piece[0])
            length += len(piece[0])
        return "".join(parts), starts, originals


class Quotes:
    """Quotes, by their first words: the cost of a document grows with its words, not with the number of quotes."""

    def __init__(self, quotes: Iterable[str]) -> None:
        self._by_beginning: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for quote in quotes:
            self._by_beginning[tuple(WORD.findall(separate_unspaced(quote))[:RUN])].add(quote)
        # A quote without words, such as "€", cannot be indexed.
        self._wordless = self._by_beginning.pop((), set())
        self._lengths = {len(beginning) for beginning in self._by_beginning}

    def within(self, text: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Yield the quotes that a text contains, each with its places."""
        if not (self._lengths or self._wordless):
            return
        quotable, words = Quotable(text), WORD.findall(separate_unspaced(text))
        candidates = set(self._wordless)
        for length in self._lengths:
            runs = zip(*(words[first:] for first in range(length)), strict=False)
            for beginning in self._by_beginning.keys() & set(runs):
                candidates |= self._by_beginning[beginning]
        for quote in sorted(candidates):
            places = quotable.find(quote)
            if places:
                yield quote, places


def _occurrences(wanted: str, text: str) -> Iterator[int]:
    at = text.find(wanted)
    for _ in range(SIMPLE_SEARCHES):
        if at < 0:
            return
        yield at
        at = text.find(wanted, at + 1)
    if at < 0:
        return
    # Knuth, Morris and Pratt, since overlapping searches of a repetitive text take quadratic time.
    # borders[n]: the length of the longest prefix that is also a suffix of the first n + 1 characters.
    borders = [0]
    for letter in wanted[1:]:
        borders.append(_extended(wanted, borders, borders[-1], letter))
    matched = 0
    for end, letter in enumerate(text[at:], at + 1):
        matched = _extended(wanted, borders, borders[-1] if matched == len(wanted) else matched, letter)
        if matched == len(wanted):
            yield end - matched


def _extended(wanted: str, borders: list[int], matched: int, letter: str) -> int:
    while matched and wanted[matched] != letter:
        matched = borders[matched - 1]
    return matched + (wanted[matched] == letter)


def _words_in_marks(text: str) -> Iterator[tuple[str, int, int]]:
    """The words of a text without surrounding punctuation, with their places; a number keeps its sign."""
    for piece in PIECE.finditer(text):
        word = piece[0].lstrip(MARKS)
        start = piece.end() - len(word)
        if word[:1].isdigit() and text[max(start - 1, piece.start()) : start] in {"+", "-"}:
            start -= 1
        end = start + len(text[start : piece.end()].rstrip(MARKS))
        if word and end > start:
            yield text[start:end], start, end


def _on_lines(words: Iterable[tuple[str, int, int]]) -> str:
    """One word a line, so that a run of whole words is found as a text."""
    return "".join(f"\n{word}" for word, _, _ in words) + "\n"


def _splits(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    if unicodedata.category(text[at])[0] == "M":
        return True
    before, after = text[at - 1], text[at]
    if before.isalnum() and after.isalnum():
        return not has_unspaced(before + after)
    # Before and after the point of a number: 3|.5 and 3.|5.
    return NUMBER.search(text[max(0, at - 2) : at + 2]) is not None
