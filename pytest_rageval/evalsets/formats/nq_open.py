"""NQ-open as Google publishes it, and with contexts, as in the files of "Lost in the Middle"."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES
from pytest_rageval.evalsets.records import Records, checked

__all__ = ["read"]


def read(path: Path) -> Records:
    """Records numbered from 1; contexts marked `isgold` are gold, by text and, if there is one, id.

    All contexts are kept under `extra["passages"]`. Answers of EfficientQA's test set that people rated (such as
    `def_correct_predictions`) are kept, and are no references.
    """
    for number, (check, record) in enumerate(checked(json_records(path)), 1):
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
        yield check.place, {"id": number, **record, "gold": gold, PASSAGES: contexts}
