"""SQuAD and its variants (XQuAD, MLQA): articles of paragraphs, with questions about each paragraph."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.files import json_elements
from pytest_rageval.evalsets.records import Check, Records, check_records

__all__ = ["articles", "read"]

SEPARATOR: Final = "\n\n"  # between two paragraphs of an article


def read(path: Path) -> Records:
    """Yield records with the question's paragraph as the gold passage: its text, and its span in the article.

    The source of the span is the article's title, which is also the tag `title`; an article without a title is named
    by its number, "article 3". The offsets of the span refer to the article's text as `articles` returns it. Offsets of
    answers in the paragraph are kept under `extra["answer_starts"]`.
    """
    for check, source, paragraphs in _articles(path):
        start = 0
        for i, paragraph in enumerate(paragraphs):
            context = check.text(paragraph.get("context"), "paragraphs", i, "context")
            end = start + len(context)
            gold = {"text": context, "source": source, "start": start, "end": end}
            start = end + len(SEPARATOR)
            for j, question in enumerate(check.objects(paragraph.get("qas"), "paragraphs", i, "qas")):
                place = f"{check.place}, paragraph {i + 1}, question {j + 1}"
                yield place, _record(Check(place), question, gold)


def articles(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the source and the text of each article: its paragraphs, separated by blank lines."""
    for check, source, paragraphs in _articles(path):
        texts = enumerate(paragraph.get("context") for paragraph in paragraphs)
        yield source, SEPARATOR.join(check.text(text, "paragraphs", i, "context") for i, text in texts)


def _articles(path: Path) -> Iterator[tuple[Check, str, list[dict[str, Any]]]]:
    """Yield the `Check`, the source and the paragraphs of each article."""
    for number, (check, article) in enumerate(check_records(json_elements(path, "data"), "paragraphs"), 1):
        title = article.get("title")
        source = f"article {number}" if title is None else check.text(title, "title")
        yield check, source, check.objects(article["paragraphs"], "paragraphs")


def _record(check: Check, question: dict[str, Any], gold: dict[str, Any]) -> dict[str, Any]:
    answers = check.objects(question.pop("answers", None), "answers")
    texts = [check.text(answer.get("text"), "answers", i, "text") for i, answer in enumerate(answers)]
    return {
        **question,
        "answers": list(dict.fromkeys(texts)),
        "gold": [gold],
        "tags": {"title": gold["source"]},
        "answer_starts": [answer.get("answer_start") for answer in answers],
    }
