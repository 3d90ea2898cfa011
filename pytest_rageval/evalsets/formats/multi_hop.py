"""HotpotQA, in its authors' form and in that of Hugging Face, and 2WikiMultihopQA: multi-hop questions.

MuSiQue: multi-hop questions of two to four hops, each with twenty paragraphs.

FanOutQA: questions whose answer requires many Wikipedia pages, with a decomposition into sub-questions.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.formats.ms_marco import PASSAGES_KEY
from pytest_rageval.evalsets.records import Check, Records, check_records


def read_hotpotqa(path: Path) -> Records:
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


HOPS: Final = re.compile(r"(\d)hop")


def read_musique(path: Path) -> Records:
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


PAGE_KEYS: Final = ("pageid", "title", "url")
EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})


def read_fanoutqa(path: Path, *, gold: str = "pageid") -> Records:
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
