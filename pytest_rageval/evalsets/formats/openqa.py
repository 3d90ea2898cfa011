"""OpenQA-eval: questions, their answers, and the answers of a system."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records, checked

__all__ = ["read"]


def read(path: Path) -> Records:
    """Records numbered from 1; the system's answer stays under `extra["prediction"]`."""
    for number, (check, record) in enumerate(checked(json_records(path), "question", "answer"), 1):
        answers = check.texts(record.pop("answer"), "answer")
        yield check.place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
