"""FanOutQA: questions whose answer requires many Wikipedia pages, with a decomposition into sub-questions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Check, Records, check_records

__all__ = ["read"]

PAGE_KEYS: Final = ("pageid", "title", "url")
EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def read(path: Path, *, gold: str = "pageid") -> Records:
    """Yield records with each page of evidence as a gold passage, by id. All pages are needed (`full_recall`).

    If the answer is a list or an object, each value in it is an item of `answer_set`, prefixed with its keys
    ("Tokyo: 37"); nested lists and objects are flattened. Records of the test set have no answers.

    Args:
        path: path of the file.
        gold: the key whose value is the id of a page in the corpus: "pageid", "title" or "url".
    """
    if gold not in PAGE_KEYS:
        raise InputError(f"gold={gold!r} is none of {', '.join(PAGE_KEYS)}, by which a page can be named.")
    for check, record in check_records(json_records(path), "id", "question"):
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
    """Yield the pages of a question's sub-questions, depth first."""
    for part in check.objects(question.get("decomposition"), "decomposition"):
        if part.get("evidence"):
            yield part["evidence"]
        yield from _evidence(part, check)


def _answers(answer: Any) -> dict[str, Any]:
    if isinstance(answer, dict | list):
        return {"answer_set": [[text] for text in _items(answer)]}
    return {"answers": [] if answer in (None, "") else [_text(answer)]}


def _items(answer: Any) -> Iterator[str]:
    """Yield the text of each value in a nested answer, prefixed with its keys: "Tokyo: 37"."""
    if isinstance(answer, dict):
        for name, value in sorted(answer.items()):
            # A key whose value is empty is itself an item.
            yield from (f"{name}: {item}" for item in _items(value)) if value not in EMPTY else (name,)
    elif isinstance(answer, list):
        for value in answer:
            yield from _items(value)
    elif answer not in EMPTY:
        yield _text(answer)


def _text(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
