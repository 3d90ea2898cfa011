"""Renders prompts: filled templates for instruction-tuned models, and few-shot prompts that a base model continues."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.evalset import conversation_text, history_of
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.models.prompts import (
    ANSWER_EXAMPLES,
    ARGUMENTS,
    CITING_EXAMPLES,
    CITING_INSTRUCTION,
    EXAMPLES_PLACEHOLDER,
    FENCE_PLACEHOLDER,
    FENCE_TEXT,
    LONG_ANSWER_EXAMPLES,
    LONG_ANSWER_INSTRUCTION,
    PLACEHOLDER,
    PREFERENCE_WITH_EXAMPLES,
    QUESTION_AND_PASSAGES,
    QUESTION_EXAMPLES,
    QUESTION_INSTRUCTION,
    REWORDED_TEMPLATES,
    SEARCH_EXAMPLES,
    TEMPLATES,
    UNFENCED_PLACEHOLDERS,
    WorkedExample,
    fence,
    numbered_list,
    single_spaced,
)

TOKEN_LENGTH: Final = 12


def bulleted_list(texts: Sequence[str]) -> str:
    return "\n".join([f"- {single_spaced(text)}" for text in texts])


def fence_token(texts: Iterable[str]) -> str:
    """Return a token that none of the texts contains: 12 hex digits of a SHA-256 of all texts.

    The same texts have the same token, so that their prompt and its request key stay the same. The author of a text
    cannot put the token into it, because the token depends on the complete text and on the other texts.

    >>> fence_token(["How far?", "5 km"])
    '3cf00396661e'
    """
    hashed = joined = "\0".join(texts)
    for n in count():
        # A Python string may contain half of a surrogate pair, which UTF-8 does not allow.
        token = hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:TOKEN_LENGTH]
        if token not in joined.lower():
            break
        hashed = f"{joined}\0{n}"
    return token


_FORMATS: Final[Mapping[str, Callable[[Any], str]]] = {
    # An answer that is rated is the only text of a list.
    "answer": lambda text: text if isinstance(text, str) else "\n".join(text),
    # So is a list that is formatted already.
    "passages": lambda texts: texts if isinstance(texts, str) else numbered_list(texts),
    "references": bulleted_list,
    **dict.fromkeys(("first_passages", "second_passages", "gold", "nuggets", "sources"), numbered_list),
    # On one line a text cannot look like a part of the prompt, and its layout has no influence.
    **dict.fromkeys(("passage", "first", "second"), single_spaced),
}
"""By placeholder: the function that formats its text or texts; the question is unchanged."""

_PLACEHOLDERS: Final = {name: placeholders.split() for name, placeholders in ARGUMENTS.items()}

CONVERSATION_SECTION: Final = "Conversation before the question:\n{conversation}\n\n"
"""The section of a prompt with the history of a question; it precedes the first line with the question."""

FIRST_QUESTION_LINE: Final = re.compile(r"^(?=.*\{question\})", re.MULTILINE)


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

    def fill(self, name: str, *texts: str | Sequence[str]) -> str:
        """Return the prompt of a template with these texts, in the order of `ARGUMENTS`."""
        given: dict[str, Any] = {}
        for placeholder, text in zip(_PLACEHOLDERS[name], texts, strict=True):
            form = _FORMATS.get(placeholder)
            given[placeholder] = text if form is None else form(text)
        if "nuggets" in given:
            # The token of the fences depends on the order of the texts, and keys must stay.
            given["nuggets"] = given.pop("nuggets")
        return self._fill(name, **given)

    def hypothetical_passage(self, question: str, *, worked: bool = True) -> str:
        """Return the prompt for a passage that could answer a question, true or not; a blank line ends the passage.

        A base model needs the worked examples (`worked`) to continue; to an instruction-tuned model they show length
        and style.
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

        The conversation before a question is put into a section before it. `unfenced` are the package's own texts by
        placeholder: the token is computed without them.
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


DEFAULT_PROMPTS: Final = Prompts()  # the package's prompts
REWORDED_PROMPTS: Final = Prompts(REWORDED_TEMPLATES)
"""The prompts with another wording of some judge prompts, to measure how much verdicts depend on the wording."""


def repair_prompt(why: str, instruction: str) -> str:
    return f"Your reply cannot be read: {why}. Reply again.\n{instruction}"


def build_prompts(templates: object, where: str) -> Prompts:
    """Return the prompts with a user's templates by name; an InputError names their origin, `where`."""
    if not isinstance(templates, Mapping):
        raise InputError(
            f"{where} gives {type(templates).__name__}, and not a dict of prompts by name.\n"
            'Return {"answer": "…"}, say.'
        )
    for name, template in templates.items():
        _check_template(name, template, where)
    return Prompts(templates)


def read_templates(path: Path) -> dict[str, str]:
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


_AROUND_BULLETS: Final = (
    "Question: {question}\n\n{passages}\n\n"
    "The question was: {question}\nThe answer, in a few words copied from above:"
)


def _bullets(passages: Sequence[str]) -> str:
    return bulleted_list(passages) or "(none)"


def _few_shot(
    instruction: str,
    form: str,
    examples: Sequence[WorkedExample],
    listed: Callable[[Sequence[str]], str] = numbered_list,
) -> str:
    """Return a template of an instruction, worked examples with their answers, and the question in the same form."""
    worked = (
        f"{form.format(question=question, passages=listed(passages))} {answer}\n\n"
        for question, passages, answer in examples
    )
    return f"{instruction}\n\n{''.join(worked)}{form}"


FEW_SHOT_PROMPTS: Final = Prompts(
    {
        "answer": _few_shot(
            "Read each question and give a short answer (at most 5 words), copied from the text.",
            _AROUND_BULLETS,
            ANSWER_EXAMPLES,
            _bullets,
        ),
        "citing": _few_shot(CITING_INSTRUCTION, QUESTION_AND_PASSAGES, CITING_EXAMPLES),
        "long_answer": _few_shot(LONG_ANSWER_INSTRUCTION, QUESTION_AND_PASSAGES, LONG_ANSWER_EXAMPLES),
        "question": (
            f"{QUESTION_INSTRUCTION}\n\n"
            + "".join(f"Passage: {passage}\n{reply}\n\n" for passage, reply in QUESTION_EXAMPLES)
            + "Passage: {passage}\nQuestion:"
        ),
    },
    fences=False,
)
"""The prompts of a small base model, with worked examples that it continues."""


def few_shot_answer_prompt(question: str, passages: Sequence[str]) -> str:
    return FEW_SHOT_PROMPTS.fill("answer", question, _bullets(passages))
