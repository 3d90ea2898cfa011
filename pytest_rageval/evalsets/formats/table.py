"""Tables: comma- and tab-separated files with a header, whose cells may contain lists."""

import ast
import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.datatypes import RETRIEVER_CONTEXT
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.field_map import (
    RECORD_NUMBER,
    check_field_map,
    is_target,
    map_fields,
    refuse_gold_twice,
)
from pytest_rageval.evalsets.files import parse_json, read_lines
from pytest_rageval.evalsets.records import EXPORT_REMEDY, Records, field_map_remedy, looks_like_export

__all__ = ["find_delimiter", "parse_list_cell", "read", "read_rows"]

MAX_CELL_CHARACTERS: Final = 2**24
"""An unclosed quote turns the rest of the file into one cell; this limits it."""
CELL_REMEDY: Final = (
    'A cell that begins with a bracket or a brace is a list or an object. Write ["first", "second"]; for a text that '
    'begins so, a list of one: ["[text]"].'
)

PYTHON_STRING_ITEM: Final = re.compile(
    r"""\s*('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")\s*(,|(?=\]))""", re.DOTALL
)
INTEGER: Final = re.compile(r"([0-9]{1,18})(\.0*)?")

LIST_FIELDS: Final = ("answers", "answer_set", "gold", "nuggets", "tags")
CONTEXT_FIELDS: Final = ("history", "filters")
NUMBER_FIELDS: Final = ("gold.start", "gold.end", "gold.grade")
REQUIRED: Final = ("id", "question")
DELIMITERS: Final = (";", "\t", "|", ",")
MAX_LISTED_COLUMNS: Final = 20  # number of columns that an error message lists


def read(
    path: Path,
    *,
    fields: Mapping[str, str] | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
) -> Records:
    """Yield records from the rows of a table.

    A column with the name of a native field (`question`, `gold.id`, `tags.topic`) is this field; other columns are kept
    under `extra`. A cell of `answers`, `answer_set`, `gold`, `nuggets` or `tags` that begins with a bracket or a brace
    is parsed as JSON, or as a list of strings as Python prints it. An empty cell has no value. An id is the text of the
    cell.

    Args:
        path: path of the file.
        fields: map from native names to columns, as in `field_map.map_fields`: `{"question": "query", "gold.id":
            "doc"}`. With `{"id": "#"}` the id of a row is its number, from 1.
        separator: text between several values in one cell of `answers`, `nuggets` or a part of `gold`, such as " | ".
        delimiter: the character between cells; default: a tab in .tsv files, else a comma.
        quote: the character around cells that contain the delimiter; it is doubled within a cell. "": cells are not
            quoted.

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
    renamed = {} if fields is None else check_field_map(fields)
    header, rows = read_rows(path, delimiter or find_delimiter(path), quote)
    # A column with the name of a native field is that field, unless the map uses the name or the column.
    own = {name: name for name in header if is_target(name) and name not in renamed.values()}
    columns = {**own, **renamed}
    refuse_gold_twice(columns, f"{path.name} line 1")
    missing = sorted(set(columns.values()) - {*header, RECORD_NUMBER})
    if missing:
        remedy = "The field map is {ours: theirs}; correct the name on the right."
        raise _missing_columns(path.name, missing, header, remedy)
    for name in REQUIRED:
        if name not in columns:
            raise _missing_columns(path.name, [name], header, f"Say which it is. {field_map_remedy(name)}")
    targets = {
        target: RECORD_NUMBER if source == RECORD_NUMBER else target for target, source in columns.items()
    }
    records = ((place, _row_to_record(place, row, columns, separator)) for place, row in rows)
    yield from map_fields(records, targets)


def find_delimiter(path: Path) -> str:
    """Return a tab if the file's name has the suffix `.tsv`, also before a suffix of compression; else a comma."""
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","


