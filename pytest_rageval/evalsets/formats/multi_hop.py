"""HotpotQA, in its authors' form and in that of Hugging Face, and 2WikiMultihopQA: multi-hop questions."""

from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Check, Records, check_records

__all__ = ["read"]


def read(path: Path) -> Records:
    """Yield records with each paragraph that contains a supporting fact as a gold passage, by its text.

    All of these paragraphs are needed (`full_recall`). In the full-wiki setting a paragraph may be missing from the
    context; the gold passage then has the paragraph's title as its id. The paragraphs of the context are kept under
    `extra["passages"]`.
    """
    for check, record in check_records(json_records(path), "question", "supporting_facts", "context"):
        identifier = record.pop("_id", record.get("id"))
        paragraphs = _paragraphs(record.pop("context"), check)
        facts = record["supporting_facts"]
        titles = facts.get("title") if isinstance(facts, dict) else _titles(facts, check)
        texts = dict(paragraphs)
        answer = record.pop("answer", None)
        gold_titles = dict.fromkeys(check.texts(titles, "supporting_facts"))
        yield (
            check.place,
            {
                **record,
                "id": identifier,
                "answers": [] if answer in (None, "") else [check.text(answer, "answer")],
                "gold": [
                    {"text": texts[title]} if title in texts else {"id": title} for title in gold_titles
                ],
                "tags": {name: record[name] for name in ("type", "level") if record.get(name)},
                PASSAGES_KEY: [{"title": title, "text": text} for title, text in paragraphs],
            },
        )


def _titles(facts: Any, check: Check) -> list[Any]:
    return [_pair(fact, check, "supporting_facts")[0] for fact in check.array(facts, "supporting_facts")]


def _paragraphs(context: Any, check: Check) -> list[tuple[str, str]]:
    """Return title and text of each paragraph, without empty ones; of paragraphs with the same title only the first."""
    if isinstance(context, dict):
        columns = [check.array(context.get(name), "context", name) for name in ("title", "sentences")]
        pairs = list(zip(*columns, strict=False))
    else:
        pairs = [_pair(pair, check, "context") for pair in check.array(context, "context")]
    texts: dict[str, str] = {}
    for title, sentences in pairs:
        text = " ".join(
            sentence.strip() for sentence in check.array(sentences, "context") if isinstance(sentence, str)
        )
        if text:
            texts.setdefault(check.text(title, "context"), text)
    return list(texts.items())


def _pair(value: Any, check: Check, name: str) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple) or len(value) != 2:  # noqa: PLR2004 - a pair
        check.fail(
            f'"{name}" holds {value!r:.40}, expected [title, …]', "Give pairs, as in the published files."
        )
    return value[0], value[1]
