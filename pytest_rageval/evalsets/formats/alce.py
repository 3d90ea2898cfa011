"""ALCE: the data sets ASQA, QAMPARI and ELI5 with retrieved passages, and prompt files with four examples each."""

from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.files import json_elements, json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Check, Records, check_records

__all__ = ["read"]

IDS: Final = ("id", "sample_id", "qid")


def _is_prompt(shape: Shape) -> bool:
    return shape.mentions("demos", "demo_prompt", "doc_prompt")


def read(path: Path) -> Records:
    """Yield records with the long answer as `reference`, and the short answers with their aliases as `answer_set`.

    The short answers are QAMPARI's `answers`, or the `short_answers` of ASQA's `qa_pairs`. The id is `id`, `sample_id`
    or `qid`; if a record has none of these keys, it is the record's number. The passages were retrieved by a system,
    so they are not gold; they are kept under `extra["passages"]`.
    """
    records = json_elements(path, "demos") if _is_prompt(Shape(path)) else json_records(path)
    for number, (check, record) in enumerate(check_records(records, "question"), 1):
        ids = [record.pop(key) for key in IDS if record.get(key) is not None]
        passages = check.objects(record.pop("docs", None), "docs")
        reference = record.pop("answer", None)
        record |= {
            "id": ids[0] if ids else number,
            "answer_set": _answer_set(record, check),
            "answers": [],
            "reference": reference if reference != "" else None,
            PASSAGES_KEY: passages,
        }
        yield check.place, record


def _answer_set(record: dict[str, Any], check: Check) -> list[list[str]]:
    asqa = [
        check.texts(pair.get("short_answers"), "qa_pairs", i, "short_answers")
        for i, pair in enumerate(check.objects(record.get("qa_pairs"), "qa_pairs"))
    ]
    qampari = [
        check.texts(aliases, "answers", i)
        for i, aliases in enumerate(check.array(record.get("answers"), "answers"))
    ]
    return [list(dict.fromkeys(aliases)) for aliases in (*asqa, *qampari) if aliases]
