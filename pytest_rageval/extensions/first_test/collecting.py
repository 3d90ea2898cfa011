"""Whether pytest collects the new test; if it does not, the error and what to do about it."""

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Final

from pytest_rageval.cli.console import echo, echo_err
from pytest_rageval.core.errors import summary_line

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
    """Say which test pytest collects, or warn that it collects none."""
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
    """Return why pytest does not collect a test, as its output says, and what to do."""
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
    """Return class and message of the last exception in an output of pytest, in one line; empty if there is none."""
    blocks = [
        [line.removeprefix(TRACEBACK_LINE) for line in block]
        for is_error, block in groupby(output.splitlines(), lambda line: line.startswith(TRACEBACK_LINE))
        if is_error
    ]
    last = blocks[-1] if blocks else []
    first = next((number for number, line in enumerate(last) if ERROR.match(line)), 0)
    return " ".join(line.strip() for line in last[first:])
