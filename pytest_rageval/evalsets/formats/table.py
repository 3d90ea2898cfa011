"""Tables: comma- and tab-separated files with a header, Parquet, and data frames; their cells may contain lists.

docs/reference/eval-sets.md says which columns and cells are read, and what the options do.
"""

import ast
import csv
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import RETRIEVER_CONTEXT
from pytest_rageval.evalsets.field_map import (
    RECORD_NUMBER,
    check_field_map,
    is_target,
    map_fields,
    refuse_gold_twice,
)
from pytest_rageval.evalsets.files import json_records, open_parquet, parse_json, read_lines
from pytest_rageval.evalsets.formats import SEP_LINE, Shape
from pytest_rageval.evalsets.records import (
    EXPORT_REMEDY,
    Record,
    Records,
    field_map_remedy,
    looks_like_export,
)
from pytest_rageval.lib.foreign_values import MISSING_WORDS
from pytest_rageval.lib.text import join_first

MAX_CELL_CHARACTERS: Final = 2**24
"""An unclosed quote turns the rest of the file into one cell; this limits it."""
CELL_REMEDY: Final = (
    "A cell in brackets or braces is a list or an object, as JSON or as Python prints it. "
    'Write ["first", "second"]; for a text in brackets, a list of one: ["[text]"]. '
    "NumPy prints arrays without commas: call .tolist() before the table is written."
)

LIST_CELL: Final = re.compile(r"""\[.*\]|\{.*\}|[\[{]\s*['"\[{].*|\(\s*['"].*,.*\)""", re.DOTALL)
"""Matches a list, an object, the beginning of one that was cut, and a tuple of texts; not "[1] See the handbook"."""
PYTHON_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|\b(?P<word>None|True|False|nan|NaN|NaT)\b|(?P<na><NA>)"""
    r"""|(?P<open>\()|(?P<close>,?\))""",
    re.DOTALL,
)
JSON_WORDS: Final = {"True": "true", "False": "false"}
INTEGER: Final = re.compile(r"([0-9]{1,18})(\.0*)?")

LIST_FIELDS: Final = ("answers", "answer_set", "gold", "nuggets", "tags")
OBJECT_FIELDS: Final = ("history", "filters")  # a column of such a name may contain other data
OBJECT_PARTS: Final = ("tags.", "filters.")
NUMBER_FIELDS: Final = ("gold.start", "gold.end", "gold.grade")
NAME_FIELDS: Final = ("id", "gold.id", "gold.group", "gold.source", *NUMBER_FIELDS)
"""Fields whose cells may not be the word "None", which may be the text of an answer."""
REQUIRED: Final = ("id", "question")
DELIMITERS: Final = (";", "\t", "|", ",")
MAX_LISTED_COLUMNS: Final = 20  # number of columns that an error message lists


def read_table(
    path: Path,
    *,
    fields: Mapping[str, str] | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    quote: str = '"',
) -> Records:
    if not (delimiter is None or (isinstance(delimiter, str) and len(delimiter) == 1)):
        raise InputError(f"delimiter={delimiter!r} is not one character.")
    if not (isinstance(quote, str) and len(quote) <= 1):
        raise InputError(f'quote={quote!r} is not one character, nor "".')
    if not (separator is None or (isinstance(separator, str) and separator)):
        raise InputError(f"separator={separator!r} is not a text.")
    renamed = {} if fields is None else check_field_map(fields)
    if Shape(path).is_parquet:
        yield from frame_records(
            json_records(path), open_parquet(path).schema_arrow.names, fields, path.name, separator
        )
        return
    header, rows = read_rows(path, delimiter or find_delimiter(path), quote)
    columns = _columns(header, renamed)
    refuse_gold_twice(columns, f"{path.name} line 1")
    missing = sorted(set(columns.values()) - {*header, RECORD_NUMBER})
    if missing:
        remedy = "The field map is {ours: theirs}; correct the name on the right."
        raise _missing_columns(path.name, missing, header, remedy)
    for name in REQUIRED:
        if name not in columns:
            raise _missing_columns(path.name, [name], header, f"Say which it is. {field_map_remedy(name)}")
    records = ((place, _row_to_record(place, row, columns, separator)) for place, row in rows)
    yield from _map_targets(records, columns, header)


def frame_records(
    rows: Iterable[tuple[str, Any]],
    header: Sequence[str],
    fields: Mapping[str, str] | None,
    name: str = "The data frame",
    separator: str | None = None,
) -> Records:
    """Yield records from the rows of a data frame, read as those of a file; the map may also name paths in objects."""
    columns = _columns(header, {} if fields is None else check_field_map(fields))
    refuse_gold_twice(columns, name)
    in_header = {target: source for target, source in columns.items() if source in header}
    records = (
        (place, _row_to_record(place, row, in_header, separator) if isinstance(row, Mapping) else row)
        for place, row in rows
    )
    yield from _map_targets(records, columns, header)


def _map_targets(
    records: Iterable[tuple[str, Any]], columns: Mapping[str, str], header: Collection[str]
) -> Records:
    """Yield native records from records in which the columns of the header have the native names."""
    renamed = {target: target for target, source in columns.items() if source in header}
    native = map_fields(records, {**columns, **renamed}, optional=renamed)
    has_parts = any(target.partition(".")[0] == "gold" for target in columns)
    return _join_rows(native) if has_parts and columns.get("id") != RECORD_NUMBER else native


def _join_rows(records: Records) -> Records:
    """Join records that follow each other and differ only in their gold passages: a table of one row a passage.

    A record with the same id and another difference is left to the check of ids.
    """
    joined: Record
    nothing: tuple[str, Record] = "", {}
    place, joined = next(records, nothing)
    failure: InputError | None = None
    try:
        for next_place, record in records:
            known, passages = joined.get("gold") or [], record.get("gold") or []
            are_new = known and passages and not any(passage in known for passage in passages)
            if are_new and {**joined, "gold": None} == {**record, "gold": None}:
                joined["gold"] = [*known, *passages]
            else:
                yield place, joined
                place, joined = next_place, record
    except InputError as error:
        failure = error  # raised after the record before it
    if joined:
        yield place, joined
    if failure is not None:
        raise failure


def _columns(header: Sequence[str], renamed: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each native name: of that name, unless the map uses the name or the column."""
    return {name: name for name in header if is_target(name) and name not in renamed.values()} | dict(renamed)


