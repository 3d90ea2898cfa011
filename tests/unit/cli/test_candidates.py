"""Questions and answers read from a model's reply."""

import re

import pytest

from pytest_rageval.cli.evalset_generate import Candidate, parsed
from pytest_rageval.model import Span
from pytest_rageval.prompts.few_shot import few_shot_question_prompt
from pytest_rageval.prompts.rendering import OWN

PASSAGE = "A season ticket costs 45\n crowns. It is sold at the kiosk, and 45 crowns it stays."


def read(reply: str, passage: str = PASSAGE) -> Candidate:
    """A reply about a passage that stands at 100."""
    return parsed(Candidate(Span("a.md", 100, 100 + len(passage)), passage, reply))


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
    """In the forms that models give them; the answer with all of its places."""
    candidate = read(reply)
    assert candidate.rejected is None
    assert (candidate.question, candidate.answer) == ("What does it cost?", "45 crowns")
    assert candidate.answer_spans == ((122, 132), (163, 172))


@pytest.mark.parametrize(
    ("said", "answer"), [("Washington, D.C.", "Washington, D.C."), ("Washington.", "Washington")]
)
def test_a_full_stop_after_the_answer(said: str, answer: str) -> None:
    """Is taken from the passage, and not from the model."""
    candidate = read(f"Where?\nAnswer: {said}", "It is sold in Washington, D.C. alone.")
    assert (candidate.answer, candidate.rejected) == (answer, None)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("What does it cost?", "the reply is not a question and an answer"),
        ("What does it cost?\nAnswer:\n", "the reply is not a question and an answer"),
        ("\n?\nAnswer: 45 crowns", "the reply is not a question and an answer"),
        ("What does it cost?\nAnswer: 46 crowns", "the answer is no quote from the passage"),
        ("What does it cost?\nAnswer: crown", "the answer is no quote from the passage"),
        ("What costs 45 Crowns?\nAnswer: 45 crowns", "the answer stands in the question"),
        ("What does this short text name?\nAnswer: 45 crowns", "the question speaks of its passage"),
    ],
)
def test_what_cannot_be_used(reply: str, why: str) -> None:
    """And why."""
    assert read(reply).rejected == why


def test_a_passage_without_offsets_has_no_place_for_its_answer() -> None:
    """Its white space is not that of its file."""
    candidate = Candidate(Span("a.md", 0, 500), PASSAGE, "What does it cost?\nAnswer: 45 crowns")
    assert parsed(candidate).answer_spans == ()


def test_the_page_for_a_base_model_shows_what_it_asks_for() -> None:
    """Each worked answer is a quote from its passage, and the question does not hold it."""
    *worked, last = few_shot_question_prompt("The  last\none.").split("Passage: ")[1:]
    assert last == "The last one.\nQuestion:"
    assert len(worked) == 4
    for exercise in worked:
        passage, _, reply = exercise.partition("\n")
        assert read(reply, passage).rejected is None


def test_the_prompt_for_a_model_at_a_server_shows_the_same() -> None:
    """With its passages fenced, and the one to ask about as the last."""
    *worked, last = OWN.question("The  last\none.").split("Passage:\n")[1:]
    assert re.fullmatch(r"<passage (\w+)>\nThe last one\.\n</passage \1>\nQuestion:", last)
    assert len(worked) == 4
    for exercise in worked:
        _, passage, _, reply = exercise.split("\n", 3)
        assert read(reply, passage).rejected is None
