"""Prompts for models at a server, filled templates; and few-shot prompts, pages that a base model continues."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from pytest_rageval.conversation import conversation_text, history_of
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.files import refuse_special
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.prompts.examples import (
    ANSWER_EXAMPLES,
    CITING_EXAMPLES,
    LONG_ANSWER_EXAMPLES,
    SEARCH_EXAMPLES,
    Example,
)
from pytest_rageval.prompts.templates import (
    CITING_INSTRUCTION,
    CRITERIA,
    EXAMPLES,
    LONG_ANSWER_INSTRUCTION,
    MARK,
    PLACEHOLDER,
    QUESTION_EXAMPLES,
    QUESTION_INSTRUCTION,
    RATING_FORM,
    REWORDED,
    TEMPLATES,
    UNFENCED,
    UNQUOTED,
    WORKED_PREFERENCE,
    bulleted,
    fenced,
    mark_for,
    numbered,
)

__all__ = [
    "DEFAULT_PROMPTS",
    "OTHER",
    "Prompts",
    "few_shot_citing_prompt",
    "few_shot_long_answer_prompt",
    "few_shot_prompt",
    "few_shot_question_prompt",
    "prompts_of",
    "read_prompts",
    "read_templates",
    "repair_prompt",
]

_SHOWN: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "answer": "\n".join,
    "references": bulleted,
    "passages": numbered,
    "gold": numbered,
}
"""How the texts of a placeholder are listed."""

CONVERSATION: Final = "Conversation before the question:\n{conversation}\n\n"
"""The section of a prompt before the line that first names a question with a history."""

FIRST_QUESTION: Final = lazy_pattern(r"^(?=.*\{question\})", re.MULTILINE)


class Prompts:
    """The prompts of generators and judges: `TEMPLATES`, some of them replaced by others with the same placeholders.

    Without `fences`, quoted texts have no lines around them.
    """

    def __init__(self, replaced: Mapping[str, str] | None = None, *, fences: bool = True) -> None:
        self._templates = {**TEMPLATES, **(replaced or {})}
        self._fences = fences
        self._cut: dict[tuple[str, bool], tuple[Sequence[str], Sequence[str]]] = {}

    def with_examples(self) -> "Prompts":
        """Return the prompts with worked examples where two answers are compared, unless that prompt is replaced."""
        if self._templates["preference"] != TEMPLATES["preference"]:
            return self
        return Prompts({**self._templates, "preference": WORKED_PREFERENCE}, fences=self._fences)

    def without_fences(self) -> "Prompts":
        """Return the prompts without fences and what explains them: only to measure their effect on injections."""
        return Prompts({name: UNFENCED.sub("", text) for name, text in self._templates.items()}, fences=False)

    def template(self, name: str) -> str:
        """The template of a prompt, with the lines around quoted texts; `{mark}` is a placeholder of these lines."""
        return self._with_fences(self._templates[name])

    def _with_fences(self, template: str) -> str:
        def placed(found: re.Match[str]) -> str:
            quoted = self._fences and found[1] not in UNQUOTED
            return fenced(found[1], found[0], f"{{{MARK}}}") if quoted else found[0]

        return PLACEHOLDER.sub(placed, template)

    def answer(self, question: str, passages: Sequence[str]) -> str:
        """Ask an instruction-tuned model for a short answer from passages, with the question before and after them.

        So a model that reads once knows what to look for, and what was asked when it has read.
        """
        return self._filled("answer", question=question, passages=numbered(passages))

    def citing(self, question: str, passages: Sequence[str]) -> str:
        """Ask for all answers that passages hold, each with the numbers of its passages, from 1."""
        return self._filled("citing", question=question, passages=numbered(passages))

    def long_answer(self, question: str, passages: Sequence[str]) -> str:
        """Ask for an answer in whole sentences, with all that the passages say about the question."""
        return self._filled("long_answer", question=question, passages=numbered(passages))

    def question(self, passage: str) -> str:
        """Ask for a question that a passage answers, and for the answer as a quote from it."""
        return self._filled("question", passage=" ".join(passage.split()))

    def same_answer(self, question: str, references: Sequence[str], prediction: str) -> str:
        """Ask a judge whether a prediction says what one of the references says: yes or no.

        The rule is that of LLM-retEval: all information of at least one reference, numbers and dates included,
        nothing that contradicts it; more is allowed.
        """
        texts = {"references": bulleted(references), "answer": prediction}
        return self._filled("same_answer", question=question, **texts)

    def graded_answer(self, question: str, references: Sequence[str], prediction: str) -> str:
        """Ask a judge how much of one of the references a prediction says: a whole number from 1 to 5.

        The rule of `same_answer` is the highest grade; a contradiction is the lowest.
        """
        texts = {"references": bulleted(references), "answer": prediction}
        return self._filled("graded_answer", question=question, **texts)

    def relevance(self, question: str, passage: str) -> str:
        """Ask a judge whether a passage is relevant to a question: yes or no."""
        return self._filled("relevance", question=question, passage=" ".join(passage.split()))

    def sufficiency(self, question: str, passages: Sequence[str]) -> str:
        """Ask a judge whether passages together are enough to answer a question: a short reason, then yes or no.

        The rule is that of sufficient context (Joren et al., 2025).
        """
        return self._filled("sufficiency", question=question, passages=numbered(passages))

    def preference(self, question: str, first: str, second: str) -> str:
        """Ask a judge which of two long answers is better: a short reason, then 1, 2 or 0 in a tag.

        The criteria are those of RAG-QA Arena. Each answer is one line: it cannot look like a part of the prompt, and
        none wins by its layout.
        """
        first, second = " ".join(first.split()), " ".join(second.split())
        return self._filled("preference", question=question, first=first, second=second)

    def rating(self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]) -> str:
        """Ask a judge for a grade from 1 to 5 by one of `CRITERIA`, as a JSON object with a short explanation before.

        An answer or retrieved passages are rated against reference answers or passages.
        """
        what, measure = CRITERIA[criterion]
        texts = {what: _SHOWN[what](rated), measure: _SHOWN[measure](against)}
        return self._filled(criterion, question=question, **texts)

    def support(self, question: str, nuggets: Sequence[str], passage: str) -> str:
        """Ask a judge which nuggets a passage or an answer says: a JSON list of labels."""
        texts = {"passage": " ".join(passage.split()), "nuggets": numbered(nuggets)}
        return self._filled("nugget_support", question=question, **texts)

    def nuggets(self, question: str, sources: Sequence[str]) -> str:
        """Ask for the facts of good answers to a question, from sources: a JSON list of objects."""
        return self._filled("nuggets", question=question, sources=numbered(sources))

    def hypothetical_passage(self, question: str, *, worked: bool = True) -> str:
        """Ask for a passage that could answer a question, true or not; a blank line ends it.

        A base model continues the worked examples; an instruction-tuned one takes from them how long and plain one is,
        and may do without.
        """
        shots = (f"Question: {shot}\nPassage: {passage}\n\n" for shot, passage, _ in SEARCH_EXAMPLES)
        plain = {EXAMPLES: "".join(shots) if worked else ""}
        return self._filled("hypothetical_passage", plain, question=question)

    def search_queries(self, question: str, n: int) -> str:
        """Ask for n search queries that look for what a question asks, one a line, numbered.

        With worked examples, as `hypothetical_passage`; they show at most four queries each.
        """
        shots = (
            f"Question: {shot}\nSearch queries:\n"
            + "\n".join(f"{i}. {query}" for i, query in enumerate(queries[:n], 1))
            + "\n\n"
            for shot, _, queries in SEARCH_EXAMPLES
        )
        return self._filled("search_queries", {EXAMPLES: "".join(shots), "n": str(n)}, question=question)

    def better_query(self, question: str, passages: Sequence[str]) -> str:
        """Ask for a better search query, given what a first search found."""
        return self._filled("better_query", question=question, passages=numbered(passages))

    def _filled(
        self,
        name: str,
        plain: Mapping[str, str] | None = None,
        /,
        *,
        question: str | None = None,
        **quoted: str,
    ) -> str:
        """Fill a template in one pass, since a text may hold braces.

        All texts but the user's question, and those that are `plain`, are quoted.
        A question with a history has the conversation in a section before it.
        """
        history = history_of(question)
        texts = quoted if question is None else {"question": question, **quoted}
        if history:
            texts["conversation"] = conversation_text(history)
        texts[MARK] = mark_for(texts.values())
        if plain:
            texts.update(plain)
        pieces, placeholders = self._pieces(name, after_conversation=bool(history))
        filled = [*pieces]
        filled[1::2] = [texts[placeholder] for placeholder in placeholders]
        return "".join(filled)

    def _pieces(self, name: str, *, after_conversation: bool) -> tuple[Sequence[str], Sequence[str]]:
        """A template, split once at its placeholders, which are pieces too; and the placeholders."""
        if (name, after_conversation) not in self._cut:
            template = self._templates[name]
            if after_conversation:
                template = FIRST_QUESTION.sub(lambda _: CONVERSATION, template, count=1)
            pieces = PLACEHOLDER.split(self._with_fences(template))
            self._cut[name, after_conversation] = pieces, pieces[1::2]
        return self._cut[name, after_conversation]


DEFAULT_PROMPTS: Final = Prompts()
"""The package's prompts."""

