"""QAMPARI as its authors publish it: questions with many answers, each with its proof."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]


def recognises(shape: Shape) -> bool:
    """By its keys."""
    return shape.has("qid", "question_text", "answer_list")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records with every answer and its aliases as `answer_set`, and the proofs' texts as gold.

    Raises:
        InputError: the file cannot be read, or a record has another form.
    """
    for place, value in json_records(path):
        check = Check(place)
        record = dict(check.record(value, "qid", "question_text", "answer_list"))
        answers = [
            check.object(item, "answer_list", i)
            for i, item in enumerate(check.array(record.pop("answer_list"), "answer_list"))
        ]
        proofs = [
            check.object(item, "answer_list", i, "proof", j).get("proof_text")
            for i, answer in enumerate(answers)
            for j, item in enumerate(check.array(answer.get("proof"), "answer_list", i, "proof"))
        ]
        texts = [check.text(text, "proof", i, "proof_text") for i, text in enumerate(proofs) if text]
        identifier = check.name(record.pop("qid"), "qid")
        question = check.text(record.pop("question_text"), "question_text")
        yield (
            place,
            {
                **record,
                "id": identifier,
                "question": question,
                "answer_set": [_aliases(answer, i, check) for i, answer in enumerate(answers)],
                "gold": [{"text": text} for text in dict.fromkeys(texts)],
            },
        )


def _aliases(answer: dict[str, Any], i: int, check: Check) -> list[str]:
    name = check.text(answer.get("answer_text"), "answer_list", i, "answer_text")
    aliases = check.texts(answer.get("aliases"), "answer_list", i, "aliases")
    return list(dict.fromkeys((name, *aliases)))
