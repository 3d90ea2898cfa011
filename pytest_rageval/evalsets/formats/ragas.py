"""Ragas: test sets and evaluation data sets as `to_jsonl` and `to_csv` write them, and those before 0.2."""

import re
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.table import rows_or_records
from pytest_rageval.evalsets.records import Check, Records, check_records

HOP: Final = re.compile(r"\s*<\d+-hop>\s*")
"""What the synthesizers of multi-hop questions write before the text of a passage."""

TAGS: Final = ("synthesizer_name", "persona_name", "query_style", "query_length", "evolution_type")
LISTS: Final = (
    *("user_input", "contexts", "reference_contexts", "retrieved_contexts"),
    *("reference_context_ids", "retrieved_context_ids", "ground_truths"),
)
"""The columns of lists in a table."""

ROLES: Final = {"human": "user", "ai": "assistant"}


def read(path: Path) -> Records:
    """Yield records with the reference contexts as gold passages, by text, by id, or by both.

    `reference` (`ground_truth`, or the first of `ground_truths`, before 0.2) is the `reference`. What the application
    retrieved and answered is not gold: it is kept under `extra` as `retrieved` and `answer_given`. How a question was
    made (`synthesizer_name`, …) are tags. The messages of a conversation before its last question are the history. The
    id is the record's number, from 1.
    """
    # In a table, a record has no key for an empty cell.
    has_answers = "answer" in Shape(path).names
    for number, (check, record) in enumerate(check_records(rows_or_records(path, LISTS)), 1):
        given = {name: value for name, value in record.items() if value not in (None, "", [], {})}
        question, history = _question(given, check)
        passages = given.pop("contexts", None)
        # Before 0.2 the contexts of a test set were those that its questions were made of.
        made_of = "contexts" in record and not (has_answers or "answer" in record)
        texts = check.texts(
            passages if made_of else given.pop("reference_contexts", None), "reference_contexts"
        )
        retrieved = check.texts(
            given.pop("retrieved_contexts", None if made_of else passages), "retrieved_contexts"
        )
        truths = check.texts(given.pop("ground_truths", None), "ground_truths")
        fields: dict[str, Any] = {
            "id": number,
            "question": question,
            "history": history,
            "gold": _passages([HOP.sub("", text, count=1) for text in texts], given, "reference", check),
            "reference": given.pop("reference", given.pop("ground_truth", next(iter(truths), None))),
            "tags": {name: given.pop(name) for name in TAGS if name in given},
            "retrieved": _passages(list(retrieved), given, "retrieved", check),
            "answer_given": given.pop("response", given.pop("answer", None)),
        }
        yield (
            check.place,
            {**given, **{name: value for name, value in fields.items() if value not in (None, [], {})}},
        )


def _question(given: dict[str, Any], check: Check) -> tuple[str, list[dict[str, str]]]:
    """Return the question, and the messages of user and assistant before it; both are taken out of the record."""
    asked = given.pop("user_input", given.pop("question", None))
    if not isinstance(asked, list):
        return check.text(asked, "user_input"), []
    messages = [
        {
            "role": ROLES[message["type"]],
            "content": check.text(message.get("content"), "user_input", i, "content"),
        }
        for i, message in enumerate(check.objects(asked, "user_input"))
        if message.get("type") in ROLES and message.get("content")
    ]
    last = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=None)
    if last is None:
        check.fail('"user_input" has no message of a user', 'Ragas writes its "type" as "human".')
    return messages[last]["content"], messages[:last]


def _passages(texts: list[str], given: dict[str, Any], kind: str, check: Check) -> list[dict[str, Any]]:
    """Return passages by text and id; if their numbers differ, which id is whose is unknown, and the ids count."""
    name = f"{kind}_context_ids"
    ids = [check.name(item, name, i) for i, item in enumerate(check.array(given.pop(name, None), name))]
    if ids and len(ids) == len(texts):
        return [{"id": each, "text": text} for each, text in zip(ids, texts, strict=True)]
    return [{"id": each} for each in dict.fromkeys(ids)] or [{"text": text} for text in dict.fromkeys(texts)]
