"""Few-shot prompts for a small base model: a page of worked examples that the model continues."""

from collections.abc import Sequence

from pytest_rageval.prompts.templates import (
    ANSWERED,
    CITING,
    EXPLAINED,
    EXPLAINING,
    LISTED,
    SEARCHED,
    WRITING,
    WRITTEN,
    cited,
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
    """Ask a small base model to continue a page of answered questions.

    Four worked examples, each with several passages, because a base model copies the pattern it sees: among one
    passage it learns to copy, among several to choose. All facts in them are invented, so that what the model
    knows of the world neither helps nor misleads.
    """
    shots = "".join(f"{_exercise(shot, page)} {answer}\n\n" for shot, page, answer in ANSWERED)
    return (
        "Read each question and give a short answer (at most 5 words), copied from the text.\n\n"
        f"{shots}{_exercise(question, passages)}"
    )


def few_shot_citing_prompt(question: str, passages: Sequence[str]) -> str:
    """The same for a base model, which continues a page and needs two worked examples."""
    worked = "".join(f"{_between(shot, page)} {answers}\n\n" for shot, page, answers in LISTED)
    return f"{CITING}\n\n{worked}{_between(question, passages)}"


def few_shot_long_answer_prompt(question: str, passages: Sequence[str]) -> str:
    """The same for a base model, with two worked examples; each answer joins two of its passages."""
    worked = "".join(f"{_between(shot, page)} {answer}\n\n" for shot, page, answer in EXPLAINED)
    return f"{EXPLAINING}\n\n{worked}{_between(question, passages)}"


def few_shot_question_prompt(passage: str) -> str:
    """The same for a base model, which continues a page; a blank line ends each of the worked examples."""
    worked = "".join(f"Passage: {shown}\n{written}\n\n" for shown, written in WRITTEN)
    return f"{WRITING}\n\n{worked}Passage: {' '.join(passage.split())}\nQuestion:"


def passage_prompt(question: str) -> str:
    """Ask for a passage that could answer a question, true or not.

    With worked examples, because a base model continues a page; an instruction-tuned one takes from them how
    long and how plain a passage is. A blank line ends it.
    """
    worked = "".join(f"Question: {shot}\nPassage: {passage}\n\n" for shot, passage, _ in SEARCHED)
    return (
        "Write a short passage of a website or an encyclopedia that answers the question, as well as you "
        f"can guess. Write the passage alone, in one to three sentences.\n\n{worked}"
        f"Question: {question}\nPassage:"
    )


def searches_prompt(question: str, n: int) -> str:
    """Ask for n search queries that look for what a question asks, one a line, numbered.

    With worked examples, as `passage_prompt`; they show at most four queries each.
    """
    worked = "".join(f"{_searches(shot)} {_numbered(queries[:n])}\n\n" for shot, _, queries in SEARCHED)
    return (
        f"Write {n} different search queries that help to answer a question: other words for the same thing, "
        f"its aspects, what belongs to it. Write one query a line, and nothing else.\n\n{worked}"
        f"{_searches(question)}"
    )


def _searches(question: str) -> str:
    return f"Question: {question}\nSearch queries:\n1."


def _numbered(queries: Sequence[str]) -> str:
    """The lines of a list whose first number stands already."""
    first, *others = queries
    return "\n".join([first, *(f"{n}. {query}" for n, query in enumerate(others, 2))])


def _between(question: str, passages: Sequence[str]) -> str:
    return f"Question: {question}\n\nPassages:\n{cited(passages)}\n\nQuestion: {question}\nAnswer:"


def _exercise(question: str, passages: Sequence[str]) -> str:
    listed = "\n".join(f"- {' '.join(passage.split())}" for passage in passages) or "(none)"
    return (
        f"Question: {question}\n\n{listed}\n\n"
        f"The question was: {question}\nThe answer, in a few words copied from above:"
    )
