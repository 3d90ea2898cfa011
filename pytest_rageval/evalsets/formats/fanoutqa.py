"""FanOutQA: questions whose answer takes many Wikipedia pages, with their decompositions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Check, Records, checked

__all__ = ["read"]

NAMES: Final = ("pageid", "title", "url")


def read(path: Path, *, gold: str = "pageid") -> Records:
    """Records with each page of evidence as a gold passage, by id; all are needed (`full_recall`).

    Of an answer that is a list or an object, each item is wanted ("Tokyo: 37" of an object). The test set has no
    answers.

    Args:
        path: of the file.
        gold: what a page's id is in the corpus: its "pageid", "title" or "url".
    """
    if gold not in NAMES:
        raise InputError(f"gold={gold!r} is none of {', '.join(NAMES)}, by which a page can be named.")
    for check, record in checked(json_records(path), "id", "question"):
        evidence = record.get("necessary_evidence") or list(_evidence(record, check))
        pages = [
            check.name(page.get(gold), "necessary_evidence", i, gold)
            for i, page in enumerate(check.objects(evidence, "necessary_evidence"))
        ]
        categories = check.texts(record.pop("categories", None), "categories")
        answers = _answers(record.pop("answer", None))
        yield (
            check.place,
            {
                **record,
                **answers,
                "gold": [{"id": page} for page in dict.fromkeys(pages)],
                "tags": {"categories": list(categories)} if categories else {},
            },
        )


def _evidence(question: dict[str, Any], check: Check) -> Iterator[Any]:
    """The pages of a question's parts, in their order."""
    for part in check.objects(question.get("decomposition"), "decomposition"):
        if part.get("evidence"):
            yield part["evidence"]
        yield from _evidence(part, check)


def _answers(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return {"answer_set": [[f"{name}: {_text(value)}"] for name, value in sorted(answer.items())]}
    if isinstance(answer, list):
        return {"answer_set": [[_text(value)] for value in answer]}
    return {"answers": [] if answer in (None, "") else [_text(answer)]}


def _text(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
