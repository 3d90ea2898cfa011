"""MS MARCO v1.1: questions, each with its own passages; as JSON lines or as a table."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco_answers import real_answers
from pytest_rageval.evalsets.formats.table import delimiter_of, listed, rows
from pytest_rageval.evalsets.records import Check

__all__ = ["PASSAGES", "read", "recognises"]

PASSAGES: Final = "passages"


def recognises(shape: Shape) -> bool:
    """By its keys, or as a table by its columns."""
    if shape.suffix in (".csv", ".tsv"):
        return {"passages", "query_id", "query"} <= {
            cell.strip('" ') for cell in re.split("[,\t]", shape.line)
        }
    return shape.has("passages", "query_id", "query")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records with the selected passages as gold, and all of them as the question's pool.

    A passage's id is that of its query and its position, from 0: "9652-0". The pool is
    `extra["passages"]`, see `pools`; the query's type is a tag.

    Raises:
        InputError: the file cannot be read, or a record is none of MS MARCO's.
    """
    for place, value in _records(path):
        check = Check(place)
        record = dict(check.record(value, "query_id", "query", "passages"))
        identifier = check.name(record.pop("query_id"), "query_id")
        pool, gold = [], []
        for i, item in enumerate(check.array(record.pop("passages"), "passages")):
            passage = check.object(item, "passages", i)
            text = check.text(passage.pop("passage_text", None), "passages", i, "passage_text")
            named = {"id": f"{identifier}-{i}", "text": text}
            pool.append(named | passage)
            if check.natural(passage.get("is_selected", 0), "passages", i, "is_selected"):
                gold.append(named)
        question = check.text(record.pop("query"), "query")
        answers = real_answers(check, record.pop("answers", None))
        kind = record.pop("query_type", None)
        yield (
            place,
            {
                **record,
                "id": identifier,
                "question": question,
                "answers": answers,
                "gold": gold,
                "tags": {} if kind is None else {"query_type": kind},
                PASSAGES: pool,
            },
        )


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    if Shape(path).suffix not in (".csv", ".tsv"):
        yield from json_records(path)
        return
    _, found = rows(path, delimiter_of(path))
    for place, row in found:
        lists = {name: listed(row[name], place) for name in ("passages", "answers") if row.get(name)}
        yield place, {name: cell for name, cell in row.items() if cell} | lists
