"""Finds quotes word for word in texts; differences in white space are ignored.

`SearchableText` finds one quote in one text, `QuoteIndex` many quotes in many texts.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Final

from pytest_rageval.lib.normal_forms import has_unspaced, join_unspaced, separate_unspaced

KEY_WORDS: Final = 3  # number of first words that index a quote; two documents rarely share them by chance
MAX_SIMPLE_SEARCHES: Final = 8  # occurrences found by `str.find` before the linear-time algorithm starts
WORD: Final = re.compile(r"\w+")
NON_SPACE: Final = re.compile(r"\S+")
MIN_WORDS_ANY_PUNCTUATION: Final = 8
"""Number of words from which a quote matches other punctuation too: that many rarely match by chance."""
PUNCTUATION: Final = "#*_~`>|.,:;!?…()[]{}\"'“”„‘’«»‹›—–•·\\/+-="
"""Punctuation and Markdown, which may surround a word."""
DECIMAL_POINT: Final = re.compile(r"\d[.,]\d")


class SearchableText:
    """A text in which quotes are searched.

    A quote matches if its characters are the same, with any white space where the quote has white space. Next to a
    character of a script without spaces between words, white space is optional. A match never splits a word or a
    number: "art" is not in "party", and 3 is not in 3.5. A quote of eight words or more also matches the same words
    with other punctuation or Markdown around them.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quote: str) -> list[tuple[int, int]]:
        r"""Return the start and end offset of each occurrence of the quote; empty for a blank quote.

        >>> SearchableText("To be,\n  or not to be.").find("be, or not")
        [(3, 15)]
        """
        return self._find_characters(quote) or self._find_words(quote)

    def contains(self, quote: str) -> bool:
        """Like `find`, but a quote that was cut within a word is found too."""
        return "".join(quote.split()) in "".join(self.text.split()) or bool(self._find_words(quote))

    def _find_characters(self, quote: str) -> list[tuple[int, int]]:
        wanted = join_unspaced(" ".join(quote.split()))
        if not wanted:
            return []
        collapsed, starts, original_starts = self._collapsed

        def original(offset: int) -> int:
            piece = bisect_right(starts, offset) - 1
            return original_starts[piece] + offset - starts[piece]

        matches = (
            (original(start), original(start + len(wanted) - 1) + 1)
            for start in _occurrences(wanted, collapsed)
        )
        return [match for match in matches if not any(_splits_word(self.text, offset) for offset in match)]

    def _find_words(self, quote: str) -> list[tuple[int, int]]:
        wanted = list(_bare_words(quote))
        if len(wanted) < MIN_WORDS_ANY_PUNCTUATION:
            return []
        words, starts, joined = self._words
        ending = NON_SPACE.match(quote, wanted[-1][2])
        matches = []
        for offset in _occurrences(_join_lines(wanted), joined):
            first = bisect_right(starts, offset) - 1
            start, end = words[first][1], words[first + len(wanted) - 1][2]
            if ending:
                # Punctuation after the last word, such as a full stop, belongs to the match if the quote has it too.
                pairs = zip(ending[0], self.text[end : end + len(ending[0])], strict=False)
                end += sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            matches.append((start, end))
        return matches

    @cached_property
    def _words(self) -> tuple[list[tuple[str, int, int]], list[int], str]:
        """The words with their offsets in the text, the offset of each word in the joined words, the joined words."""
        words = list(_bare_words(self.text))
        starts = list(accumulate((len(word) + 1 for word, _, _ in words), initial=0))
        return words, starts, _join_lines(words)

    @cached_property
    def _collapsed(self) -> tuple[str, list[int], list[int]]:
        """The text with single spaces, none in scripts without spaces; the start of each word in both."""
        parts: list[str] = []
        starts, original_starts, length = [], [], 0
        for piece in NON_SPACE.finditer(self.text):
            if parts and not has_unspaced(parts[-1][-1] + piece[0][0]):
                parts.append(" ")
                length += 1
            starts.append(length)
            original_starts.append(piece.start())
            parts.append(piece[0])
            length += len(piece[0])
        return "".join(parts), starts, original_starts


class QuoteIndex:
    """Quotes by their first words, so that a search takes time for the words of a text, not for all quotes."""

    def __init__(self, quotes: Iterable[str]) -> None:
        self._by_first_words: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for quote in quotes:
            self._by_first_words[tuple(WORD.findall(separate_unspaced(quote))[:KEY_WORDS])].add(quote)
        # A quote without words, such as "€", cannot be indexed: each text is searched for it.
        self._wordless = self._by_first_words.pop((), set())
        self._key_lengths = {len(first_words) for first_words in self._by_first_words}

    def find_in(self, text: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        if not (self._key_lengths or self._wordless):
            return
        searchable, words = SearchableText(text), WORD.findall(separate_unspaced(text))
        candidates = set(self._wordless)
        for length in self._key_lengths:
            runs = zip(*(words[first:] for first in range(length)), strict=False)
            for first_words in self._by_first_words.keys() & set(runs):
                candidates |= self._by_first_words[first_words]
        for quote in sorted(candidates):
            matches = searchable.find(quote)
            if matches:
                yield quote, matches


def _occurrences(wanted: str, text: str) -> Iterator[int]:
    """Yield the offset of each occurrence of a text in another, also of overlapping ones."""
    offset = text.find(wanted)
    for _ in range(MAX_SIMPLE_SEARCHES):
        if offset < 0:
            return
        yield offset
        offset = text.find(wanted, offset + 1)
    if offset < 0:
        return
    # Knuth, Morris and Pratt, since overlapping searches of a repetitive text take quadratic time.
    # borders[n]: the length of the longest prefix that is also a suffix of the first n + 1 characters.
    borders = [0]
    for letter in wanted[1:]:
        borders.append(_extend_match(wanted, borders, borders[-1], letter))
    matched = 0
    for end, letter in enumerate(text[offset:], offset + 1):
        matched = _extend_match(wanted, borders, borders[-1] if matched == len(wanted) else matched, letter)
        if matched == len(wanted):
            yield end - matched


def _extend_match(wanted: str, borders: list[int], matched: int, letter: str) -> int:
    """Return the number of matched characters after one more letter (Knuth, Morris and Pratt)."""
    while matched and wanted[matched] != letter:
        matched = borders[matched - 1]
    return matched + (wanted[matched] == letter)


def _bare_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each word of a text without surrounding punctuation, with its offsets; a number keeps its sign."""
    for piece in NON_SPACE.finditer(text):
        word = piece[0].lstrip(PUNCTUATION)
        start = piece.end() - len(word)
        if word[:1].isdigit() and text[max(start - 1, piece.start()) : start] in {"+", "-"}:
            start -= 1
        end = start + len(text[start : piece.end()].rstrip(PUNCTUATION))
        if word and end > start:
            yield text[start:end], start, end


def _join_lines(words: Iterable[tuple[str, int, int]]) -> str:
    """Join words with one word per line, so that a text search finds only runs of whole words."""
    return "".join(f"\n{word}" for word, _, _ in words) + "\n"


def _splits_word(text: str, offset: int) -> bool:
    """Return True if an offset is within a word, a number, or a letter and its combining mark."""
    if not 0 < offset < len(text):
        return False
    if unicodedata.category(text[offset])[0] == "M":
        return True
    before, after = text[offset - 1], text[offset]
    if before.isalnum() and after.isalnum():
        return not has_unspaced(before + after)
    # Before and after the point of a number: 3|.5 and 3.|5.
    return DECIMAL_POINT.search(text[max(0, offset - 2) : offset + 2]) is not None
