"""Formats lines that fit a terminal: wrapped text, labelled fields below a question, and aligned columns.

While tests run, the plugin sets `width` to the width of the terminal. Files are written with the default width.
"""

import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from unicodedata import east_asian_width

from pytest_rageval.lib.text import printable

WIDTH: Final = 80
LABEL_WIDTH: Final = 12

width: Final = ContextVar("width", default=WIDTH)  # the number of columns at which text is wrapped

PAD: Final = "\x00"
"""Follows each character that is two columns wide, so that the length of a text equals its width in columns."""


class AddedSection(NamedTuple):
    """A folded section of the Markdown report that a plugin adds, see `Registry.add_markdown_section`."""

    summary: str
    noun: str
    lines: Callable[[Mapping[str, Any]], Sequence[str]]


class AddedTable(NamedTuple):
    """A table of all reports that a plugin adds, see `Registry.add_table`."""

    title: str
    rows: Callable[[Sequence[Mapping[str, Any]]], Sequence[Sequence[str]]]

    @property
    def section(self) -> AddedSection:
        return AddedSection(self.title, "row", lambda document: self.markdown(document["tests"]))

    def markdown(self, tests: Sequence[Mapping[str, Any]]) -> list[str]:
        head, *rows = self.rows(tests) or [()]
        cells = [[f"<code>{html_entities(cell)}</code>" for cell in row] for row in rows]
        return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells) if head]

    def lines(self, tests: Sequence[Mapping[str, Any]]) -> list[str]:
        rows = self.rows(tests)
        return [self.title, *(f"  {line}" for line in align_columns(rows))] if rows else []


class _Wrapper(textwrap.TextWrapper):
    """Breaks lines at white space, and between wide characters, whose scripts put no spaces between words."""

    wordsep_simple_re = re.compile(rf"([\t\n\x0b\x0c\r ]+|.{PAD})")


def _pad(text: str) -> str:
    return "".join(f"{char}{PAD}" if east_asian_width(char) in "WF" else char for char in text)


def wrap_text(text: str, indent: int) -> list[str]:
    """Break a text into lines of at most `width` columns; longer words stay whole.

    All lines but the first are indented by `indent` spaces.
    """
    padded = _pad(printable(text))
    wrapper = _Wrapper(
        width.get(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(PAD, "") for line in wrapper.wrap(padded)]


def cut_line(text: str) -> str:
    columns = width.get()
    padded = _pad(printable(text))
    return (padded if len(padded) <= columns else f"{padded[: columns - 1]}…").replace(PAD, "")


def field_lines(label: str, values: Sequence[str], separator: str = ", ") -> list[str]:
    joined = separator.join(" ".join(value.split()) for value in values)
    return wrap_text(f"      {label:<{LABEL_WIDTH - 1}} {joined}", 6 + LABEL_WIDTH)


def align_columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return each row as a line, with cells in columns that are two spaces apart, without trailing spaces.

    >>> align_columns([("system", "n"), ("bm25", "12")], right={1})
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


def html_entities(text: str) -> str:
    """Return a text for HTML in Markdown: all characters but ASCII letters, digits and spaces become entities.

    >>> html_entities("a_b")
    'a&#95;b'
    """
    return re.sub(r"[^a-zA-Z0-9 ]", lambda match: f"&#{ord(match[0])};", text)
