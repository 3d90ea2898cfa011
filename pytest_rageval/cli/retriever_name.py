"""The argument `--retriever MODULE:NAME`: its form, and what it names."""

import inspect
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from pytest_rageval.errors import InputError, did_you_mean, summary_line
from pytest_rageval.retrievers.adapters import ADAPTERS

__all__ = ["check_retriever", "retriever_named"]

RETRIEVER: Final = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<name>\w+)(?P<rest>(\(\)|\.\w+)*)")
"""`module:name`, followed by attributes and calls without arguments: my_app:store.as_retriever()."""


def retriever_named(retriever: str) -> re.Match[str]:
    """The parts of the argument: module, name and rest.

    Raises:
        InputError: it is not of the form.
    """
    match = RETRIEVER.fullmatch(retriever)
    if match is None:
        raise InputError(
            f"--retriever {retriever!r} is not of the form MODULE:NAME.\n"
            "Write the module as in an import, a colon, and the retriever in it: support_bot.search:search, "
            "my_app:store.as_retriever(), or my_app:build() for a function that makes it."
        )
    return match


def check_retriever(retriever: str, folders: Sequence[str]) -> str:
    """Import what the test will import, and call nothing; return a warning, empty without one.

    Args:
        retriever: the argument.
        folders: to put before sys.path, as pytest will.

    Raises:
        InputError: the module or the name in it does not exist, or the object cannot be a retriever.
    """
    match = retriever_named(retriever)
    module, head = match["module"], f"--retriever {retriever}"
    sys.path[:0] = folders
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise InputError(
                f"{head}: there is no module {missing!r}, neither in {folders[0]} nor installed for {sys.executable}.\n"
                "Start it where you start pytest, in the environment of your project: python -m pytest_rageval init …"
            ) from None
        return f"{module} cannot be imported here, so that pytest will fail: {summary_line(error)}"
    made, *calls = match["rest"].split("()")
    path = module
    for name in [match["name"], *made.split(".")[1:]]:
        if not hasattr(found, name):
            raise InputError(f"{head}: {path} has no {name!r}.{did_you_mean(name, dir(found))}")
        found, path = getattr(found, name), f"{path}.{name}"
    if calls and callable(found):
        return ""
    if calls or not any(recognises(found) for recognises, _ in ADAPTERS):
        raise InputError(
            f"{head}: {path} is of type {type(found).__name__}, which cannot be called.\n"
            "Name a function (query, k), or a retriever of LangChain, LlamaIndex or Haystack."
        )
    if isinstance(found, type) or _takes_nothing(found):
        what = "a class" if isinstance(found, type) else "a function without arguments"
        raise InputError(
            f"{head}: {path} is {what}.\nIf it makes the retriever, write --retriever '{retriever}()'."
        )
    return ""


def _takes_nothing(function: object) -> bool:
    """Return True if a function cannot be called with a question."""
    with suppress(TypeError, ValueError):
        return callable(function) and not inspect.signature(function).parameters
    return False
