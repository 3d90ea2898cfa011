"""NQ-open as Google publishes it, and with contexts, as in the files of "Lost in the Middle"."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]


def recognises(shape: Shape) -> bool:
    """By its keys; with an id it is a record of the native form that has contexts besides."""
    if shape.has("question", "answers", "ctxs"):
        return not shape.has("id")
    # Google's has just these two; with any other key a field map may say more.
    return shape.record.keys() == {"question", "answer"} and isinstance(shape.record["answer"], list)


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records numbered from 1; where they have contexts, those marked `isgold` are gold, and all are the pool.

    A gold context is known by its text, and by its id where it has one. The pool is
    `extra["passages"]`, see `pools`.

    Raises:
        InputError: the file cannot be read, or a record has another form.
    """
    for number, (place, value) in enumerate(json_records(path), 1):
        check = Check(place)
        if "ctxs" not in check.record(value):
            record = dict(check.record(value, "question", "answer"))
            answers = check.texts(record.pop("answer"), "answer")
            yield place, {"id": number, **record, "answers": list(dict.fromkeys(answers))}
            continue
        record = dict(check.record(value, "question"))
        contexts = [
            check.object(item, "ctxs", i) for i, item in enumerate(check.array(record.pop("ctxs"), "ctxs"))
        ]
        gold = [
            {"id": context.get("id"), "text": check.text(context.get("text"), "ctxs", i, "text")}
            for i, context in enumerate(contexts)
            if context.get("isgold") is True
        ]
        yield place, {"id": number, **record, "gold": gold, PASSAGES: contexts}
