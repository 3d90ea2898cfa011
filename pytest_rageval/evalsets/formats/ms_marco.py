"""MS MARCO v1.1: questions, each with its own passages; as JSON lines or as a table."""

from pathlib import Path
from typing import Final

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco_answers import real_answers
from pytest_rageval.evalsets.formats.table import delimiter_of, listed, rows
from pytest_rageval.evalsets.records import Records, checked

__all__ = ["PASSAGES", "read"]

PASSAGES: Final = "passages"  # the key under `extra` of the passages that belong to a question


def read(path: Path) -> Records:
    """Records with the selected passages as gold, and all of them under `extra["passages"]`.

    A passage's id is that of its query and its position, from 0: "9652-0". The query's type is a tag.
    """
    for check, record in checked(_records(path), "query_id", "query", "passages"):
        identifier = check.name(record.pop("query_id"), "query_id")
        passages, gold = [], []
        for i, passage in enumerate(check.objects(record.pop("passages"), "passages")):
            text = check.text(passage.pop("passage_text", None), "passages", i, "passage_text")
            named = {"id": f"{identifier}-{i}", "text": text}
            passages.append(named | passage)
            if check.natural(passage.get("is_selected", 0), "passages", i, "is_selected"):
                gold.append(named)
        kind = record.pop("query_type", None)
        record |= {
            "id": identifier,
            "question": check.text(record.pop("query"), "query"),
            "answers": real_answers(check, record.pop("answers", None)),
            "gold": gold,
            "tags": {} if kind is None else {"query_type": kind},
            PASSAGES: passages,
        }
        yield check.place, record


def _records(path: Path) -> Records:
    if not Shape(path).is_table:
        yield from json_records(path)
        return
    _, found = rows(path, delimiter_of(path))
    for place, row in found:
        lists = {name: listed(row[name], place) for name in ("passages", "answers") if row.get(name)}
        yield place, {name: cell for name, cell in row.items() if cell} | lists
