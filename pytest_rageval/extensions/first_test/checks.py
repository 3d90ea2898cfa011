"""What `rageval init` checks: the retriever that is named, and whether pytest collects the new test."""

import inspect
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cli.console import echo, echo_err
from pytest_rageval.core.errors import CallableError, InputError, did_you_mean, summary_line
from pytest_rageval.retrievers.adapters import ADAPTERS, search_of

RETRIEVER_NAME: Final = re.compile(r"(?P<module>\w+(\.\w+)*):(?P<name>\w+)(?P<rest>(\(\)|\.\w+)*)")
"""`module:name`, followed by attributes and calls without arguments: my_app:store.as_retriever()."""


def parse_retriever_name(retriever: str) -> re.Match[str]:
    match = RETRIEVER_NAME.fullmatch(retriever)
    if match is None:
        raise InputError(
            f"--retriever {retriever!r} is not of the form MODULE:NAME.\n"
            "Write the module as in an import, a colon, and the retriever in it: support_bot.search:search, "
            "my_app:store.as_retriever(), or my_app:build() for a function that makes it."
        )
    return match


def check_retriever(retriever: str, folders: Sequence[str]) -> str:
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
    with suppress(TypeError, ValueError):
        return callable(function) and not inspect.signature(function).parameters
    return False


TIMEOUT_S: Final = 120

TRACEBACK_LINE: Final = "E   "
ERROR: Final = re.compile(r"[A-Za-z_][\w.]*(:|$)")  # the line with the class of an exception
USAGE_ERROR: Final = re.compile(r"^(?:\S+: error|ERROR): (?!usage:)(.+)", re.MULTILINE)
KEY_ERROR: Final = re.compile(r"api[_ -]?key|credentials", re.IGNORECASE)
KEY_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*_API_KEY\b")

ADD_LINES: Final = (
    "Add the lines that are named above, if any. If it stays so, `pytest --collect-only` shows why"
)
UNSEEN: Final = "Until pytest collects it, nothing is tested."


def check_collected(test: Path) -> bool:
    try:
        done = subprocess.run(
            # -P: like the command `pytest`, without the current folder in sys.path.
            [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q"],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        echo_err(f"warning: whether pytest collects {test.as_posix()} is not known: {summary_line(error)}")
        return False
    name = test.as_posix()
    lines = done.stdout.splitlines()
    found = [line for line in lines if line.replace("\\", "/").startswith((f"{name}:", f"{name} "))]
    if found and done.returncode == 0:
        echo(f"collected {found[0]}")
        return True
    # The errors of a conftest.py and of options are in stderr, those of tests in stdout.
    echo_err(f"warning: {not_collected(name, done.stderr + done.stdout)}")
    return False


def not_collected(test: str, output: str) -> str:
    error = _exception(output)
    usage = USAGE_ERROR.findall(output)
    lines = [stripped for line in output.splitlines() if (stripped := line.strip("= "))]
    seen = error or (usage or lines or ["it printed nothing"])[-1]
    variable = KEY_VARIABLE.search(error)
    if KEY_ERROR.search(error):
        name = variable[0] if variable else ""
        advice = f"Set the key before pytest starts: export {name}=…" if name else "Set the key that it names"
        advice += "; or make the client when it is first used, not at import"
        if name == "OPENAI_API_KEY":
            advice += (
                ".\nWith `rageval_gateway = true` in pytest's settings the variable is set before conftest.py is "
                "imported, and recorded replies need no key"
            )
    elif error.startswith(("ModuleNotFoundError", "ImportError")):
        advice = f"{ADD_LINES} a module cannot be imported"
    elif error:
        advice = "`pytest --collect-only` shows its traceback"
    else:
        advice = f"{ADD_LINES}: testpaths, addopts, python_files or an import error"
    return f"pytest does not collect {test}: {seen.rstrip('.')}.\n{advice}. {UNSEEN}"


def _exception(output: str) -> str:
    blocks = [
        [line.removeprefix(TRACEBACK_LINE) for line in block]
        for is_error, block in groupby(output.splitlines(), lambda line: line.startswith(TRACEBACK_LINE))
        if is_error
    ]
    last = blocks[-1] if blocks else []
    first = next((number for number, line in enumerate(last) if ERROR.match(line)), 0)
    return " ".join(line.strip() for line in last[first:])
