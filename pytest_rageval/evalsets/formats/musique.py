"""MuSiQue: multi-hop questions of two to four hops, each with twenty paragraphs."""

import re
from pathlib import Path
from typing import Final

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Records, check_records

__all__ = ["read"]

HOPS: Final = re.compile(r"(\d)hop")


def read(path: Path) -> Records:
    """Yield records with the supporting paragraphs as gold passages, by their texts; all are needed (`full_recall`).

    A question that its paragraphs do not answer, as in MuSiQue-Full, has no answers and no gold passages, and
    " (unanswerable)" is appended to its id. The tags are the number of `hops`, and `answerable`. The paragraphs are
    kept under `extra["passages"]`.
    """
    for check, record in check_records(json_records(path), "id", "question", "paragraphs"):
        paragraphs = check.objects(record.pop("paragraphs"), "paragraphs")
        texts = [
            check.text(paragraph.get("paragraph_text"), "paragraphs", i)
            for i, paragraph in enumerate(paragraphs)
        ]
        identifier, answerable = check.name(record.pop("id"), "id"), record.get("answerable") is not False
        answer, aliases = (
            record.pop("answer", None),
            check.texts(record.get("answer_aliases"), "answer_aliases"),
        )
        known = answerable and answer not in (None, "")
        gold = [
            text
            for text, paragraph in zip(texts, paragraphs, strict=True)
            if answerable and paragraph.get("is_supporting")
        ]
        hops = HOPS.match(identifier)
        yield (
            check.place,
            {
                **record,
                "id": identifier if answerable else f"{identifier} (unanswerable)",
                "answers": list(dict.fromkeys((check.text(answer, "answer"), *aliases))) if known else [],
                "gold": [{"text": text} for text in dict.fromkeys(gold)],
                "tags": {**({} if hops is None else {"hops": int(hops[1])}), "answerable": answerable},
                PASSAGES_KEY: [
                    {**paragraph, "text": text} for paragraph, text in zip(paragraphs, texts, strict=True)
                ],
            },
        )
