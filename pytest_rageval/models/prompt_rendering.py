"""Renders prompts: filled templates for instruction-tuned models, and few-shot prompts that a base model continues."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pytest_rageval.core.conversation import conversation_text, history_of
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.lib.lazy import lazy_pattern
from pytest_rageval.models.prompt_examples import (
    ANSWER_EXAMPLES,
    CITING_EXAMPLES,
    LONG_ANSWER_EXAMPLES,
    SEARCH_EXAMPLES,
    WorkedExample,
)
from pytest_rageval.models.prompts import (
    CITING_INSTRUCTION,
    CRITERIA,
    EXAMPLES_PLACEHOLDER,
    FENCE_PLACEHOLDER,
    FENCE_TEXT,
    LONG_ANSWER_INSTRUCTION,
    PLACEHOLDER,
    PREFERENCE_WITH_EXAMPLES,
    QUESTION_EXAMPLES,
    QUESTION_INSTRUCTION,
    RATING_INSTRUCTION,
    REWORDED_TEMPLATES,
    TEMPLATES,
    UNFENCED_PLACEHOLDERS,
    bulleted_list,
    fence,
    fence_token,
    numbered_list,
)

_LIST_FORMATS: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "answer": "\n".join,
    "references": bulleted_list,
    "passages": numbered_list,
    "gold": numbered_list,
}
"""By placeholder: the function that joins its texts."""

CONVERSATION_SECTION: Final = "Conversation before the question:\n{conversation}\n\n"
"""The section of a prompt with the history of a question; it precedes the first line with the question."""

FIRST_QUESTION_LINE: Final = lazy_pattern(r"^(?=.*\{question\})", re.MULTILINE)


class Prompts:
    """The prompts of generators and judges; `replaced` templates have the placeholders of those in `TEMPLATES`."""

    def __init__(self, replaced: Mapping[str, str] | None = None, *, fences: bool = True) -> None:
        self._templates = {**TEMPLATES, **(replaced or {})}
        self._fences = fences
        self._split_templates: dict[tuple[str, bool], tuple[Sequence[str], Sequence[str]]] = {}

    def with_examples(self) -> "Prompts":
        """Return the prompts with worked examples in "preference", unless the user replaced that template."""
        if self._templates["preference"] != TEMPLATES["preference"]:
            return self
        return Prompts({**self._templates, "preference": PREFERENCE_WITH_EXAMPLES}, fences=self._fences)

    def without_fences(self) -> "Prompts":
        """Return the prompts without fences and their explanation, to measure the effect of fences on injections."""
        return Prompts(
            {name: FENCE_TEXT.sub("", text) for name, text in self._templates.items()}, fences=False
        )

    def template(self, name: str) -> str:
        """Return the template of a prompt with its fences, in which `{mark}` is the placeholder of the token."""
        return self._add_fences(self._templates[name])

    def _add_fences(self, template: str) -> str:
        def add_fence(match: re.Match[str]) -> str:
            quoted = self._fences and match[1] not in UNFENCED_PLACEHOLDERS
            return fence(match[1], match[0], f"{{{FENCE_PLACEHOLDER}}}") if quoted else match[0]

        return PLACEHOLDER.sub(add_fence, template)

    def answer(self, question: str, passages: Sequence[str]) -> str:
        """Return the prompt for a short answer from passages.

        The question precedes the passages, so that the model knows what to look for, and is repeated after them.
        """
        return self._fill("answer", question=question, passages=numbered_list(passages))

    def citing(self, question: str, passages: Sequence[str]) -> str:
        """Return the prompt for all answers in the passages, each with the numbers of its passages, from 1."""
        return self._fill("citing", question=question, passages=numbered_list(passages))

    def long_answer(self, question: str, passages: Sequence[str]) -> str:
        """Return the prompt for a complete answer from passages in whole sentences."""
        return self._fill("long_answer", question=question, passages=numbered_list(passages))

    def question(self, passage: str) -> str:
        """Return the prompt for a question that a passage answers, with the answer as a quote from the passage."""
        return self._fill("question", passage=" ".join(passage.split()))

    def same_answer(self, question: str, references: Sequence[str], prediction: str) -> str:
        """Return the prompt for a judge: does the prediction state what one of the references states, yes or no?

        The rule is that of LLM-retEval: the prediction states all information of at least one reference, numbers and
        dates included, and nothing that contradicts it. It may state more.
        """
        texts = {"references": bulleted_list(references), "answer": prediction}
        return self._fill("same_answer", question=question, **texts)

    def graded_answer(self, question: str, references: Sequence[str], prediction: str) -> str:
        """Return the prompt for a judge: how much of one reference does the prediction state, from 1 to 5?

        The highest grade has the rule of `same_answer`. A contradiction has the lowest grade.
        """
        texts = {"references": bulleted_list(references), "answer": prediction}
        return self._fill("graded_answer", question=question, **texts)

    def relevance(self, question: str, passage: str) -> str:
        """Return the prompt for a judge: is the passage relevant to the question, yes or no?"""
        return self._fill("relevance", question=question, passage=" ".join(passage.split()))

    def sufficiency(self, question: str, passages: Sequence[str]) -> str:
        """Return the prompt for a judge: are the passages enough for an answer? A short reason, then yes or no.

        The rule is that of sufficient context (Joren et al., 2025).
        """
        return self._fill("sufficiency", question=question, passages=numbered_list(passages))

    def preference(self, question: str, first: str, second: str) -> str:
        """Return the prompt for a judge: which of two long answers is better? A short reason, then 1, 2 or 0 in a tag.

        The criteria are those of RAG-QA Arena. Each answer is put on one line, so that it cannot look like a part of
        the prompt, and its layout has no influence.
        """
        first, second = " ".join(first.split()), " ".join(second.split())
        return self._fill("preference", question=question, first=first, second=second)

    def rating(self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]) -> str:
        """Return the prompt for a judge's rating by one of `CRITERIA`: a JSON object with an explanation and a grade.

        An answer or retrieved passages (`rated`) are compared with reference answers or passages (`against`).
        """
        rated_name, against_name = CRITERIA[criterion]
        texts = {
            rated_name: _LIST_FORMATS[rated_name](rated),
            against_name: _LIST_FORMATS[against_name](against),
        }
        return self._fill(criterion, question=question, **texts)

    def support(self, question: str, nuggets: Sequence[str], passage: str) -> str:
        """Return the prompt for a judge: which nuggets does a passage or an answer support? A JSON list of labels."""
        texts = {"passage": " ".join(passage.split()), "nuggets": numbered_list(nuggets)}
        return self._fill("nugget_support", question=question, **texts)

    def nuggets(self, question: str, sources: Sequence[str]) -> str:
        """Return the prompt for the facts of a good answer to a question, from sources: a JSON list of objects."""
        return self._fill("nuggets", question=question, sources=numbered_list(sources))

    def hypothetical_passage(self, question: str, *, worked: bool = True) -> str:
        """Return the prompt for a passage that could answer a question, true or not; a blank line ends the passage.

        A base model needs the worked examples (`worked`) to continue. To an instruction-tuned model they show the
        length and style of a passage, and may be left out.
        """
        examples = (f"Question: {example}\nPassage: {passage}\n\n" for example, passage, _ in SEARCH_EXAMPLES)
        unfenced = {EXAMPLES_PLACEHOLDER: "".join(examples) if worked else ""}
        return self._fill("hypothetical_passage", unfenced, question=question)

    def search_queries(self, question: str, n: int) -> str:
        """Return the prompt for n search queries for a question, numbered, one per line.

        It has worked examples, as `hypothetical_passage`, with at most four queries each.
        """
        examples = (
            f"Question: {example}\nSearch queries:\n"
            + "\n".join(f"{i}. {query}" for i, query in enumerate(queries[:n], 1))
            + "\n\n"
            for example, _, queries in SEARCH_EXAMPLES
        )
        unfenced = {EXAMPLES_PLACEHOLDER: "".join(examples), "n": str(n)}
        return self._fill("search_queries", unfenced, question=question)

    def better_query(self, question: str, passages: Sequence[str]) -> str:
        """Return the prompt for a better search query, given the passages of a first search."""
        return self._fill("better_query", question=question, passages=numbered_list(passages))

    def _fill(
        self,
        name: str,
        unfenced: Mapping[str, str] | None = None,
        /,
        *,
        question: str | None = None,
        **quoted: str,
    ) -> str:
        """Fill a template in one pass, because texts may contain braces.

        The conversation before a question with a history is put into a section before it.

        Args:
            name: the name of the template.
            unfenced: the package's own texts by placeholder; the token is computed without them.
            question: the user's question, which has no fence, or None if the template has no question.
            **quoted: texts with a fence, by placeholder.
        """
        history = history_of(question)
        texts = quoted if question is None else {"question": question, **quoted}
        if history:
            texts["conversation"] = conversation_text(history)
        texts[FENCE_PLACEHOLDER] = fence_token(texts.values())
        if unfenced:
            texts.update(unfenced)
        pieces, placeholders = self._split_template(name, after_conversation=bool(history))
        filled = [*pieces]
        filled[1::2] = [texts[placeholder] for placeholder in placeholders]
        return "".join(filled)

    def _split_template(self, name: str, *, after_conversation: bool) -> tuple[Sequence[str], Sequence[str]]:
        """Return a template as a list of texts and names of placeholders in turn, and the names alone; cached."""
        if (name, after_conversation) not in self._split_templates:
            template = self._templates[name]
            if after_conversation:
                template = FIRST_QUESTION_LINE.sub(lambda _: CONVERSATION_SECTION, template, count=1)
            pieces = PLACEHOLDER.split(self._add_fences(template))
            self._split_templates[name, after_conversation] = pieces, pieces[1::2]
        return self._split_templates[name, after_conversation]


DEFAULT_PROMPTS: Final = Prompts()
"""The package's prompts."""

