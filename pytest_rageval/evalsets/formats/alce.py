"""ALCE: ASQA, QAMPARI and ELI5 with retrieved passages; and its prompts, which are four examples each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.files import json_elements, json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]

IDS: Final = ("id", "sample_id", "qid")


def recognises(shape: Shape) -> bool:
    """By its keys: those of the data, or those around the examples of a prompt."""
    return _is_prompt(shape) or (
        shape.has("question", "docs")
        and any(shape.has(key) for key in ("answer", "answers", "qa_pairs", "claims"))
    )


def _is_prompt(shape: Shape) -> bool:
    return shape.mentions("demos", "demo_prompt", "doc_prompt")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records with the long answer as reference, and the wanted short answers as `answer_set`.

    These are QAMPARI's `answers`, or the `short_answers` of ASQA's `qa_pairs`; each with its aliases.
    The id is `id`, `sample_id` or `qid`, else the record's number. The passages were retrieved by
    some system, so none is gold; they are `extra["passages"]`, see `pools`.

    Raises:
        InputError: the file cannot be read, or a record has another form.
    """
    records = json_elements(path, "demos") if _is_prompt(Shape(path)) else json_records(path)
    for number, (place, value) in enumerate(records, 1):
        check = Check(place)
        record = dict(check.record(value, "question"))
        found = [record.pop(key) for key in IDS if record.get(key) is not None]
        pool = check.array(record.pop("docs", None), "docs")
        reference = record.pop("answer", None)
        yield (
            place,
            {
                **record,
                "id": found[0] if found else number,
                "answers": [],
                "answer_set": _answer_set(record, check),
                "reference": reference if reference != "" else None,
                PASSAGES: [check.object(item, "docs", i) for i, item in enumerate(pool)],
            },
        )


def _answer_set(record: dict[str, Any], check: Check) -> list[list[str]]:
    pairs = check.array(record.get("qa_pairs"), "qa_pairs")
    of_asqa = [
        check.texts(check.object(pair, "qa_pairs", i).get("short_answers"), "qa_pairs", i, "short_answers")
        for i, pair in enumerate(pairs)
    ]
    of_qampari = [
        check.texts(aliases, "answers", i)
        for i, aliases in enumerate(check.array(record.get("answers"), "answers"))
    ]
    return [list(dict.fromkeys(aliases)) for aliases in (*of_asqa, *of_qampari) if aliases]
