"""Rows of comma- and tab-separated files, and lists written in one cell."""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.json_values import parse
from pytest_rageval.evalsets.streams import lines

__all__ = ["listed", "rows"]

MAX_CELL: Final = 2**24
"""How many characters a cell may have: a quote that is never closed makes one cell of the rest of the file."""

OF_CELLS: Final = (
    'A cell that begins with a bracket or a brace is a list or an object. Write ["first", "second"]; for a text that '
    'begins so, a list of one: ["[text]"].'
)

PYTHON_TEXT: Final = re.compile(r"""\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*(,|(?=\]))""", re.DOTALL)


def rows(
    path: Path, delimiter: str, quote: str = '"'
) -> tuple[list[str], Iterator[tuple[str, dict[str, str]]]]:
    """The header's names, and the rows below it by these names, with their places.

    A row may have several lines: its place is the first. Blank lines do not count.

    Args:
        path: of the file.
        delimiter: between two cells.
        quote: around cells that hold the delimiter; "": none, a quote is text.

    Raises:
        InputError: the file cannot be read, has no header or a name twice in it; and, from the iterator,
            a row has another number of cells.
    """
    # The limit is the process's own; it is only ever raised, so that nobody else's reading breaks.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    split = _split(path, delimiter, quote)
    place, names = next(split, ("", []))
    return _header(names, place or path.name), _named(names, split)


def _split(path: Path, delimiter: str, quote: str) -> Iterator[tuple[str, list[str]]]:
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader((line for _, line in lines(path)), delimiter=delimiter, strict=True, **quoting)
    while True:
        place = f"{path.name} line {reader.line_num + 1}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            message = (
                f"{place} and what follows is no table: {error}.\n"
                'Is a quote not closed, or a line cut? Where quotes are text like any other, say quote="".'
            )
            raise InputError(message) from None
        if row is None:
            return
        if row:
            yield place, [cell.strip() for cell in row]


def _named(names: list[str], split: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    for place, row in split:
        if len(row) != len(names):
            message = (
                f"{place} has {len(row)} cells, the header {len(names)}: {', '.join(names[:12])}.\n"
                "Quote cells that hold the delimiter; for another one say delimiter=…"
            )
            raise InputError(message)
        yield place, dict(zip(names, row, strict=True))


def _header(names: list[str], place: str) -> list[str]:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or not all(names) or twice:
        found = (
            f"{', '.join(twice[:12])} more than once" if all(twice) and twice else "a column without a name"
        )
        message = (
            f"{place}: the header has {found if names else 'no columns'}.\nThe first line names the columns."
        )
        raise InputError(message)
    return names


def listed(cell: str, place: str) -> Any:
    """What a cell that begins with a bracket or a brace holds.

    JSON, or a list of texts as Python prints one (`['a', "b"]`), which is what a data frame with lists
    writes.

    Raises:
        InputError: it is neither.
    """
    texts = _python_texts(cell)
    return parse(cell, f"{place}: the cell {cell[:40]!r}", OF_CELLS) if texts is None else texts


def _python_texts(cell: str) -> list[str] | None:
    """The texts of a printed Python list, or None; texts without a comma between them are no list."""
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    at, texts = 1, []
    while found := PYTHON_TEXT.match(cell, at):
        try:
            texts.append(str(ast.literal_eval(found[1])))
        except (SyntaxError, ValueError):
            return None
        at = found.end()
    return texts if texts and at == len(cell) - 1 else None
