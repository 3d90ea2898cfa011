"""The files of MS MARCO's own evaluation: answers by query id, without the questions."""

from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.trec import questions_of
from pytest_rageval.evalsets.records import Check, Records, checked

__all__ = ["read", "real_answers"]

NO_ANSWER: Final = "No Answer Present."  # stands in place of an answer if the passages have none


def read(path: Path, *, topics: str | None = None) -> Records:
    """Records with answers; a query whose question is not among the topics is left out.

    Args:
        path: of JSON lines.
        topics: a file of id, tab, question, as MS MARCO's own `queries.dev.tsv`, relative to the file's
            folder; "ids": each question is its id, which no search engine understands.
    """
    if topics is None:
        raise InputError(
            f"{path.name} contains answers and no questions.\n"
            'Say where these are, topics="queries.tsv" (id, tab, question); or topics="ids": each question is its id.'
        )
    questions = questions_of(path, topics)
    for check, record in checked(json_records(path), "query_id", "answers"):
        identifier = check.name(record.pop("query_id"), "query_id")
        question = identifier if questions is None else questions.get(identifier)
        if question is not None:
            answers = real_answers(check, record.pop("answers"))
            yield check.place, {**record, "id": identifier, "question": question, "answers": answers}


def real_answers(check: Check, value: Any) -> list[str]:
    """Return the distinct answers, without blank ones and the sentence that says that there is none."""
    answers = [
        check.text(answer, "answers", i)
        for i, answer in enumerate(check.array(value, "answers"))
        if answer != ""
    ]
    return [answer for answer in dict.fromkeys(answers) if answer != NO_ANSWER]
