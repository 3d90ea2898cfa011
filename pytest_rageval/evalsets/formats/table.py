"""Tables: comma- and tab-separated files with a header, and lists written in one cell."""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.field_map import NUMBER, checked_fields, is_target, mapped, refuse_gold_twice
from pytest_rageval.evalsets.files import lines, parse
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import map_for

__all__ = ["delimiter_of", "listed", "read", "recognises", "rows"]

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


LISTS: Final = ("answers", "answer_set", "gold", "tags")
NUMBERS: Final = ("gold.start", "gold.end", "gold.grade")
REQUIRED: Final = ("id", "question")
DELIMITERS: Final = (";", "\t", "|", ",")
SHOWN: Final = 20
INTEGER: Final = re.compile(r"([0-9]{1,18})(\.0*)?")


def recognises(shape: Shape) -> bool:
    """By the name; what is in it, the field map says."""
    return not shape.folder and shape.suffix in (".csv", ".tsv")


def delimiter_of(path: Path) -> str:
    """A tab where the name has .tsv in it, else a comma."""
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","


def read(
    path: Path,
    *,
    fields: Mapping[str, str] | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
) -> Iterator[tuple[str, Any]]:
    """Records from a table.

    Columns named as our fields are (`question`, `gold.id`, `tags.topic`) are read as these, others
    where `fields` says so, the rest is kept. A cell of `answers`, `answer_set`, `gold` or `tags` that
    begins with a bracket or a brace is JSON, or a list as Python prints it; one of `answers` or of a
    part of `gold` is cut at the separator where there is one. An empty cell is nothing. A grade and an
    offset may be 1.0; an id is the text that stands there.

    Args:
        path: of the file.
        fields: ours to the table's, as in `field_map.mapped`: `{"question": "query", "gold.id": "doc"}`. A
            table without ids takes `{"id": "#"}`: each row's id is its number, from 1.
        separator: between several values in one cell, such as " | "; None: a cell is one value.
        delimiter: between cells, one character; default: a tab in .tsv, else a comma.
        quote: around cells that hold the delimiter, one character, doubled within; "": none, a quote is
            text like any other.

    Raises:
        InputError: the file cannot be read as such, has no column for the id or the question, or a cell
            is not what it begins as.
    """
    _check(delimiter is None or _is_text(delimiter, 1), f"delimiter={delimiter!r} is not one character")
    _check(quote == "" or _is_text(quote, 1), f'quote={quote!r} is not one character, nor ""')
    _check(separator is None or _is_text(separator, None), f"separator={separator!r} is no text")
    given = {} if fields is None else checked_fields(fields)
    header, found = rows(path, delimiter or delimiter_of(path), quote)
    # A column under one of our names is that field, unless the map says otherwise of either.
    own = {name: name for name in header if is_target(name) and name not in given.values()}
    columns = {**own, **given}
    refuse_gold_twice(columns, f"{path.name} line 1")
    missing = sorted(set(columns.values()) - {*header, NUMBER})
    if missing:
        raise _lacking(
            path.name, missing, header, "The field map is {ours: theirs}; correct the name on the right."
        )
    for name in REQUIRED:
        if name not in columns:
            raise _lacking(path.name, [name], header, f"Say which it is. {map_for(name)}")
    targets = {target: NUMBER if source == NUMBER else target for target, source in columns.items()}
    records = ((place, _record(place, row, columns, separator)) for place, row in found)
    yield from mapped(records, targets)


def _lacking(name: str, missing: Sequence[str], header: Sequence[str], remedy: str) -> InputError:
    # Separated by another character, the header is cut at the wrong places, or at none.
    often = {mark: sum(column.count(mark) for column in header) for mark in DELIMITERS}
    likely = max(DELIMITERS, key=lambda mark: often[mark])
    if often[likely] >= len(header):
        remedy = f"Its cells seem to be separated by {likely!r}: say delimiter={likely!r}."
    shown = [*(column[:60] for column in header[:SHOWN]), *(["…"] if len(header) > SHOWN else [])]
    return InputError(f"{name} has no column {', '.join(missing)}. Found: {', '.join(shown)}.\n{remedy}")


def _check(fits: bool, found: str) -> None:  # noqa: FBT001 - what is checked is in the caller's words
    if not fits:
        message = f"{found}."
        raise InputError(message)


def _is_text(value: object, length: int | None) -> bool:
    return isinstance(value, str) and (len(value) == length if length else bool(value))


def _record(
    place: str, row: Mapping[str, str], columns: Mapping[str, str], separator: str | None
) -> dict[str, Any]:
    """The row with its columns under our names, and their cells as values."""
    used = set(columns.values())
    record: dict[str, Any] = {name: cell for name, cell in row.items() if cell and name not in used}
    for target, source in columns.items():
        if source != NUMBER:
            record[target] = _value(target, row[source], separator, place)
    return record


def _value(target: str, cell: str, separator: str | None, place: str) -> Any:
    if not cell.strip():
        return None
    if target in LISTS and cell.lstrip()[0] in "[{":
        return listed(cell.strip(), place)
    if separator is not None and separator in cell and (target == "answers" or target.startswith("gold")):
        return [_number(target, part.strip()) for part in cell.split(separator) if part.strip()]
    return _number(target, cell)


def _number(target: str, cell: str) -> str | int:
    """The integer where one is wanted and there is one; else the text, which the check will name."""
    number = INTEGER.fullmatch(cell.strip()) if target in NUMBERS else None
    return cell if number is None else int(number[1])
