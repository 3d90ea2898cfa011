"""HotpotQA, as its authors and as Hugging Face publish it, and 2WikiMultihopQA: questions over several paragraphs."""

from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES
from pytest_rageval.evalsets.records import Check, Records, checked

__all__ = ["read"]


def read(path: Path) -> Records:
    """Records with each paragraph that holds a supporting fact as a gold passage, by its text.

    All of them are needed (`full_recall`). In the full-wiki setting a paragraph may be missing from the context; it is
    then gold by its title, as an id. The paragraphs of the context are kept under `extra["passages"]`.
    """
    for check, record in checked(json_records(path), "question", "supporting_facts", "context"):
        identifier = record.pop("_id", record.get("id"))
        paragraphs = _paragraphs(record.pop("context"), check)
        facts = record["supporting_facts"]
        titles = facts.get("title") if isinstance(facts, dict) else _titles(facts, check)
        texts = dict(paragraphs)
        answer = record.pop("answer", None)
        named = dict.fromkeys(check.texts(titles, "supporting_facts"))
        yield (
            check.place,
            {
                **record,
                "id": identifier,
                "answers": [] if answer in (None, "") else [check.text(answer, "answer")],
                "gold": [{"text": texts[title]} if title in texts else {"id": title} for title in named],
                "tags": {name: record[name] for name in ("type", "level") if record.get(name)},
                PASSAGES: [{"title": title, "text": text} for title, text in paragraphs],
            },
        )


def _titles(facts: Any, check: Check) -> list[Any]:
    return [_pair(fact, check, "supporting_facts")[0] for fact in check.array(facts, "supporting_facts")]


def _paragraphs(context: Any, check: Check) -> list[tuple[str, str]]:
    """Titles and texts, in their order; of paragraphs with one title the first, and none without text."""
    if isinstance(context, dict):
        columns = [check.array(context.get(name), "context", name) for name in ("title", "sentences")]
        pairs = list(zip(*columns, strict=False))
    else:
        pairs = [_pair(pair, check, "context") for pair in check.array(context, "context")]
    found: dict[str, str] = {}
    for title, sentences in pairs:
        text = " ".join(
            sentence.strip() for sentence in check.array(sentences, "context") if isinstance(sentence, str)
        )
        if text:
            found.setdefault(check.text(title, "context"), text)
    return list(found.items())


def _pair(value: Any, check: Check, name: str) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:  # noqa: PLR2004 - a pair
        check.fail(
            f'"{name}" holds {value!r:.40}, expected [title, …]', "Give pairs, as in the published files."
        )
    return value[0], value[1]
