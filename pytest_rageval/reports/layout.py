"""How failures are laid out: lines that fit a terminal, and labelled fields below a question."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final
from unicodedata import east_asian_width

__all__ = ["WIDTH", "field_lines", "plain", "wrapped"]

WIDTH: Final = 80
LABEL: Final = 12

STEERING: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal obeys, or cannot print: escapes, other controls but white space, directions, half characters."""

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
    shown = "".join(f"{each}{PAD}" if east_asian_width(each) in "WF" else each for each in plain(text))
    columns = Columns(WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(PAD, "") for line in columns.wrap(shown)]


def plain(text: str) -> str:
    r"""The text with what would steer the reader's terminal as it is written in code, such as `\x1b`.

    Questions, answers and passages are anybody's: none may clear the screen that a failure is on.
    """
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
