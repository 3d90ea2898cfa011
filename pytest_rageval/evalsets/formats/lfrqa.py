"""LFRQA, of RAG-QA Arena: questions with long answers, and the documents that they cite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]


def recognises(shape: Shape) -> bool:
    """By its keys."""
    return shape.has("qid", "question", "answer", "gold_doc_ids")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records with the long answer as reference and the cited documents as gold, by id.

    The tag `domain` is the beginning of the id: "writing" of "writing-search-test-510".

    Raises:
        InputError: the file cannot be read, or a record has another form.
    """
    for place, value in json_records(path):
        check = Check(place)
        record = dict(check.record(value, "qid", "question", "answer"))
        identifier = check.name(record.pop("qid"), "qid")
        answer = check.text(record.pop("answer"), "answer")
        documents = [
            check.name(document, "gold_doc_ids", i)
            for i, document in enumerate(check.array(record.pop("gold_doc_ids", None), "gold_doc_ids"))
        ]
        yield (
            place,
            {
                **record,
                "id": identifier,
                "reference": answer,
                "gold": [{"id": document} for document in dict.fromkeys(documents)],
                "tags": {"domain": identifier.partition("-")[0]},
            },
        )
