"""KILT: questions, statements and dialogues with the Wikipedia pages that support their answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]


def recognises(shape: Shape) -> bool:
    """By its keys."""
    return shape.has("id", "input", "output")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records with each page of the provenance as a gold passage, by its Wikipedia id.

    KILT counts a page once, however many of its paragraphs are cited; so it is here. The paragraphs
    and characters stay under `extra["provenance"]`, since they count within KILT's own snapshot.

    Raises:
        InputError: the file cannot be read, or a record is none of KILT's.
    """
    for place, value in json_records(path):
        check = Check(place)
        record = dict(check.record(value, "id", "input"))
        outputs = [
            check.object(item, "output", i)
            for i, item in enumerate(check.array(record.pop("output", None), "output"))
        ]
        answers = [
            check.text(output["answer"], "output", i, "answer")
            for i, output in enumerate(outputs)
            if output.get("answer") not in (None, "")
        ]
        provenance = [
            check.object(item, "output", i, "provenance", j)
            for i, output in enumerate(outputs)
            for j, item in enumerate(check.array(output.get("provenance"), "output", i, "provenance"))
        ]
        pages = [
            check.name(page["wikipedia_id"], "provenance", i, "wikipedia_id")
            for i, page in enumerate(provenance)
            if page.get("wikipedia_id") is not None
        ]
        question = check.text(record.pop("input"), "input")
        yield (
            place,
            {
                **record,
                "question": question,
                "answers": list(dict.fromkeys(answers)),
                "gold": [{"id": page} for page in dict.fromkeys(pages)],
                **({"provenance": provenance} if provenance else {}),
            },
        )
