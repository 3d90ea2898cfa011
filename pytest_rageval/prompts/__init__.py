"""Every prompt the package sends, as plain functions from texts to text."""

from pytest_rageval.prompts.asking import (
    answer_prompt,
    citing_prompt,
    graded_answer_prompt,
    long_answer_prompt,
    preference_prompt,
    question_prompt,
    rating_prompt,
    relevance_prompt,
    repair_prompt,
    same_answer_prompt,
)
from pytest_rageval.prompts.continuing import (
    few_shot_citing_prompt,
    few_shot_long_answer_prompt,
    few_shot_prompt,
    few_shot_question_prompt,
    passage_prompt,
    searches_prompt,
)
from pytest_rageval.prompts.templates import (
    ABSTENTION,
    CRITERIA,
    MARK,
    PLACEHOLDER,
    REWORDED,
    TEMPLATES,
    VERSION,
)

__all__ = [
    "ABSTENTION",
    "CRITERIA",
    "MARK",
    "PLACEHOLDER",
    "REWORDED",
    "TEMPLATES",
    "VERSION",
    "answer_prompt",
    "citing_prompt",
    "few_shot_citing_prompt",
    "few_shot_long_answer_prompt",
    "few_shot_prompt",
    "few_shot_question_prompt",
    "graded_answer_prompt",
    "long_answer_prompt",
    "passage_prompt",
    "preference_prompt",
    "question_prompt",
    "rating_prompt",
    "relevance_prompt",
    "repair_prompt",
    "same_answer_prompt",
    "searches_prompt",
]
