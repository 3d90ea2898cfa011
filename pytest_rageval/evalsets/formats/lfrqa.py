"""LFRQA, of RAG-QA Arena: questions with long answers, and the documents that the answers cite."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["read"]


def read(path: Path) -> Records:
    """Yield records with the long answer as `reference` and the cited documents as gold passages, by id.

    The tag `domain` is the first part of the id: "writing" of "writing-search-test-510".
    """
    for check, record in check_records(json_records(path), "qid", "question", "answer"):
        identifier = check.name(record.pop("qid"), "qid")
        cited = check.array(record.pop("gold_doc_ids", None), "gold_doc_ids")
        documents = [check.name(document, "gold_doc_ids", i) for i, document in enumerate(cited)]
        record |= {
            "id": identifier,
            "reference": check.text(record.pop("answer"), "answer"),
            "gold": [{"id": document} for document in dict.fromkeys(documents)],
            "tags": {"domain": identifier.partition("-")[0]},
        }
        yield check.place, record
