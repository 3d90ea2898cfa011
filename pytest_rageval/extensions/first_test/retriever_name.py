"""The retriever that `--retriever MODULE:NAME` names: it is imported, and not called."""

import inspect
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from pytest_rageval.core.errors import CallableError, InputError, did_you_mean, summary_line
from pytest_rageval.retrievers.adapters import ADAPTERS, search_of

RETRIEVER_NAME: Final = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<name>\w+)(?P<rest>(\(\)|\.\w+)*)")
"""`module:name`, followed by attributes and calls without arguments: my_app:store.as_retriever()."""


def parse_retriever_name(retriever: str) -> re.Match[str]:
    """Return a match with the groups `module`, `name`, and `rest` (attributes and calls)."""
    match = RETRIEVER_NAME.fullmatch(retriever)
    if match is None:
        raise InputError(
            f"--retriever {retriever!r} is not of the form MODULE:NAME.\n"
            "Write the module as in an import, a colon, and the retriever in it: support_bot.search:search, "
            "my_app:store.as_retriever(), or my_app:build() for a function that makes it."
        )
    return match


def check_retriever(retriever: str, folders: Sequence[str]) -> str:
    """Import the module of the retriever and look up the name, without calling anything."""
    match = parse_retriever_name(retriever)
    module, head = match["module"], f"--retriever {retriever}"
    sys.path[:0] = folders
    try:
        value: Any = import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise InputError(
                f"{head}: there is no module {missing!r}, neither in {folders[0]} nor installed for {sys.executable}.\n"
                "Start it where you start pytest, in the environment of your project: python -m pytest_rageval init …"
            ) from None
        return f"{module} cannot be imported here, so that pytest will fail: {summary_line(error)}"
    # Attributes before the first call are looked up; nothing is known about the result of a call.
    before_call, *calls = match["rest"].split("()")
    path = module
    for name in [match["name"], *before_call.split(".")[1:]]:
        if not hasattr(value, name):
            raise InputError(f"{head}: {path} has no {name!r}.{did_you_mean(name, dir(value))}")
        value, path = getattr(value, name), f"{path}.{name}"
    if calls and callable(value):
        return ""
    if calls or not any(recognises(value) for recognises, _ in ADAPTERS):
        raise InputError(
            f"{head}: {path} is of type {type(value).__name__}, which cannot be called.\n"
            "Name a function (query, k), or a retriever of LangChain, LlamaIndex or Haystack."
        )
    if isinstance(value, type) or _has_no_parameters(value):
        kind = "a class" if isinstance(value, type) else "a function without arguments"
        raise InputError(
            f"{head}: {path} is {kind}.\nIf it makes the retriever, write --retriever '{retriever}()'."
        )
    try:
        search_of(value, ADAPTERS, path)
    except CallableError as error:
        raise InputError(f"{head}: {error}") from None
    return ""


def _has_no_parameters(function: object) -> bool:
    """Return True for a function without parameters, which cannot be called with a question."""
    with suppress(TypeError, ValueError):
        return callable(function) and not inspect.signature(function).parameters
    return False
