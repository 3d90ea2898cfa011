"""DeepEval: goldens as `EvaluationDataset.save_as` writes them, as JSON, JSON lines or CSV."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.formats.table import parse_list_cell, rows_or_records
from pytest_rageval.evalsets.records import Check, Records, check_records

UPPER_CASE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def _snake_case(name: object) -> str:
    return UPPER_CASE.sub("_", str(name)).lower()


def read(path: Path, *, separator: str = "|") -> Records:
    """Yield records with the texts of `context`, the ideal passages, as gold passages.

    `expected_output` is the `reference`, and `additional_metadata` the `metadata`. `retrieval_context` and
    `actual_output` are of the application, and not gold: they are kept under `extra` as `retrieved` and `answer_given`,
    with the other keys, such as `source_file`. The id is the record's number, from 1.

    Args:
        path: path of the file.
        separator: the text between two passages in one text, which DeepEval writes to CSV and JSON lines.
    """
    for number, (check, record) in enumerate(check_records(rows_or_records(path), "input"), 1):
        yield check.place, {"id": number, **read_golden(record, check, separator)}


def read_golden(record: Mapping[str, Any], check: Check, separator: str = "|") -> dict[str, Any]:
    """Return a golden as a native record, without an id unless it has one; empty values are left out."""
    given = {_snake_case(name): value for name, value in record.items() if value not in (None, "", [], {})}
    question = check.text(given.pop("input", None), "input")
    gold, retrieved = (
        _texts(given.pop(name, None), name, check, separator) for name in ("context", "retrieval_context")
    )
    fields = {
        "question": question,
        "reference": given.pop("expected_output", None),
        "gold": [{"text": text} for text in dict.fromkeys(gold)],
        "metadata": _object(given.pop("additional_metadata", None), "additional_metadata", check),
        "answer_given": given.pop("actual_output", None),
        "retrieved": [{"text": text} for text in retrieved],
    }
    return {**given, **{name: value for name, value in fields.items() if value not in (None, [], {})}}


def _texts(value: Any, name: str, check: Check, separator: str) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(separator) if part.strip()]
    return check.texts(value, name)


def _object(value: Any, name: str, check: Check) -> dict[str, Any]:
    return check.object(parse_list_cell(value, check.place) if isinstance(value, str) else value, name)
