"""SQuAD and its kin (XQuAD, MLQA): articles of paragraphs, with questions on each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.evalsets.files import json_elements
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import Check

__all__ = ["articles", "read", "recognises"]

BETWEEN: Final = "\n\n"
"""What stands between two paragraphs of an article."""


def recognises(shape: Shape) -> bool:
    """By its keys, at any depth."""
    return shape.mentions("data", "paragraphs", "context", "qas")


def read(path: Path) -> Iterator[tuple[str, Any]]:
    """Records with the question's paragraph as gold: by its text, and by its place in the article.

    The source is the article's title ("article 3" without one), and `start` and `end` count in its
    text as `articles` gives it: chunk that and the gold survives. Where the answers stand in the
    paragraph is kept under `extra["answer_starts"]`; the title is a tag.

    Raises:
        InputError: the file cannot be read, or an article, paragraph or question has another form.
    """
    for place, number, article in _articles(path):
        check, at = Check(place), 0
        source = _source(article, number, check)
        for i, paragraph in enumerate(_paragraphs(article, check)):
            context = check.text(paragraph.get("context"), "paragraphs", i, "context")
            span = {"text": context, "source": source, "start": at, "end": at + len(context)}
            at += len(context) + len(BETWEEN)
            for j, item in enumerate(check.array(paragraph.get("qas"), "paragraphs", i, "qas")):
                question = check.object(item, "paragraphs", i, "qas", j)
                where = f"{place}, paragraph {i + 1}, question {j + 1}"
                yield where, _record(Check(where), question, span)


def articles(path: Path) -> Iterator[tuple[str, str]]:
    """The articles' sources and texts: their paragraphs with a blank line between two.

    Raises:
        InputError: as `read`.
    """
    for place, number, article in _articles(path):
        check = Check(place)
        contexts = [
            check.text(paragraph.get("context"), "paragraphs", i, "context")
            for i, paragraph in enumerate(_paragraphs(article, check))
        ]
        yield _source(article, number, check), BETWEEN.join(contexts)


def _record(check: Check, question: dict[str, Any], gold: dict[str, Any]) -> dict[str, Any]:
    answers = [
        check.object(answer, "answers", i)
        for i, answer in enumerate(check.array(question.pop("answers", None), "answers"))
    ]
    texts = [check.text(answer.get("text"), "answers", i, "text") for i, answer in enumerate(answers)]
    starts = [answer.get("answer_start") for answer in answers]
    return {
        **question,
        "answers": list(dict.fromkeys(texts)),
        "gold": [gold],
        "tags": {"title": gold["source"]},
        "answer_starts": starts,
    }


def _articles(path: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for number, (place, value) in enumerate(json_elements(path, "data"), 1):
        yield place, number, dict(Check(place).record(value, "paragraphs"))


def _paragraphs(article: dict[str, Any], check: Check) -> list[dict[str, Any]]:
    return [
        check.object(item, "paragraphs", i)
        for i, item in enumerate(check.array(article["paragraphs"], "paragraphs"))
    ]


def _source(article: dict[str, Any], number: int, check: Check) -> str:
    title = article.get("title")
    return f"article {number}" if title is None else check.text(title, "title")