def find_delimiter(path: Path) -> str:
    """Return the delimiter of Excel's first line `sep=;`; else a tab for `.tsv`, compressed or not, or a comma."""
    if named := SEP_LINE.match(Shape(path).line):
        return named[1]
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes) else ","


def _missing_columns(name: str, missing: Sequence[str], header: Sequence[str], remedy: str) -> InputError:
    # If the delimiter is wrong, the header is one cell, or is split at the wrong characters.
    names = "".join(header)
    likely = max(DELIMITERS, key=names.count)
    if names.count(likely) >= len(header):
        remedy = f"Its cells seem to be separated by {likely!r}: say delimiter={likely!r}."
    if looks_like_export(dict.fromkeys(header)):
        remedy = f"{EXPORT_REMEDY}\n{remedy}"
    found = join_first([column[:60] for column in header], MAX_LISTED_COLUMNS)
    return InputError(f"{name} has no column {', '.join(missing)}. Found: {found}.\n{remedy}")


def _row_to_record(
    place: str, row: Mapping[str, object], columns: Mapping[str, str], separator: str | None
) -> dict[str, object]:
    used = set(columns.values())
    record = {name: cell for name, cell in row.items() if cell not in (None, "") and name not in used}
    for target, source in columns.items():
        # A data frame has no value there. A file has, and a null tag is a value.
        value = _parse_cell(target, row[source], separator, place) if source in row else None
        # A missing value of `history`, `filters` or `metadata` is left out: it is not other data of the same name.
        if value is not None or (source in row and target not in RETRIEVER_CONTEXT):
            record[target] = value
    return record


