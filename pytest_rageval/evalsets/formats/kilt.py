"""KILT: questions, statements and dialogues with the Wikipedia pages that support their answers."""

from pathlib import Path

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records, checked

__all__ = ["read"]


def read(path: Path) -> Records:
    """Records with each page of the provenance as a gold passage, by its Wikipedia id.

    As in KILT's own metrics, a page counts once, however many of its paragraphs are cited. Paragraphs and
    characters stay under `extra["provenance"]`, since they count within KILT's own snapshot.
    """
    for check, record in checked(json_records(path), "id", "input"):
        outputs = check.objects(record.pop("output", None), "output")
        answers = [
            check.text(output["answer"], "output", i, "answer")
            for i, output in enumerate(outputs)
            if output.get("answer") not in (None, "")
        ]
        provenance = [
            source
            for i, output in enumerate(outputs)
            for source in check.objects(output.get("provenance"), "output", i, "provenance")
        ]
        pages = [
            check.name(source["wikipedia_id"], "provenance", i, "wikipedia_id")
            for i, source in enumerate(provenance)
            if source.get("wikipedia_id") is not None
        ]
        record |= {
            "question": check.text(record.pop("input"), "input"),
            "answers": list(dict.fromkeys(answers)),
            "gold": [{"id": page} for page in dict.fromkeys(pages)],
        }
        if provenance:
            record["provenance"] = provenance
        yield check.place, record
