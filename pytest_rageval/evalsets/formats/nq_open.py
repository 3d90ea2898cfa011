"""NQ-open, in Google's form, and with contexts, as in the files of "Lost in the Middle"."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["read"]


def read(path: Path) -> Records:
    """Yield records with the contexts that are marked `isgold` as gold passages.

    The default id of a record is its number, from 1. A gold passage has the text of the context and, if it has one, its
    id. All contexts are kept under `extra["passages"]`. Answers of EfficientQA's test set that people rated (such as
    `def_correct_predictions`) are kept under `extra`, and are not reference answers.
    """
    for number, (check, record) in enumerate(check_records(json_records(path)), 1):
        if "ctxs" not in record:
            check.record(record, "question", "answer")
            answers = check.texts(record.pop("answer"), "answer")
            yield check.place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
            continue
        check.record(record, "question")
        contexts = check.objects(record.pop("ctxs"), "ctxs")
        gold = [
            {"id": context.get("id"), "text": check.text(context.get("text"), "ctxs", i, "text")}
            for i, context in enumerate(contexts)
            if context.get("isgold") is True
        ]
        yield check.place, {"id": number, **record, "gold": gold, PASSAGES_KEY: contexts}
