"""Lines that fit a terminal: wrapped text, labelled fields below a question, and aligned columns.

A run of pytest sets `width` to that of its terminal while tests run; files have the default.
"""

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from typing import Final
from unicodedata import east_asian_width

from pytest_rageval.printable import printable

__all__ = ["WIDTH", "aligned", "field_lines", "width", "wrapped"]

WIDTH: Final = 80
LABEL: Final = 12

width: Final = ContextVar("width", default=WIDTH)  # the number of columns that texts are wrapped to

PAD: Final = "\x00"
"""Follows a character that is two columns wide: then the length of a text is its width."""


class _Wrapper(textwrap.TextWrapper):
    """Wraps at white space, and between wide characters, whose scripts put none between words."""

    wordsep_simple_re = re.compile(rf"([\t\n\x0b\x0c\r ]+|.{PAD})")


def wrapped(text: str, indent: int) -> list[str]:
    """A text in lines of at most `width` columns where words allow, the further ones indented."""
    shown = "".join(f"{each}{PAD}" if east_asian_width(each) in "WF" else each for each in printable(text))
    wrapper = _Wrapper(
        width.get(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(PAD, "") for line in wrapper.wrap(shown)]


def field_lines(label: str, values: Sequence[str], separator: str = ", ") -> Iterator[str]:
    """A field of a question, such as "gold", with its values."""
    joined = separator.join(" ".join(value.split()) for value in values)
    yield from wrapped(f"      {label:<{LABEL - 1}} {joined}", 6 + LABEL)


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Rows as lines with their cells in columns, two spaces apart, without trailing spaces.

    Args:
        rows: texts, as many in each row.
        right: the columns that are aligned to the right.

    >>> aligned([("system", "n"), ("bm25", "12")], right={1})
    ['system   n', 'bm25    12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
