"""Tables: comma- and tab-separated files with a header, and lists in one cell."""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.datatypes import RETRIEVER_CONTEXT
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.field_map import NUMBER, checked_fields, is_target, mapped, refuse_gold_twice
from pytest_rageval.evalsets.files import lines, parse
from pytest_rageval.evalsets.records import EXPORT_REMEDY, Records, field_map_remedy, is_export

__all__ = ["delimiter_of", "listed", "read", "rows"]

MAX_CELL: Final = 2**24  # characters: a quote that is never closed makes one cell of the rest of the file
CELL_REMEDY: Final = (
    'A cell that begins with a bracket or a brace is a list or an object. Write ["first", "second"]; for a text that '
    'begins so, a list of one: ["[text]"].'
)

PYTHON_TEXT: Final = re.compile(r"""\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*(,|(?=\]))""", re.DOTALL)
INTEGER: Final = re.compile(r"([0-9]{1,18})(\.0*)?")

LIST_FIELDS: Final = ("answers", "answer_set", "gold", "nuggets", "tags")
CONTEXT_FIELDS: Final = ("history", "filters")
NUMBER_FIELDS: Final = ("gold.start", "gold.end", "gold.grade")
REQUIRED: Final = ("id", "question")
DELIMITERS: Final = (";", "\t", "|", ",")
MAX_NAMES: Final = 20  # columns that an error lists


def read(
    path: Path,
    *,
    fields: Mapping[str, str] | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
) -> Records:
    """Records from a table.

    Columns with names of our fields (`question`, `gold.id`, `tags.topic`) are these fields; the rest is kept.
    A cell of `answers`, `answer_set`, `gold`, `nuggets` or `tags` that begins with a bracket or a brace is JSON,
    or a list as Python prints it. An empty cell has no value; an id is the cell's text.

    Args:
        path: of the file.
        fields: ours to the table's, as in `field_map.mapped`: `{"question": "query", "gold.id": "doc"}`;
            `{"id": "#"}`: each row's id is its number, from 1.
        separator: between several values in one cell of `answers`, `nuggets` or a part of `gold`, such as " | ".
        delimiter: between cells, one character; default: a tab in .tsv, else a comma.
        quote: around cells that hold the delimiter, one character, doubled within; "": none.

    Raises:
        InputError: the file cannot be read as a table, has no column for the id or the question, or a cell
            is not a list although it begins as one.
    """
    if not (delimiter is None or (isinstance(delimiter, str) and len(delimiter) == 1)):
        raise InputError(f"delimiter={delimiter!r} is not one character.")
    if not (isinstance(quote, str) and len(quote) <= 1):
        raise InputError(f'quote={quote!r} is not one character, nor "".')
    if not (separator is None or (isinstance(separator, str) and separator)):
        raise InputError(f"separator={separator!r} is not a text.")
    renamed = {} if fields is None else checked_fields(fields)
    header, found = rows(path, delimiter or delimiter_of(path), quote)
    # A column named as a native field is that field, unless the map uses the name or the column.
    own = {name: name for name in header if is_target(name) and name not in renamed.values()}
    columns = {**own, **renamed}
    refuse_gold_twice(columns, f"{path.name} line 1")
    missing = sorted(set(columns.values()) - {*header, NUMBER})
    if missing:
        remedy = "The field map is {ours: theirs}; correct the name on the right."
        raise _missing_columns(path.name, missing, header, remedy)
    for name in REQUIRED:
        if name not in columns:
            raise _missing_columns(path.name, [name], header, f"Say which it is. {field_map_remedy(name)}")
    targets = {target: NUMBER if source == NUMBER else target for target, source in columns.items()}
    records = ((place, _record(place, row, columns, separator)) for place, row in found)
    yield from mapped(records, targets)


def delimiter_of(path: Path) -> str:
    """Return the delimiter by the file's name: a tab if it has .tsv in it, else a comma."""
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","


