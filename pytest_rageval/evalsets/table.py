"""CSV and TSV: a table of questions whose first line names the columns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.cells import listed, rows
from pytest_rageval.evalsets.checks import map_for
from pytest_rageval.evalsets.fields import NUMBER, checked_fields, is_target, mapped, refuse_gold_twice
from pytest_rageval.evalsets.shape import Shape

__all__ = ["delimiter_of", "read", "recognises"]

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
        fields: ours to the table's, as in `fields.mapped`: `{"question": "query", "gold.id": "doc"}`. A
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