REWORDED_PROMPTS: Final = Prompts(REWORDED_TEMPLATES)
"""The prompts with another wording of some judge prompts, to measure how much verdicts depend on the wording."""


def repair_prompt(why: str) -> str:
    """Return the prompt that repeats the request of a rating after an unreadable reply; `why` is the problem."""
    return f"Your reply cannot be read: {why}. Reply again.\n{RATING_INSTRUCTION}"


def build_prompts(templates: object, where: str) -> Prompts:
    """Return the prompts with a user's templates by name, or raise InputError, which names their origin, `where`."""
    if not isinstance(templates, Mapping):
        raise InputError(
            f"{where} gives {type(templates).__name__}, and not a dict of prompts by name.\n"
            'Return {"answer": "…"}, say.'
        )
    for name, template in templates.items():
        _check_template(name, template, where)
    return Prompts(templates)


def read_templates(path: Path) -> dict[str, str]:
    """Return the templates of a TOML file by name; raise InputError if the file is unreadable or a template invalid."""
    import tomllib  # noqa: PLC0415 - few runs have such a file

    try:
        refuse_special(path)
        templates = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"The prompts {path} cannot be read: {error.strerror or error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(
            f"The prompts {path} are not TOML: {error}.\n"
            'Write each as NAME = """…""", with placeholders in braces, such as {question}.'
        ) from None
    build_prompts(templates, str(path))
    return templates