def _missing_columns(name: str, missing: Sequence[str], header: Sequence[str], remedy: str) -> InputError:
    # With a wrong delimiter, the header is one cell, or cut at the wrong places.
    names = "".join(header)
    likely = max(DELIMITERS, key=names.count)
    if names.count(likely) >= len(header):
        remedy = f"Its cells seem to be separated by {likely!r}: say delimiter={likely!r}."
    if is_export(dict.fromkeys(header)):
        remedy = f"{EXPORT_REMEDY}\n{remedy}"
    shown = [*(column[:60] for column in header[:MAX_NAMES]), *(["…"] if len(header) > MAX_NAMES else [])]
    return InputError(f"{name} has no column {', '.join(missing)}. Found: {', '.join(shown)}.\n{remedy}")


def _record(
    place: str, row: Mapping[str, str], columns: Mapping[str, str], separator: str | None
) -> dict[str, Any]:
    used = set(columns.values())
    record: dict[str, Any] = {name: cell for name, cell in row.items() if cell and name not in used}
    for target, source in columns.items():
        # An empty cell of context is no other data of that name either.
        if source != NUMBER and (row[source].strip() or target not in RETRIEVER_CONTEXT):
            record[target] = _value(target, row[source], separator, place)
    return record


def _value(target: str, cell: str, separator: str | None, place: str) -> Any:
    if not cell.strip():
        return None
    if target in LIST_FIELDS and cell.lstrip()[0] in "[{":
        return listed(cell.strip(), place)
    if target in CONTEXT_FIELDS and cell.lstrip()[0] in "[{":
        return _context(cell.strip(), place)
    if (
        separator is not None
        and separator in cell
        and (target in ("answers", "nuggets") or target.startswith("gold"))
    ):
        return [_number(target, part.strip()) for part in cell.split(separator) if part.strip()]
    return _number(target, cell)


def _context(cell: str, place: str) -> Any:
    """The list or object in a cell; the text of one that holds none, which may be other data."""
    try:
        return parse(cell, place)
    except InputError:
        return cell


def _number(target: str, cell: str) -> str | int:
    """The integer in a cell of a number field; else the text, which the check of the record names."""
    number = INTEGER.fullmatch(cell.strip()) if target in NUMBER_FIELDS else None
    return cell if number is None else int(number[1])


def listed(cell: str, place: str) -> Any:
    """Parse a cell that is JSON, or a list of texts as Python prints one (`['a', "b"]`), as data frames write it."""
    texts = _python_texts(cell)
    return parse(cell, f"{place}: the cell {cell[:40]!r}", CELL_REMEDY) if texts is None else texts


def _python_texts(cell: str) -> list[str] | None:
    """The texts of a printed Python list; None if it is not such a list, for instance without commas."""
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


def rows(
    path: Path, delimiter: str, quote: str = '"'
) -> tuple[list[str], Iterator[tuple[str, dict[str, str]]]]:
    """Return the header's names, and the rows below it by these names, each with the place of its first line.

    InputError if the header has no name or one twice; and, from the iterator, if a row has another number of cells.
    """
    # The limit is that of the whole process: it is only raised, for the sake of other readers.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    cells = _cells(path, delimiter, quote)
    place, names = next(cells, (path.name, []))
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or not all(names) or repeated:
        found = "a column without a name" if names else "no columns"
        if repeated and all(repeated):
            found = f"{', '.join(repeated[:12])} more than once"
        raise InputError(f"{place}: the header has {found}.\nThe first line names the columns.")
    return names, _rows_by_name(names, cells)


def _cells(path: Path, delimiter: str, quote: str) -> Iterator[tuple[str, list[str]]]:
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader((line for _, line in lines(path)), delimiter=delimiter, strict=True, **quoting)
    while True:
        place = f"{path.name} line {reader.line_num + 1}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{place} and the lines after it are not a table: {error}.\n"
                'Is a quote not closed, or a line cut? Where quotes are text like any other, say quote="".'
            ) from None
        if row is None:
            return
        if row:
            yield place, [cell.strip() for cell in row]


def _rows_by_name(
    names: list[str], cells: Iterator[tuple[str, list[str]]]
) -> Iterator[tuple[str, dict[str, str]]]:
    for place, row in cells:
        if len(row) != len(names):
            raise InputError(
                f"{place} has {len(row)} cells, the header {len(names)}: {', '.join(names[:12])}.\n"
                "Quote cells that hold the delimiter; for another one say delimiter=…"
            )
        yield place, dict(zip(names, row, strict=True))
