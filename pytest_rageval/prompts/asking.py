"""What an instruction-tuned model is asked: templates, filled with fenced texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pytest_rageval.fence import fenced, mark_for
from pytest_rageval.prompts.listing import cited, dashed
from pytest_rageval.prompts.templates import CRITERIA, MARK, PLACEHOLDER, RATING_FORM, TEMPLATES

__all__ = [
    "answer_prompt",
    "citing_prompt",
    "graded_answer_prompt",
    "long_answer_prompt",
    "preference_prompt",
    "question_prompt",
    "rating_prompt",
    "relevance_prompt",
    "repair_prompt",
    "same_answer_prompt",
]


_SHOWN: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "answer": "\n".join,
    "references": dashed,
    "passages": cited,
    "gold": cited,
}
"""How each placeholder's texts are written."""


def answer_prompt(question: str, passages: Sequence[str], template: str | None = None) -> str:
    """Ask an instruction-tuned model for a short answer from passages.

    The question stands before and after the passages: a model that reads once
    then knows what to look for, and what was asked when it has read.
    """
    return _filled(template or TEMPLATES["answer"], question=question, passages=cited(passages))


def citing_prompt(question: str, passages: Sequence[str], template: str | None = None) -> str:
    """Ask for all answers that numbered passages hold, each with the numbers of its passages.

    Args:
        question: that has one or more answers.
        passages: in the order in which they are numbered, from 1.
        template: in place of the package's own, which has a worked example; its facts are invented.
    """
    return _filled(template or TEMPLATES["citing"], question=question, passages=cited(passages))


def long_answer_prompt(question: str, passages: Sequence[str], template: str | None = None) -> str:
    """Ask for an answer in whole sentences, with all that the passages say to the question.

    Args:
        question: that a sentence or several answer.
        passages: best first.
        template: in place of the package's own.
    """
    return _filled(template or TEMPLATES["long_answer"], question=question, passages=cited(passages))


def same_answer_prompt(
    question: str, references: Sequence[str], prediction: str, template: str | None = None
) -> str:
    """Ask a judge whether a prediction says what one of the references says: yes or no.

    The rule is that of LLM-retEval: all information of at least one reference,
    numbers and dates included, nothing that contradicts it; more is allowed.
    """
    listed = dashed(references)
    return _filled(
        template or TEMPLATES["same_answer"], question=question, references=listed, answer=prediction
    )


def graded_answer_prompt(
    question: str, references: Sequence[str], prediction: str, template: str | None = None
) -> str:
    """Ask a judge how much of one of the references a prediction says: a whole number from 1 to 5.

    The rule of `same_answer_prompt` is the highest grade; each lower one has its own description,
    and a contradiction is the lowest.
    """
    listed = dashed(references)
    return _filled(
        template or TEMPLATES["graded_answer"], question=question, references=listed, answer=prediction
    )


def relevance_prompt(question: str, passage: str, template: str | None = None) -> str:
    """Ask a judge whether a passage is relevant to a question: yes or no."""
    line = " ".join(passage.split())
    return _filled(template or TEMPLATES["relevance"], question=question, passage=line)


def preference_prompt(question: str, first: str, second: str, template: str | None = None) -> str:
    """Ask a judge which of two long answers is better: a short reason, then 1, 2 or 0 in a tag.

    The criteria are those of RAG-QA Arena. Each answer is one line: it cannot
    look like a part of the prompt, and none wins by its layout.
    """
    texts = {"first": " ".join(first.split()), "second": " ".join(second.split())}
    return _filled(template or TEMPLATES["preference"], question=question, **texts)


def rating_prompt(
    criterion: str, question: str, rated: Sequence[str], against: Sequence[str], template: str | None = None
) -> str:
    """Ask a judge for a grade from 1 to 5 with a short explanation, as a JSON object.

    The explanation stands first, so that the grade follows from it.

    Args:
        criterion: one of `CRITERIA`.
        question: that was asked.
        rated: the answer, or the retrieved passages.
        against: the reference answers, or passages.
        template: in place of the package's own.
    """
    what, measure = CRITERIA[criterion]
    texts = {what: _SHOWN[what](rated), measure: _SHOWN[measure](against)}
    return _filled(template or TEMPLATES[criterion], question=question, **texts)


def repair_prompt(why: str) -> str:
    """Ask once more for a rating, after a reply that is none."""
    return f"Your reply cannot be read: {why}. Reply again.\n{RATING_FORM}"


def question_prompt(passage: str, template: str | None = None) -> str:
    """Ask for a question that a passage answers, and for the answer as a quote from it.

    Args:
        passage: to ask about.
        template: in place of the package's own, which has worked examples; their facts are invented.
    """
    return _filled(template or TEMPLATES["question"], passage=" ".join(passage.split()))


def _filled(template: str, *, question: str | None = None, **quoted: str) -> str:
    """A template with texts for its placeholders, in one pass: a text may hold braces of its own.

    All but the question, which is the user's own, are quoted: who wrote them may want something else.
    """
    asked = {} if question is None else {"question": question}
    mark = mark_for([*asked.values(), *quoted.values()])
    blocks = {name: fenced(name, text, mark) for name, text in quoted.items()}
    texts = {**asked, MARK: mark, **blocks}
    return PLACEHOLDER.sub(lambda place: texts[place[1]], template)
