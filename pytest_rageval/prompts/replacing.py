"""The user's prompts, in place of the package's own: each is a template with the same name and placeholders."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.prompts.asking import OWN, Prompts
from pytest_rageval.prompts.templates import MARK, PLACEHOLDER, TEMPLATES
from pytest_rageval.regular_file import refuse_special

__all__ = ["prompts_of", "read_prompts", "read_templates"]


def prompts_of(given: object, where: str) -> Prompts:
    """The package's prompts with those that a user gives.

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
    return Prompts(given)


def read_templates(path: Path) -> dict[str, str]:
    """The templates of a TOML file, by name.

    Raises:
        InputError: the file cannot be read, is not TOML, or what it says are no prompts; see `prompts_of`.
    """
    try:
        refuse_special(path)
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The prompts {path} cannot be read: {error.strerror or error}.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(
            f"The prompts {path} are not TOML: {error}.\n"
            'Write each as NAME = """…""", with placeholders in braces, such as {question}.'
        ) from None
    prompts_of(given, str(path))
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
        hint = did_you_mean(str(name), TEMPLATES)
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
