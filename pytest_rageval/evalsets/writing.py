"""Eval sets as files in the native form."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import KNOWN
from pytest_rageval.file_writing import write_whole
from pytest_rageval.model import EvalSet, Example, Gold

__all__ = ["record_of", "write_jsonl"]


def write_jsonl(evalset: EvalSet, path: Path) -> None:
    """Write an eval set as JSON lines in UTF-8; what is read back has the same digest.

    A file that is there is replaced once the whole is written.

    Raises:
        InputError: the file cannot be written, or an example cannot be told from another record.
    """
    try:
        write_whole(path, (_line(record_of(example)) for example in evalset))
    except OSError as error:
        message = f"The eval set {path} cannot be written: {error.strerror or error}."
        raise InputError(message) from error


def record_of(example: Example) -> dict[str, Any]:
    """The example as a record of the native form, without what is empty.

    Raises:
        InputError: a key of `extra` is one of the form's own, and would be read as that.
    """
    clash = sorted(set(example.extra) & set(KNOWN))
    if clash:
        message = (
            f"The example {example.id!r} has {', '.join(clash)} under extra.\n"
            "These are fields of an example: take them out, or call them something else."
        )
        raise InputError(message)
    record = {
        "id": example.id,
        "question": example.question,
        "answers": list(example.answers),
        "answer_set": [list(aliases) for aliases in example.answer_set],
        "gold": [_gold(gold) for gold in example.gold],
        "reference": example.reference,
        "tags": dict(example.tags),
    }
    empty: tuple[object, ...] = (None, [], {})
    return {key: value for key, value in record.items() if value not in empty} | dict(example.extra)


def _gold(gold: Gold) -> dict[str, Any]:
    fields = {name: value for name, value in asdict(gold).items() if value is not None}
    return fields if gold.grade != 1 else {name: value for name, value in fields.items() if name != "grade"}


def _line(record: dict[str, Any]) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        # Half of a surrogate pair is legal in JSON, where it is escaped, and in no UTF-8.
        return json.dumps(record, allow_nan=False).encode() + b"\n"
