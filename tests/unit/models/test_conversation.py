"""How prompts show the conversation before the question."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from pytest_rageval.core.evalset import QuestionWithHistory
from pytest_rageval.models.prompt_rendering import (
    DEFAULT_PROMPTS,
    FEW_SHOT_PROMPTS,
    build_prompts,
    few_shot_answer_prompt,
)

HISTORY = [{"role": "user", "content": "Do you\nship {question}?"}, {"role": "assistant", "content": "Yes."}]
SHOWN = "User: Do you ship {question}?\nAssistant: Yes."
PLAIN, ASKED = "And in winter?", QuestionWithHistory("And in winter?", HISTORY)


@pytest.mark.parametrize(
    "prompt",
    [
        lambda question: DEFAULT_PROMPTS.fill("answer", question, ["p"]),
        lambda question: DEFAULT_PROMPTS.fill("citing", question, ["p"]),
        lambda question: DEFAULT_PROMPTS.fill("long_answer", question, ["p"]),
        lambda question: DEFAULT_PROMPTS.fill("same_answer", question, ["r"], "a"),
        lambda question: DEFAULT_PROMPTS.fill("graded_answer", question, ["r"], "a"),
        lambda question: DEFAULT_PROMPTS.fill("relevance", question, "p"),
        lambda question: DEFAULT_PROMPTS.fill("preference", question, "a", "b"),
        lambda question: DEFAULT_PROMPTS.fill("faithfulness", question, ["a"], ["p"]),
    ],
)
def test_a_prompt_has_the_conversation_in_a_section_before_the_question(prompt: Callable[[str], str]) -> None:
    lines = prompt(ASKED).splitlines()
    index = lines.index("Conversation before the question:")
    assert lines.count("Conversation before the question:") == 1
    assert lines[index + 1].startswith("<conversation ")
    assert "\n".join(lines[index + 2 : index + 4]) == SHOWN
    assert lines[index + 4].startswith("</conversation ")
    assert lines[index + 6] == "Question: And in winter?"
    assert prompt(QuestionWithHistory(PLAIN)) == prompt(PLAIN)
    assert "onversation" not in prompt(PLAIN)


@pytest.mark.parametrize(
    "prompt",
    [few_shot_answer_prompt, *(partial(FEW_SHOT_PROMPTS.fill, name) for name in ("citing", "long_answer"))],
)
def test_a_page_that_a_base_model_continues_has_it_too(prompt: Callable[[str, Sequence[str]], str]) -> None:
    page = prompt(ASKED, ["p"])
    before, _, after = page.partition(f"Conversation before the question:\n{SHOWN}\n\n")
    assert before + after == prompt(PLAIN, ["p"])
    assert after.startswith("Question: And in winter?")


def test_a_template_of_the_users_has_it_before_the_line_of_the_question() -> None:
    prompts = build_prompts({"answer": "Be brief.\nQ: {question} P: {passages}"}, "here")
    prompt = prompts.fill("answer", ASKED, ["p"])
    assert prompt.startswith("Be brief.\nConversation before the question:\n<conversation ")
    assert "\n\nQ: And in winter? P: " in prompt
