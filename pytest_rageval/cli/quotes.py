"""Where a text stands word for word in another, whatever the white space; many texts in many at once."""

import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate, pairwise, takewhile
from typing import Final

from pytest_rageval.text.tokenize import has_unspaced, set_apart, tighten

__all__ = ["Quotable", "Quotes"]

RUN: Final = 3
"""Words in a row by which a quote is looked up; two documents rarely share them by chance."""

FEW: Final = 8
"""Places that are looked for one by one."""

WORD: Final = re.compile(r"\w+")
PIECE: Final = re.compile(r"\S+")
LONG: Final = 8
"""Words of a quote that may be another's in other punctuation: nobody says so many by chance."""
MARKS: Final = "#*_~`>|.,:;!?…()[]{}\"'“”„‘’«»‹›—–•·\\/+-="
"""Punctuation and Markdown, which may stand around a word."""
NUMBER: Final = re.compile(r"\d[.,]\d")


class Quotable:
    """A text, to find quotes in.

    A quote is found where the text says the same characters, with white space at the same places;
    how much of it, and of which kind, does not matter, nor whether there is any beside characters of
    scripts without spaces between words. Words and numbers are whole: "art" is not in "party", nor 3
    in 3.5. A quote of eight words or more that is not there so is found where the text has the same
    words with other punctuation or Markdown around them, as where a passage was made of a heading and
    what stands below it.

    Args:
        text: whatever was written.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def find(self, quote: str) -> list[tuple[int, int]]:
        r"""Where the quote begins and ends, each time, as offsets in the text; nowhere for a blank one.

        >>> Quotable("To be,\n  or not to be.").find("be, or not")
        [(3, 15)]
        """
        return self._exactly(quote) or self._in_words(quote)

    def holds(self, quote: str) -> bool:
        """Whether the quote's characters are there, white space and whole words aside; or its words, as for `find`."""
        return "".join(quote.split()) in "".join(self.text.split()) or bool(self._in_words(quote))

    def _exactly(self, quote: str) -> list[tuple[int, int]]:
        wanted = _spaced(quote)
        if not wanted:
            return []
        places = (
            (self._original(at), self._original(at + len(wanted) - 1) + 1)
            for at in _occurrences(wanted, self._tight)
        )
        return [(start, end) for start, end in places if self._is_whole(start, end)]

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
            # Of what stands behind the last word, as much as the quote has too, such as a full stop.
            end += _in_common(closing[0], self.text, end) if closing else 0
            found.append((start, end))
        return found

    @cached_property
    def _words(self) -> tuple[list[tuple[str, int, int]], list[int], str]:
        """The words with their places, and all of them in one text, with where each begins in it."""
        words = list(_words_in_marks(self.text))
        starts = list(accumulate((len(word) + 1 for word, _, _ in words), initial=0))
        return words, starts, _on_lines(words)

    @cached_property
    def _pieces(self) -> list[re.Match[str]]:
        return list(PIECE.finditer(self.text))

    @cached_property
    def _gaps(self) -> list[str]:
        """What stands before each piece in the tight text."""
        spaced = (
            "" if has_unspaced(before[0][-1] + piece[0][0]) else " "
            for before, piece in pairwise(self._pieces)
        )
        return ["", *spaced]

    @cached_property
    def _tight(self) -> str:
        """The text with one space between words, as `_spaced` has it."""
        return "".join(gap + piece[0] for gap, piece in zip(self._gaps, self._pieces, strict=False))

    @cached_property
    def _begins(self) -> list[int]:
        """Where in the tight text each piece begins."""
        lengths = (len(piece[0]) + len(gap) for piece, gap in zip(self._pieces, self._gaps[1:], strict=False))
        return list(accumulate(lengths, initial=0))

    def _original(self, at: int) -> int:
        piece = bisect_right(self._begins, at) - 1
        return self._pieces[piece].start() + at - self._begins[piece]

    def _is_whole(self, start: int, end: int) -> bool:
        return not any(_splits(self.text, at) for at in (start, end))


class Quotes:
    """Texts that are looked for in the documents of a corpus, all of them in one pass over it.

    They are looked up by their first words, so that a document costs about as much as it has words,
    however many are looked for.

    Args:
        quotes: that are looked for.
    """

    def __init__(self, quotes: Iterable[str]) -> None:
        self._by_beginning: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for quote in quotes:
            self._by_beginning[tuple(_words(quote)[:RUN])].add(quote)
        # What has no words at all, such as "€", may stand anywhere.
        self._wordless = self._by_beginning.pop((), set())
        self._lengths = {len(beginning) for beginning in self._by_beginning}

    def within(self, text: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """The quotes that stand in a text, each with its places there."""
        quotable, said = Quotable(text), _words(text)
        candidates = set(self._wordless)
        for length in self._lengths:
            runs = zip(*(said[first:] for first in range(length)), strict=False)
            for beginning in self._by_beginning.keys() & set(runs):
                candidates |= self._by_beginning[beginning]
        for quote in sorted(candidates):
            places = quotable.find(quote)
            if places:
                yield quote, places


def _occurrences(wanted: str, text: str) -> Iterator[int]:
    """Where a text stands in another; places may overlap."""
    at = text.find(wanted)
    for _ in range(FEW):
        if at < 0:
            return
        yield at
        at = text.find(wanted, at + 1)
    if at < 0:
        return
    # It may repeat itself, and then each place is read anew but for its first character. So by Knuth, Morris
    # and Pratt: of each beginning, how much of its own beginning stands at its end.
    again = [0]
    for letter in wanted[1:]:
        again.append(_longer(wanted, again, again[-1], letter))
    found = 0
    for end, letter in enumerate(text[at:], at + 1):
        found = _longer(wanted, again, again[-1] if found == len(wanted) else found, letter)
        if found == len(wanted):
            yield end - found


def _longer(wanted: str, again: list[int], found: int, letter: str) -> int:
    """How much of the beginning stands before the next place, when so much stood here and a letter follows."""
    while found and wanted[found] != letter:
        found = again[found - 1]
    return found + (wanted[found] == letter)


def _words_in_marks(text: str) -> Iterator[tuple[str, int, int]]:
    """The words of a text without what surrounds them, each with its place; a number keeps its sign."""
    for piece in PIECE.finditer(text):
        word = piece[0].lstrip(MARKS)
        start = piece.end() - len(word)
        if word[:1].isdigit() and text[max(start - 1, piece.start()) : start] in {"+", "-"}:
            start -= 1
        end = start + len(text[start : piece.end()].rstrip(MARKS))
        if word and end > start:
            yield text[start:end], start, end


def _in_common(beginning: str, text: str, at: int) -> int:
    """How many characters from there on are those of a beginning."""
    there = text[at : at + len(beginning)]
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(beginning, there, strict=False)))


def _on_lines(words: Iterable[tuple[str, int, int]]) -> str:
    """One word a line, so that a run of whole words is found as a text."""
    return "".join(f"\n{word}" for word, _, _ in words) + "\n"


def _words(text: str) -> list[str]:
    return WORD.findall(set_apart(text))


def _spaced(text: str) -> str:
    return tighten(" ".join(text.split()))


def _splits(text: str, at: int) -> bool:
    """Whether a word or a number goes on from the character before to the one here."""
    if not 0 < at < len(text):
        return False
    if unicodedata.category(text[at])[0] == "M":
        return True
    before, after = text[at - 1], text[at]
    if before.isalnum() and after.isalnum():
        return not has_unspaced(before + after)
    # The point of a number belongs to it on either side: 3|.5 and 3.|5.
    return NUMBER.search(text[max(0, at - 2) : at + 2]) is not None