def _missing_columns(name: str, missing: Sequence[str], header: Sequence[str], remedy: str) -> InputError:
    # If the delimiter is wrong, the header is one cell, or is split at the wrong characters.
    names = "".join(header)
    likely = max(DELIMITERS, key=names.count)
    if names.count(likely) >= len(header):
        remedy = f"Its cells seem to be separated by {likely!r}: say delimiter={likely!r}."
    if looks_like_export(dict.fromkeys(header)):
        remedy = f"{EXPORT_REMEDY}\n{remedy}"
    shown = [
        *(column[:60] for column in header[:MAX_LISTED_COLUMNS]),
        *(["…"] if len(header) > MAX_LISTED_COLUMNS else []),
    ]
    return InputError(f"{name} has no column {', '.join(missing)}. Found: {', '.join(shown)}.\n{remedy}")


def _row_to_record(
    place: str, row: Mapping[str, str], columns: Mapping[str, str], separator: str | None
) -> dict[str, Any]:
    used = set(columns.values())
    record: dict[str, Any] = {name: cell for name, cell in row.items() if cell and name not in used}
    for target, source in columns.items():
        # An empty cell of `history`, `filters` or `metadata` is left out: it is not other data of the same name.
        if source != RECORD_NUMBER and (row[source].strip() or target not in RETRIEVER_CONTEXT):
            record[target] = _parse_cell(target, row[source], separator, place)
    return record


def _parse_cell(target: str, cell: str, separator: str | None, place: str) -> Any:
    if not cell.strip():
        return None
    if target in LIST_FIELDS and cell.lstrip()[0] in "[{":
        return parse_list_cell(cell.strip(), place)
    if target in CONTEXT_FIELDS and cell.lstrip()[0] in "[{":
        return _parse_context_cell(cell.strip(), place)
    if (
        separator is not None
        and separator in cell
        and (target in ("answers", "nuggets") or target.startswith("gold"))
    ):
        return [_parse_integer(target, part.strip()) for part in cell.split(separator) if part.strip()]
    return _parse_integer(target, cell)


def _parse_context_cell(cell: str, place: str) -> Any:
    """Parse the JSON list or object in a cell; a cell that is not JSON may be other data and is returned as text."""
    try:
        return parse_json(cell, place)
    except InputError:
        return cell


def _parse_integer(target: str, cell: str) -> str | int:
    """Parse the integer in a cell of a number field; any other text is returned for the later check of the record."""
    number = INTEGER.fullmatch(cell.strip()) if target in NUMBER_FIELDS else None
    return cell if number is None else int(number[1])


def parse_list_cell(cell: str, place: str) -> Any:
    """Parse a cell that is JSON, or a list of strings as Python prints it (`['a', "b"]`) and data frames write it."""
    texts = _parse_python_list(cell)
    return parse_json(cell, f"{place}: the cell {cell[:40]!r}", CELL_REMEDY) if texts is None else texts


def _parse_python_list(cell: str) -> list[str] | None:
    """Return the strings of a printed Python list; None if the cell is not such a list, for example without commas."""
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    offset, texts = 1, []
    while match := PYTHON_STRING_ITEM.match(cell, offset):
        try:
            texts.append(str(ast.literal_eval(match[1])))
        except (SyntaxError, ValueError):
            return None
        offset = match.end()
    return texts if texts and offset == len(cell) - 1 else None


def read_rows(
    path: Path, delimiter: str, quote: str = '"'
) -> tuple[list[str], Iterator[tuple[str, dict[str, str]]]]:
    """Return the column names of the header, and an iterator over the place and the cells by column name of each row.

    The place of a row is its first line.

    Raises:
        InputError: a column has no name, or two columns have the same name; or, while iterating, a row has another
            number of cells than the header.
    """
    # The limit applies to the whole process. It is never lowered, since other code may need a higher one.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARACTERS))
    cells = _read_cells(path, delimiter, quote)
    place, names = next(cells, (path.name, []))
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or not all(names) or repeated:
        found = "a column without a name" if names else "no columns"
        if repeated and all(repeated):
            found = f"{', '.join(repeated[:12])} more than once"
        raise InputError(f"{place}: the header has {found}.\nThe first line names the columns.")
    return names, _rows_by_name(names, cells)


def _read_cells(path: Path, delimiter: str, quote: str) -> Iterator[tuple[str, list[str]]]:
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True, **quoting)
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
