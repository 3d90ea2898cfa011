"""FanOutQA: questions whose answer takes many Wikipedia pages, with their decompositions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Check, Records, checked

__all__ = ["read"]

NAMES: Final = ("pageid", "title", "url")
EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def read(path: Path, *, gold: str = "pageid") -> Records:
    """Records with each page of evidence as a gold passage, by id; all are needed (`full_recall`).

    Of an answer that is a list or an object, each value is wanted, with its keys ("Tokyo: 37"); also of lists and
    objects within. The test set has no answers.

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
    if isinstance(answer, dict | list):
        return {"answer_set": [[text] for text in _items(answer)]}
    return {"answers": [] if answer in (None, "") else [_text(answer)]}


def _items(answer: Any) -> Iterator[str]:
    """The texts of the values in an answer, each after its keys: "Tokyo: 37"."""
    if isinstance(answer, dict):
        for name, value in sorted(answer.items()):
            # A key without a value is an item of its own.
            yield from (f"{name}: {item}" for item in _items(value)) if value not in EMPTY else (name,)
    elif isinstance(answer, list):
        for value in answer:
            yield from _items(value)
    elif answer not in EMPTY:
        yield _text(answer)


def _text(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