def read_prompts(path: Path | None) -> Prompts:
    """Return the prompts with the templates of a TOML file (see `read_templates`); None: the package's prompts."""
    return DEFAULT_PROMPTS if path is None else Prompts(read_templates(path))


def _check_template(name: object, template: object, where: str) -> None:
    if name not in TEMPLATES:
        hint = did_you_mean(str(name), TEMPLATES)
        raise InputError(f"{where}: there is no prompt {name!r}.{hint}\nThere are: {', '.join(TEMPLATES)}.")
    if not isinstance(template, str):
        raise InputError(f"{where}: the prompt {name} is {type(template).__name__}. Write it as text.")
    # A template may leave out the examples, and the token: fences have the token even without an explanation.
    expected, actual = (
        dict.fromkeys(f"{{{match}}}" for match in PLACEHOLDER.findall(text) if match != FENCE_PLACEHOLDER)
        for text in (TEMPLATES[str(name)], template)
    )
    missing = expected.keys() - actual - {f"{{{EXAMPLES_PLACEHOLDER}}}"}
    for how, names in (("lacks", missing), ("does not know", actual.keys() - expected)):
        if names:
            differing, allowed = ", ".join(sorted(names)), ", ".join(expected)
            raise InputError(
                f"{where}: the prompt {name} {how} {differing}.\nIts placeholders are: {allowed}."
            )


