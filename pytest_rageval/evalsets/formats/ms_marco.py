"""MS MARCO v1.1: questions, each with its own passages; as JSON lines or as a table."""

from pathlib import Path
from typing import Final

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco_answers import real_answers
from pytest_rageval.evalsets.formats.table import find_delimiter, parse_list_cell, read_rows
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["PASSAGES_KEY", "read"]

PASSAGES_KEY: Final = "passages"  # the key under `extra` for the passages that come with a question


def read(path: Path) -> Records:
    """Yield records with the selected passages as gold passages, and all passages under `extra["passages"]`.

    The id of a passage is the id of its query and its position, from 0: "9652-0". The query's type is a tag.
    """
    for check, record in check_records(_records(path), "query_id", "query", "passages"):
        identifier = check.name(record.pop("query_id"), "query_id")
        passages, gold = [], []
        for i, passage in enumerate(check.objects(record.pop("passages"), "passages")):
            text = check.text(passage.pop("passage_text", None), "passages", i, "passage_text")
            identified = {"id": f"{identifier}-{i}", "text": text}
            passages.append(identified | passage)
            if check.natural(passage.get("is_selected", 0), "passages", i, "is_selected"):
                gold.append(identified)
        kind = record.pop("query_type", None)
        record |= {
            "id": identifier,
            "question": check.text(record.pop("query"), "query"),
            "answers": real_answers(check, record.pop("answers", None)),
            "gold": gold,
            "tags": {} if kind is None else {"query_type": kind},
            PASSAGES_KEY: passages,
        }
        yield check.place, record


def _records(path: Path) -> Records:
    if not Shape(path).is_table:
        yield from json_records(path)
        return
    _, table_rows = read_rows(path, find_delimiter(path))
    for place, row in table_rows:
        lists = {name: parse_list_cell(row[name], place) for name in ("passages", "answers") if row.get(name)}
        yield place, {name: cell for name, cell in row.items() if cell} | lists
