"""Anchoring answers of XQuAD in its articles, compared with the offsets in the data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.ranking import Span
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.extensions.evalset_tools.anchor import anchor

pytestmark = pytest.mark.slow

Data = Callable[[str], Path]

CUT_IN_A_NUMBER = "7,000,000 square kilometres (2,70"
"""The only answer that ends within a number, so that it is no quote of whole words."""


class Answer(NamedTuple):
    """An answer with its span in the article according to the data."""

    identifier: str
    question: str
    text: str
    paragraph: str
    context: str
    span: Span


@pytest.fixture(scope="module")
def answers(data: Data) -> list[Answer]:
    """Return all 1,190 answers, with offsets in the article of paragraphs joined by two newlines."""
    found = []
    articles = json.loads((data("xquad_squad") / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    for article in articles:
        source, offset = f"{article['title']}.txt", 0
        for n, paragraph in enumerate(article["paragraphs"]):
            for question in paragraph["qas"]:
                (answer,) = question["answers"]
                start = offset + answer["answer_start"]
                span = Span(source, start, start + len(answer["text"]))
                name = f"{source}#{n}"
                found.append(
                    Answer(
                        question["id"], question["question"], answer["text"], name, paragraph["context"], span
                    )
                )
            offset += len(paragraph["context"]) + 2
    return found


@pytest.fixture(scope="module")
def texts(answers: list[Answer]) -> dict[str, str]:
    contexts: dict[str, dict[str, None]] = {}
    for answer in answers:
        contexts.setdefault(answer.span.source, {})[answer.context] = None
    return {source: "\n\n".join(paragraphs) for source, paragraphs in contexts.items()}


@pytest.fixture(scope="module")
def corpora(
    answers: list[Answer], texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "files").mkdir()
    for source, text in texts.items():
        (folder / "files" / source).write_text(text, encoding="utf-8", newline="")
    passages = {}
    for answer in answers:
        source = answer.span.source
        start = texts[source].index(answer.context)
        passages[answer.paragraph] = {
            "id": answer.paragraph,
            "text": answer.context,
            "source": source,
            "start": start,
        }
    lines = "".join(f"{json.dumps(passage)}\n" for passage in passages.values())
    (folder / "passages.jsonl").write_text(lines, encoding="utf-8")
    return {"files": folder / "files", "passages": folder / "passages.jsonl"}


def spans(examples: list[Example], corpus: Path) -> dict[str, Span | None]:
    results = anchor(EvalSet("xquad", tuple(examples)), read_corpus(corpus))
    return {result.example.id: None if result.failures else result.example.gold[0].span for result in results}


@pytest.mark.parametrize("kind", ["files", "passages"])
@pytest.mark.parametrize("given_as", ["gold text", "answer"])
def test_a_quote_that_occurs_once_in_all_articles(answers, texts, corpora, kind, given_as):
    """A quote that occurs once is anchored at the data's offsets, despite other line breaks.

    Other quotes are not anchored.
    """
    examples = [
        Example(answer.identifier, answer.question, answers=(quote,))
        if given_as == "answer"
        else Example(answer.identifier, answer.question, gold=(Gold(text=quote),))
        for answer in answers
        for quote in [answer.text.replace(" ", "\n ")]
    ]
    anchors = spans(examples, corpora[kind])
    once = [answer for answer in answers if sum(text.count(answer.text) for text in texts.values()) == 1]
    assert {answer_.text for answer_ in once if anchors[answer_.identifier] != answer_.span} == {
        CUT_IN_A_NUMBER
    }
    wrong = [answer for answer in answers if anchors[answer.identifier] not in (None, answer.span)]
    assert not wrong
    anchored = sum(span is not None for span in anchors.values())
    assert len(once) <= anchored + 1 < len(answers)


def test_a_quote_within_the_passage_of_an_id(answers: list[Answer], corpora: dict[str, Path]) -> None:
    """With the id of a passage, only that passage is searched, so that more quotes are unique."""
    examples = [
        Example(answer.identifier, answer.question, gold=(Gold(id=answer.paragraph, text=answer.text),))
        for answer in answers
    ]
    anchors = spans(examples, corpora["passages"])
    once = [answer for answer in answers if answer.context.count(answer.text) == 1]
    assert {each.text for each in once if anchors[each.identifier] != each.span} == {CUT_IN_A_NUMBER}
    assert not [answer for answer in answers if anchors[answer.identifier] not in (None, answer.span)]
