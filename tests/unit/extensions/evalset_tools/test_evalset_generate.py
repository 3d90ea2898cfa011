"""How `rageval evalset generate` samples passages from a corpus and parses questions and answers in replies."""

import re
from collections import Counter

import pytest

from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.extensions.evalset_tools.generate import (
    MAX_CHARACTERS,
    Candidate,
    corpus_passages,
    draw_passages,
    parse_reply,
)
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, FEW_SHOT_PROMPTS


def file(source: str, n: int) -> list[Document]:
    return [
        Document(f"passage {m} of the file {source}", span=Span(source, 100 * m, 100 * m + len(text)))
        for m in range(n)
        for text in [f"passage {m} of the file {source}"]
    ]


CORPUS = [*file("a", 60), *file("b", 30), *file("c", 10)]


@pytest.mark.parametrize("seed", range(3))
def test_each_file_has_its_share(seed: int) -> None:
    drawn = draw_passages(lambda: CORPUS, 20, seed)
    assert Counter(span.source for span, _ in drawn) == {"a": 12, "b": 6, "c": 2}
    assert len(set(drawn)) == 20
    assert Counter(span.source for span, _ in drawn[:10]) == {"a": 6, "b": 3, "c": 1}
    assert {(document.span, document.text) for document in CORPUS} >= set(drawn)


def test_the_seed_decides_and_the_order_of_the_corpus_does_not() -> None:
    assert draw_passages(lambda: CORPUS, 20, 1) == draw_passages(lambda: CORPUS[::-1], 20, 1)
    assert draw_passages(lambda: CORPUS, 20, 1) != draw_passages(lambda: CORPUS, 20, 2)


def test_every_passage_is_as_likely() -> None:
    draws = (draw_passages(lambda: file("a", 10), 2, seed) for seed in range(500))
    drawn = Counter(span.start for passages in draws for span, _ in passages)
    assert len(drawn) == 10
    assert all(60 <= often <= 145 for often in drawn.values())


def test_of_more_files_than_passages_at_most_one_each() -> None:
    corpus = [passage for n in range(50) for passage in file(f"f{n}", 1 + n % 3)]
    drawn = draw_passages(lambda: corpus, 20, 0)
    assert len({span.source for span, _ in drawn}) == len(drawn) == 20
    assert sorted(drawn) == sorted(draw_passages(lambda: corpus[::-1], 20, 0))


def test_a_small_corpus_is_drawn_whole() -> None:
    assert len(set(draw_passages(lambda: CORPUS, 1000, 0))) == 100


@pytest.mark.parametrize("mark", ["\n\n", "\n", ". ", " ", "。", "-"])
def test_long_texts_are_cut_and_nothing_is_lost(mark: str) -> None:
    text = mark.join(f"word{n} and some others that follow" for n in range(200))
    cuts = list(corpus_passages([Document(text, span=Span("a", 7, 7 + len(text)))]))
    assert len(cuts) > 1
    for span, part in cuts:
        assert text[span.start - 7 : span.end - 7] == part
        assert len(part) <= MAX_CHARACTERS
        assert part == part.strip()
    assert "".join("".join(part.split()) for _, part in cuts) == "".join(text.split())


@pytest.mark.parametrize(
    ("document", "is_candidate"),
    [
        (Document("one two three four five", span=Span("a", 0, 23)), True),
        (Document("one two three four", span=Span("a", 0, 18)), False),
        (Document("one two three four five", "id"), False),
        (Document("one two three four five", span=Span("a", 0, 99)), True),
        (Document("今天天气很好", span=Span("a", 0, 6)), True),
        (Document(" \n ", span=Span("a", 0, 3)), False),
    ],
)
def test_what_can_be_asked_about(document: Document, is_candidate: bool) -> None:  # noqa: FBT001 - a table
    assert list(corpus_passages([document])) == ([(document.span, document.text)] if is_candidate else [])


PASSAGE = "A season ticket costs 45\n crowns. It is sold at the kiosk, and 45 crowns it stays."


def read(reply: str, passage: str = PASSAGE) -> Candidate:
    """Parse a reply about a passage that starts at offset 100."""
    return parse_reply(Candidate(Span("a.md", 100, 100 + len(passage)), passage, reply))


@pytest.mark.parametrize(
    "reply",
    [
        "What does it cost?\nAnswer: 45 crowns",
        " Question: What does it cost?\nAnswer: 45 crowns\n\nPassage: Another one",
        "**Question:** What does it cost?\n\n**Answer:** 45 crowns",
        'question: "What does it cost?"\n  answer: "45  crowns"',
        "1. Question: What does it cost?\nAnswer: 45 crowns\nQuestion: And?\nAnswer: no",
    ],
)
def test_a_question_and_an_answer(reply: str) -> None:
    candidate = read(reply)
    assert candidate.rejected is None
    assert (candidate.question, candidate.answer) == ("What does it cost?", "45 crowns")
    assert candidate.answer_spans == ((122, 132), (163, 172))


@pytest.mark.parametrize(
    ("reply_answer", "answer"), [("Washington, D.C.", "Washington, D.C."), ("Washington.", "Washington")]
)
def test_a_full_stop_after_the_answer(reply_answer: str, answer: str) -> None:
    candidate = read(f"Where?\nAnswer: {reply_answer}", "It is sold in Washington, D.C. alone.")
    assert (candidate.answer, candidate.rejected) == (answer, None)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("What does it cost?", "the reply is not a question and an answer"),
        ("What does it cost?\nAnswer:\n", "the reply is not a question and an answer"),
        ("\n?\nAnswer: 45 crowns", "the reply is not a question and an answer"),
        ("What does it cost?\nAnswer: 46 crowns", "the answer is not a quote from the passage"),
        ("What does it cost?\nAnswer: crown", "the answer is not a quote from the passage"),
        ("What costs 45 Crowns?\nAnswer: 45 crowns", "the question contains the answer"),
        ("What does this short text name?\nAnswer: 45 crowns", "the question speaks of its passage"),
    ],
)
def test_what_cannot_be_used(reply: str, why: str) -> None:
    assert read(reply).rejected == why


def test_a_passage_without_offsets_has_no_place_for_its_answer() -> None:
    candidate = Candidate(Span("a.md", 0, 500), PASSAGE, "What does it cost?\nAnswer: 45 crowns")
    assert parse_reply(candidate).answer_spans == ()


def test_the_page_for_a_base_model_shows_what_it_asks_for() -> None:
    *worked, last = FEW_SHOT_PROMPTS.fill("question", "The  last\none.").split("Passage: ")[1:]
    assert last == "The last one.\nQuestion:"
    assert len(worked) == 4
    for exercise in worked:
        passage, _, reply = exercise.partition("\n")
        assert read(reply, passage).rejected is None


def test_the_prompt_for_a_model_at_a_server_shows_the_same() -> None:
    *worked, last = DEFAULT_PROMPTS.fill("question", "The  last\none.").split("Passage:\n")[1:]
    assert re.fullmatch(r"<passage (\w+)>\nThe last one\.\n</passage \1>\nQuestion:", last)
    assert len(worked) == 4
    for exercise in worked:
        _, passage, _, reply = exercise.split("\n", 3)
        assert read(reply, passage).rejected is None