OTHER: Final = Prompts(REWORDED)
"""Some judge prompts in other words, to measure how much verdicts depend on wording."""


def repair_prompt(why: str) -> str:
    """Ask once more for a rating, after a reply that contains no rating."""
    return f"Your reply cannot be read: {why}. Reply again.\n{RATING_FORM}"


def prompts_of(templates: object, where: str) -> Prompts:
    """Return the package's prompts with a user's templates by name; `where` they are from is for errors.

    Raises InputError where the placeholders of one are not those of the package's template.
    """
    if not isinstance(templates, Mapping):
        raise InputError(
            f"{where} gives {type(templates).__name__}, and not a dict of prompts by name.\n"
            'Return {"answer": "…"}, say.'
        )
    for name, template in templates.items():
        _check(name, template, where)
    return Prompts(templates)


def read_templates(path: Path) -> dict[str, str]:
    """Return the templates of a TOML file, by name; raise InputError where it cannot be used."""
    import tomllib  # noqa: PLC0415 - few runs have such a file

    try:
        refuse_special(path)
        templates = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The prompts {path} cannot be read: {error.strerror or error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(
            f"The prompts {path} are not TOML: {error}.\n"
            'Write each as NAME = """…""", with placeholders in braces, such as {question}.'
        ) from None
    prompts_of(templates, str(path))
    return templates


def read_prompts(path: Path | None) -> Prompts:
    """Return the prompts with the templates of a TOML file, or without one the package's; errors as there."""
    return DEFAULT_PROMPTS if path is None else Prompts(read_templates(path))


def _check(name: object, template: object, where: str) -> None:
    """Raise InputError unless a template can be filled like the package's."""
    if name not in TEMPLATES:
        hint = did_you_mean(str(name), TEMPLATES)
        raise InputError(f"{where}: there is no prompt {name!r}.{hint}\nThere are: {', '.join(TEMPLATES)}.")
    if not isinstance(template, str):
        raise InputError(f"{where}: the prompt {name} is {type(template).__name__}. Write it as text.")
    # Examples may be left out, and so may the mark: fences have it whether or not the template explains them.
    wanted, found = (
        dict.fromkeys(f"{{{each}}}" for each in PLACEHOLDER.findall(text) if each != MARK)
        for text in (TEMPLATES[str(name)], template)
    )
    lacking = wanted.keys() - found - {f"{{{EXAMPLES}}}"}
    for how, names in (("lacks", lacking), ("does not know", found.keys() - wanted)):
        if names:
            differing, allowed = ", ".join(sorted(names)), ", ".join(wanted)
            raise InputError(
                f"{where}: the prompt {name} {how} {differing}.\nIts placeholders are: {allowed}."
            )


def few_shot_prompt(question: str, passages: Sequence[str]) -> str:
    """Ask a small base model for a short answer.

    Each of four worked examples has several passages, because a base model copies the pattern it sees: among one
    passage it learns to copy, among several to choose.
    """
    return (
        "Read each question and give a short answer (at most 5 words), copied from the text.\n\n"
        f"{_worked(_short_question, ANSWER_EXAMPLES)}{_before(question)}{_short_question(question, passages)}"
    )


def few_shot_citing_prompt(question: str, passages: Sequence[str]) -> str:
    """Ask a base model for all answers with citations, after two worked examples."""
    worked = _worked(_question_twice, CITING_EXAMPLES)
    return f"{CITING_INSTRUCTION}\n\n{worked}{_before(question)}{_question_twice(question, passages)}"


def few_shot_long_answer_prompt(question: str, passages: Sequence[str]) -> str:
    """Ask a base model for a long answer, after two worked examples; each joins two of its passages."""
    worked = _worked(_question_twice, LONG_ANSWER_EXAMPLES)
    return f"{LONG_ANSWER_INSTRUCTION}\n\n{worked}{_before(question)}{_question_twice(question, passages)}"


def few_shot_question_prompt(passage: str) -> str:
    """Ask a base model for a question on a passage, and its answer; a blank line ends each worked example."""
    worked = "".join(f"Passage: {shown}\n{written}\n\n" for shown, written in QUESTION_EXAMPLES)
    return f"{QUESTION_INSTRUCTION}\n\n{worked}Passage: {' '.join(passage.split())}\nQuestion:"


@cache
def _worked(form: Callable[[str, Sequence[str]], str], examples: Sequence[Example]) -> str:
    """Examples in the form of the question that follows them, with their answers."""
    return "".join(f"{form(shot, page)} {answer}\n\n" for shot, page, answer in examples)


def _before(question: str) -> str:
    """The conversation before a question, as a section; empty where there is none."""
    conversation = conversation_text(history_of(question))
    return CONVERSATION.replace("{conversation}", conversation) if conversation else ""


def _question_twice(question: str, passages: Sequence[str]) -> str:
    return f"Question: {question}\n\nPassages:\n{numbered(passages)}\n\nQuestion: {question}\nAnswer:"


def _short_question(question: str, passages: Sequence[str]) -> str:
    listed = "\n".join(f"- {' '.join(passage.split())}" for passage in passages) or "(none)"
    return (
        f"Question: {question}\n\n{listed}\n\n"
        f"The question was: {question}\nThe answer, in a few words copied from above:"
    )