def _parse_cell(target: str, cell: Any, separator: str | None, place: str) -> Any:
    """Return the value of a cell for a native field; None if it is missing. Only texts are parsed."""
    if not isinstance(cell, str):
        return cell
    stripped = cell.strip()
    if stripped in MISSING_WORDS and (stripped != "None" or target in NAME_FIELDS):
        return None
    if is_list_cell(cell):
        if target in LIST_FIELDS or target.startswith("gold."):
            return parse_list_cell(stripped, place)
        if target in OBJECT_FIELDS or target.startswith(OBJECT_PARTS):
            with suppress(InputError):  # the cell may be other data
                return parse_list_cell(stripped, place)
    is_listed = target in ("answers", "nuggets") or target.startswith("gold")
    if is_listed and separator is not None and separator in cell:
        return [_parse_integer(target, part.strip()) for part in cell.split(separator) if part.strip()]
    return _parse_integer(target, cell)


def _parse_integer(target: str, cell: str) -> str | int:
    """Parse the integer in a cell of a number field; the check of the record refuses any other text."""
    number = INTEGER.fullmatch(cell.strip()) if target in NUMBER_FIELDS else None
    return cell if number is None else int(number[1])


def is_list_cell(cell: str) -> bool:
    return LIST_CELL.fullmatch(cell.strip()) is not None


def parse_list_cell(cell: str, place: str) -> Any:
    """Parse a cell that is JSON, or a list or an object as Python prints it and data frames write it."""
    with suppress(InputError):
        return parse_json(cell, place)
    return parse_json(PYTHON_TOKEN.sub(_to_json_token, cell), f"{place}: the cell {cell[:40]!r}", CELL_REMEDY)


def _to_json_token(token: re.Match[str]) -> str:
    if token["text"] is None:
        return {"open": "[", "close": "]"}.get(token.lastgroup or "") or JSON_WORDS.get(token[0], "null")
    if "\\" not in token["text"]:
        return json.dumps(token["text"][1:-1])
    try:
        return json.dumps(ast.literal_eval(token["text"]))
    except (SyntaxError, ValueError):
        return token[0]


def rows_or_records(path: Path, lists: Collection[str] = ()) -> Records:
    """Yield the rows of a table without empty cells, with lists in the columns `lists`; or the records of a file."""
    if not Shape(path).is_table:
        yield from json_records(path)
        return
    for place, row in read_rows(path, find_delimiter(path))[1]:
        values: Record = {name: cell for name, cell in row.items() if cell}
        for name in lists:
            if name in values and is_list_cell(values[name]):
                values[name] = parse_list_cell(values[name], place)
        yield place, values


def read_rows(
    path: Path, delimiter: str, quote: str = '"'
) -> tuple[list[str], Iterator[tuple[str, dict[str, str]]]]:
    """Return the header's names, and an iterator over the place (the first line) and the cells by name of each row.

    Left out are rows of empty cells, which spreadsheets write, and the index of a data frame: a first column of
    numbers, without a name.
    """
    # The limit applies to the whole process. It is never lowered, since other code may need a higher one.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_CHARACTERS))
    cells = _read_cells(path, delimiter, quote)
    place, names = next(cells, (path.name, []))
    if len(names) > 1 and not names[0] and all(names[1:]):
        names, cells = names[1:], _without_index(cells)
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if not names or not all(names) or repeated:
        found = "a column without a name" if names else "no columns"
        if repeated and all(repeated):
            found = f"{', '.join(repeated[:12])} more than once"
        raise InputError(f"{place}: the header has {found}.\nThe first line names the columns.")
    return names, _rows_by_name(names, cells)


def _without_index(cells: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    for place, row in cells:
        if not row[0].isdecimal():
            raise InputError(
                f"{place}: the first column has no name, and {row[0][:40]!r} is no number of a data frame's index.\n"
                "Name the column in the first line."
            )
        yield place, row[1:]


def _read_cells(path: Path, delimiter: str, quote: str) -> Iterator[tuple[str, list[str]]]:
    quoting = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    lines = ("\n" if number == 1 and SEP_LINE.match(line) else line for number, line in read_lines(path))
    reader = csv.reader(lines, delimiter=delimiter, strict=True, **quoting)
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
        row = [cell.strip() for cell in row]
        if any(row):
            yield place, row


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
