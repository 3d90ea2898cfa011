"""How failures are laid out: lines that fit a terminal, and labelled fields below a question."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final
from unicodedata import east_asian_width

from pytest_rageval.printable import printable

__all__ = ["WIDTH", "field_lines", "wrapped"]

WIDTH: Final = 80
LABEL: Final = 12

PAD: Final = "\x00"
"""Stands behind a character that is two columns wide: then the length of a text is its width."""


class Columns(textwrap.TextWrapper):
    """Wraps at white space, and between wide characters, whose scripts put none between words."""

    wordsep_simple_re = re.compile(rf"([\t\n\x0b\x0c\r ]+|.{PAD})")


def field_lines(label: str, values: Sequence[str], separator: str = ", ") -> Iterator[str]:
    """A field of a question, such as "gold", with what is in it."""
    joined = separator.join(" ".join(value.split()) for value in values)
    yield from wrapped(f"      {label:<{LABEL - 1}} {joined}", 6 + LABEL)


def wrapped(text: str, indent: int) -> list[str]:
    """A text in lines of at most 80 columns where words allow, the further ones indented."""
    shown = "".join(f"{each}{PAD}" if east_asian_width(each) in "WF" else each for each in printable(text))
    columns = Columns(WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(PAD, "") for line in columns.wrap(shown)]
