"""Few-shot prompts: a page of worked examples that a base model continues."""

from collections.abc import Sequence

from pytest_rageval.prompts.templates import (
    ANSWER_EXAMPLES,
    CITING_EXAMPLES,
    CITING_INSTRUCTION,
    LONG_ANSWER_EXAMPLES,
    LONG_ANSWER_INSTRUCTION,
    QUESTION_EXAMPLES,
    QUESTION_INSTRUCTION,
    SEARCH_EXAMPLES,
    numbered,
)

__all__ = [
    "few_shot_citing_prompt",
    "few_shot_long_answer_prompt",
    "few_shot_prompt",
    "few_shot_question_prompt",
    "passage_prompt",
    "searches_prompt",
]


def few_shot_prompt(question: str, passages: Sequence[str]) -> str:
    """Ask a small base model for a short answer.

    Four worked examples, each with several passages, because a base model copies the pattern it sees: among one
    passage it learns to copy, among several to choose. All facts in them are invented, so that what the model knows
    of the world neither helps nor misleads.
    """
    shots = "".join(f"{_short_question(shot, page)} {answer}\n\n" for shot, page, answer in ANSWER_EXAMPLES)
    return (
        "Read each question and give a short answer (at most 5 words), copied from the text.\n\n"
        f"{shots}{_short_question(question, passages)}"
    )


def few_shot_citing_prompt(question: str, passages: Sequence[str]) -> str:
    """Ask a base model for all answers with citations, after two worked examples."""
    worked = "".join(
        f"{_question_twice(shot, page)} {answers}\n\n" for shot, page, answers in CITING_EXAMPLES
    )
    return f"{CITING_INSTRUCTION}\n\n{worked}{_question_twice(question, passages)}"


def few_shot_long_answer_prompt(question: str, passages: Sequence[str]) -> str:
    """Ask a base model for a long answer, after two worked examples; each joins two of its passages."""
    worked = "".join(
        f"{_question_twice(shot, page)} {answer}\n\n" for shot, page, answer in LONG_ANSWER_EXAMPLES
    )
    return f"{LONG_ANSWER_INSTRUCTION}\n\n{worked}{_question_twice(question, passages)}"


def few_shot_question_prompt(passage: str) -> str:
    """Ask a base model for a question on a passage, and its answer; a blank line ends each worked example."""
    worked = "".join(f"Passage: {shown}\n{written}\n\n" for shown, written in QUESTION_EXAMPLES)
    return f"{QUESTION_INSTRUCTION}\n\n{worked}Passage: {' '.join(passage.split())}\nQuestion:"


def passage_prompt(question: str) -> str:
    """Ask for a passage that could answer a question, true or not.

    With worked examples, because a base model continues a page; an instruction-tuned one takes from them how long and
    how plain a passage is. A blank line ends it.
    """
    worked = "".join(f"Question: {shot}\nPassage: {passage}\n\n" for shot, passage, _ in SEARCH_EXAMPLES)
    return (
        "Write a short passage of a website or an encyclopedia that answers the question, as well as you "
        f"can guess. Write the passage alone, in one to three sentences.\n\n{worked}"
        f"Question: {question}\nPassage:"
    )


def searches_prompt(question: str, n: int) -> str:
    """Ask for n search queries that look for what a question asks, one a line, numbered.

    With worked examples, as `passage_prompt`; they show at most four queries each.
    """
    worked = "".join(
        f"{_searches(shot)} {_numbered(queries[:n])}\n\n" for shot, _, queries in SEARCH_EXAMPLES
    )
    return (
        f"Write {n} different search queries that help to answer a question: other words for the same thing, "
        f"its aspects, what belongs to it. Write one query a line, and nothing else.\n\n{worked}"
        f"{_searches(question)}"
    )


def _searches(question: str) -> str:
    return f"Question: {question}\nSearch queries:\n1."


def _numbered(queries: Sequence[str]) -> str:
    """The lines of a list whose first number is in the prompt already."""
    first, *others = queries
    return "\n".join([first, *(f"{n}. {query}" for n, query in enumerate(others, 2))])


def _question_twice(question: str, passages: Sequence[str]) -> str:
    return f"Question: {question}\n\nPassages:\n{numbered(passages)}\n\nQuestion: {question}\nAnswer:"


def _short_question(question: str, passages: Sequence[str]) -> str:
    listed = "\n".join(f"- {' '.join(passage.split())}" for passage in passages) or "(none)"
    return (
        f"Question: {question}\n\n{listed}\n\n"
        f"The question was: {question}\nThe answer, in a few words copied from above:"
    )
