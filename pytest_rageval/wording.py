"""The prompts in force: the package's own, and in their place those of the user's.

A user's prompt is a template under the name of the package's, with the same
placeholders. What is put in for them is the same too: quoted texts are fenced.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from pytest_rageval.errors import InputError
from pytest_rageval.fence import unfenced
from pytest_rageval.prompts import (
    MARK,
    PLACEHOLDER,
    REWORDED,
    TEMPLATES,
    answer_prompt,
    citing_prompt,
    graded_answer_prompt,
    long_answer_prompt,
    preference_prompt,
    question_prompt,
    rating_prompt,
    relevance_prompt,
    same_answer_prompt,
)

__all__ = ["OTHER", "OWN", "Prompts", "read_prompts", "read_templates"]


class Prompts:
    """What generators and judges ask, with some templates in place of the package's own.

    Args:
        replaced: by the names of `TEMPLATES`.
        fences: whether they keep the fences around quoted texts.
    """

    def __init__(self, replaced: Mapping[str, str] | None = None, *, fences: bool = True) -> None:
        self._replaced = dict(replaced or {})
        self._fences = fences

    @classmethod
    def of(cls, given: object, where: str) -> Self:
        """The prompts with those that a user gives.

        Args:
            given: templates by name.
            where: they were given, for errors.

        Raises:
            InputError: it is no such mapping, a name is unknown, or a template's placeholders are not
                those of the package's own.
        """
        if not isinstance(given, Mapping):
            message = (
                f"{where} gives {type(given).__name__}, and not a dict of prompts by name.\n"
                'Return {"answer": "…"}, say.'
            )
            raise InputError(message)
        for name, template in given.items():
            _check(name, template, where)
        return cls(given)

    def without_fences(self) -> "Prompts":
        """The same ones, sent without fences: only to measure what these are worth against injections."""
        return Prompts(self._replaced, fences=False)

    def answer(self, question: str, passages: Sequence[str]) -> str:
        """See `answer_prompt`."""
        return self._sent(answer_prompt(question, passages, self._replaced.get("answer")))

    def citing(self, question: str, passages: Sequence[str]) -> str:
        """See `citing_prompt`."""
        return self._sent(citing_prompt(question, passages, self._replaced.get("citing")))

    def long_answer(self, question: str, passages: Sequence[str]) -> str:
        """See `long_answer_prompt`."""
        return self._sent(long_answer_prompt(question, passages, self._replaced.get("long_answer")))

    def question(self, passage: str) -> str:
        """See `question_prompt`."""
        return self._sent(question_prompt(passage, self._replaced.get("question")))

    def same_answer(self, question: str, references: Sequence[str], prediction: str) -> str:
        """See `same_answer_prompt`."""
        return self._sent(
            same_answer_prompt(question, references, prediction, self._replaced.get("same_answer"))
        )

    def graded_answer(self, question: str, references: Sequence[str], prediction: str) -> str:
        """See `graded_answer_prompt`."""
        return self._sent(
            graded_answer_prompt(question, references, prediction, self._replaced.get("graded_answer"))
        )

    def relevance(self, question: str, passage: str) -> str:
        """See `relevance_prompt`."""
        return self._sent(relevance_prompt(question, passage, self._replaced.get("relevance")))

    def preference(self, question: str, first: str, second: str) -> str:
        """See `preference_prompt`."""
        return self._sent(preference_prompt(question, first, second, self._replaced.get("preference")))

    def rating(self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]) -> str:
        """See `rating_prompt`."""
        return self._sent(rating_prompt(criterion, question, rated, against, self._replaced.get(criterion)))

    def _sent(self, prompt: str) -> str:
        return prompt if self._fences else unfenced(prompt)


OWN: Final = Prompts()
"""The package's own, all of them."""

OTHER: Final = Prompts(REWORDED)
"""What they are compared with, to see how much a judge's verdicts depend on words."""


def read_templates(path: Path) -> dict[str, str]:
    """The templates of a TOML file, by name.

    Raises:
        InputError: the file cannot be read, is not TOML, or what it says are no prompts; see `Prompts.of`.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The prompts {path} cannot be read: {error.strerror or error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(
            f"The prompts {path} are not TOML: {error}.\n"
            'Write each as NAME = """…""", with placeholders in braces, such as {question}.'
        ) from None
    Prompts.of(given, str(path))
    return given


def read_prompts(path: Path | None) -> Prompts:
    """The prompts with those of a TOML file; the package's own where there is none.

    Raises:
        InputError: see `read_templates`.
    """
    return OWN if path is None else Prompts(read_templates(path))


def _check(name: object, template: object, where: str) -> None:
    """Let pass a template that can be filled as the package's own is."""
    if name not in TEMPLATES:
        near = difflib.get_close_matches(str(name), TEMPLATES, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        message = f"{where}: there is no prompt {name!r}.{hint}\nThere are: {', '.join(TEMPLATES)}."
        raise InputError(message)
    if not isinstance(template, str):
        message = f"{where}: the prompt {name} is {type(template).__name__}. Write it as text."
        raise InputError(message)
    # The mark alone may be left out: quoted texts have it around them whether or not the template says so.
    wanted, found = (
        {each: None for each in PLACEHOLDER.findall(text) if each != MARK}
        for text in (TEMPLATES[str(name)], template)
    )
    wrong = {"lacks": wanted.keys() - found.keys(), "does not know": found.keys() - wanted.keys()}
    for how, names in wrong.items():
        if names:
            told = ", ".join(f"{{{each}}}" for each in sorted(names))
            listed = ", ".join(f"{{{each}}}" for each in wanted)
            message = f"{where}: the prompt {name} {how} {told}.\nIts placeholders are: {listed}."
            raise InputError(message)
