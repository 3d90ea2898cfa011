"""What the package says to models."""

import pytest

from pytest_rageval.prompts import _SHOTS, ABSTENTION, answer_prompt, few_shot_prompt, same_answer_prompt

QUESTION, PASSAGES = "Which code?", ["The code is  c7.\nIt is new.", "Nothing here."]


@pytest.mark.parametrize("prompt", [answer_prompt, few_shot_prompt])
def test_the_question_stands_before_and_after_the_passages(prompt) -> None:
    """A model that reads once then knows what to look for, and what was asked when it has read."""
    before, after = prompt(QUESTION, PASSAGES).split("The code is c7.")
    assert before.count(QUESTION) == after.count(QUESTION) == 1


@pytest.mark.parametrize("prompt", [answer_prompt, few_shot_prompt])
def test_passages_are_one_a_line_best_first(prompt) -> None:
    """White space within a passage is single spaces, so that a line is a passage."""
    lines = prompt(QUESTION, PASSAGES).splitlines()
    (first,) = (n for n, line in enumerate(lines) if line.endswith("The code is c7. It is new."))
    assert lines[first + 1].endswith("Nothing here.")


@pytest.mark.parametrize("prompt", [answer_prompt, few_shot_prompt])
def test_no_passages_are_said_to_be_none(prompt) -> None:
    """An empty ranking still makes a complete prompt."""
    assert "\n(none)\n" in prompt(QUESTION, [])
    assert "\n(none)\n" not in prompt(QUESTION, PASSAGES)


def test_the_answer_prompt_says_how_to_abstain() -> None:
    """The words that are later recognised are the words asked for."""
    assert f"reply exactly: {ABSTENTION}\n" in answer_prompt("q", PASSAGES)


@pytest.mark.parametrize(("question", "page", "answer"), _SHOTS)
def test_a_worked_example_chooses_among_its_passages(
    question: str, page: tuple[str, ...], answer: str
) -> None:
    """The answer is in one of several passages, word for word, and all of it is in the prompt."""
    assert [answer in passage for passage in page].count(True) == 1
    assert len(page) > 1
    prompt = few_shot_prompt(QUESTION, PASSAGES)
    assert question in prompt
    assert all(passage in prompt for passage in page)
    assert f" {answer}\n" in prompt


def test_the_judge_sees_every_reference_and_the_answer() -> None:
    """References are listed one a line; the reply wanted is one word."""
    prompt = same_answer_prompt("How far?", ["5 km", "five kilometres"], "about 5 km")
    assert "Question: How far?\n" in prompt
    assert "\n- 5 km\n- five kilometres\n" in prompt
    assert "Answer to check: about 5 km\n" in prompt
    assert prompt.endswith("Reply with one word, yes or no.")
