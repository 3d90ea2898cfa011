"""RetrievalQA: short questions on new and rare facts, with passages that a search engine found."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["read"]


def read(path: Path) -> Records:
    """Yield records with `ground_truth` as the answers; the tag `source` is the data set that a question is from.

    The contexts were retrieved by a system, so they are not gold; they are kept under `extra["passages"]`.
    """
    for check, record in check_records(json_records(path), "question_id", "question", "ground_truth"):
        answers = check.texts(record.pop("ground_truth"), "ground_truth")
        source = record.pop("data_source", None)
        contexts = check.objects(record.pop("context", None), "context")
        record |= {
            "id": check.name(record.pop("question_id"), "question_id"),
            "answers": list(dict.fromkeys(answers)),
            "tags": {} if source is None else {"source": check.text(source, "data_source")},
            PASSAGES_KEY: contexts,
        }
        yield check.place, record
