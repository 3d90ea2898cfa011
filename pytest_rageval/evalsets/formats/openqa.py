"""OpenQA-eval: questions, reference answers, and the answers of a system."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["read"]


def read(path: Path) -> Records:
    """Yield records; the default id is the record's number, from 1. The system's answer is `extra["prediction"]`."""
    for number, (check, record) in enumerate(check_records(json_records(path), "question", "answer"), 1):
        answers = check.texts(record.pop("answer"), "answer")
        yield check.place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