def few_shot_prompt(question: str, passages: Sequence[str]) -> str:
    """Return the prompt for a short answer of a small base model, with four worked examples.

    Each example has several passages, because a base model copies the pattern that it sees: from one passage it learns
    to copy, from several to choose.
    """
    instruction = "Read each question and give a short answer (at most 5 words), copied from the text."
    return _few_shot(instruction, _question_around_bullets, ANSWER_EXAMPLES, question, passages)


def few_shot_citing_prompt(question: str, passages: Sequence[str]) -> str:
    """Return the prompt for all answers with citations of a base model, with two worked examples."""
    return _few_shot(CITING_INSTRUCTION, _question_before_and_after, CITING_EXAMPLES, question, passages)


def few_shot_long_answer_prompt(question: str, passages: Sequence[str]) -> str:
    """Return the prompt for a long answer of a base model, with two worked examples that each combine two passages."""
    return _few_shot(
        LONG_ANSWER_INSTRUCTION, _question_before_and_after, LONG_ANSWER_EXAMPLES, question, passages
    )


def few_shot_question_prompt(passage: str) -> str:
    """Return the prompt for a question about a passage, and its answer, of a base model, with worked examples."""
    worked = "".join(f"Passage: {passage}\n{reply}\n\n" for passage, reply in QUESTION_EXAMPLES)
    return f"{QUESTION_INSTRUCTION}\n\n{worked}Passage: {' '.join(passage.split())}\nQuestion:"


def _few_shot(
    instruction: str,
    render: Callable[[str, Sequence[str]], str],
    examples: Sequence[WorkedExample],
    question: str,
    passages: Sequence[str],
) -> str:
    """Return an instruction, worked examples, and the question in the same form: `render(question, passages)`."""
    worked = _worked_examples(render, examples)
    return f"{instruction}\n\n{worked}{_conversation_section(question)}{render(question, passages)}"


@cache
def _worked_examples(render: Callable[[str, Sequence[str]], str], examples: Sequence[WorkedExample]) -> str:
    """Return the examples with their answers, each in the form of the question that follows them."""
    return "".join(f"{render(question, passages)} {answer}\n\n" for question, passages, answer in examples)


def _conversation_section(question: str) -> str:
    conversation = conversation_text(history_of(question))
    return CONVERSATION_SECTION.replace("{conversation}", conversation) if conversation else ""


def _question_before_and_after(question: str, passages: Sequence[str]) -> str:
    return f"Question: {question}\n\nPassages:\n{numbered_list(passages)}\n\nQuestion: {question}\nAnswer:"


def _question_around_bullets(question: str, passages: Sequence[str]) -> str:
    listed = "\n".join(f"- {' '.join(passage.split())}" for passage in passages) or "(none)"
    return (
        f"Question: {question}\n\n{listed}\n\n"
        f"The question was: {question}\nThe answer, in a few words copied from above:"
    )
