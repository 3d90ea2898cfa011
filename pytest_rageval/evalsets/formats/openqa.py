"""OpenQA-eval: questions, their answers, and what some system answered."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]


def recognises(shape: Shape) -> bool:
    """By its keys; with an id it is of the native form, with a field map."""
    return shape.has("question", "answer", "prediction") and not shape.has("id")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records numbered from 1; the system's answer stays under `extra["prediction"]`.

    Raises:
        InputError: the file cannot be read, or a record has another form.
    """
    for number, (place, value) in enumerate(json_records(path), 1):
        check = Check(place)
        record = dict(check.record(value, "question", "answer"))
        answers = check.texts(record.pop("answer"), "answer")
        yield place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
