"""MS MARCO v1.1: questions, each with its own passages; as JSON lines or as a table.

The files of MS MARCO's own evaluation: answers by query id, without the questions.
"""

from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.table import rows_or_records
from pytest_rageval.evalsets.formats.trec import read_questions
from pytest_rageval.evalsets.records import Check, Records, check_records

NO_ANSWER: Final = "No Answer Present."  # MS MARCO's placeholder for a query whose passages contain no answer


def read_ms_marco_answers(path: Path, *, topics: str | None = None) -> Records:
    """Yield records with answers; a query whose question is not among the topics is left out.

    Args:
        path: path of a JSON lines file.
        topics: path of the file of questions, relative to the folder of `path`. Its lines are id, tab, question, as in
            MS MARCO's `queries.dev.tsv`. "ids": the id is used as the question, which only a recorded run can answer.
    """
    if topics is None:
        raise InputError(
            f"{path.name} contains answers and no questions.\n"
            'Say where these are, topics="queries.tsv" (id, tab, question); or topics="ids": each question is its id.'
        )
    questions = read_questions(path, topics)
    for check, record in check_records(json_records(path), "query_id", "answers"):
        identifier = check.name(record.pop("query_id"), "query_id")
        question = identifier if questions is None else questions.get(identifier)
        if question is not None:
            answers = real_answers(check, record.pop("answers"))
            yield check.place, {**record, "id": identifier, "question": question, "answers": answers}


def real_answers(check: Check, value: Any) -> list[str]:
    """Return the distinct answers, without empty ones and without the placeholder `NO_ANSWER`."""
    answers = [
        check.text(answer, "answers", i)
        for i, answer in enumerate(check.array(value, "answers"))
        if answer != ""
    ]
    return [answer for answer in dict.fromkeys(answers) if answer != NO_ANSWER]


LISTS: Final = ("passages", "answers")  # columns of a table
PASSAGES_KEY: Final = "passages"  # the key under `extra` for the passages that come with a question


def read_ms_marco(path: Path) -> Records:
    """Yield records with the selected passages as gold passages, and all passages under `extra["passages"]`.

    The id of a passage is the id of its query and its position, from 0: "9652-0". The query's type is a tag.
    """
    for check, record in check_records(rows_or_records(path, LISTS), "query_id", "query", "passages"):
        identifier = check.name(record.pop("query_id"), "query_id")
        passages, gold = [], []
        for i, passage in enumerate(check.objects(record.pop("passages"), "passages")):
            text = check.text(passage.pop("passage_text", None), "passages", i, "passage_text")
            identified = {"id": f"{identifier}-{i}", "text": text}
            passages.append(identified | passage)
            if check.natural(passage.get("is_selected", 0), "passages", i, "is_selected"):
                gold.append(identified)
        kind = record.pop("query_type", None)
        record |= {
            "id": identifier,
            "question": check.text(record.pop("query"), "query"),
            "answers": real_answers(check, record.pop("answers", None)),
            "gold": gold,
            "tags": {} if kind is None else {"query_type": kind},
            PASSAGES_KEY: passages,
        }
        yield check.place, record
