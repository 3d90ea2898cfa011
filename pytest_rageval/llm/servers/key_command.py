"""The key that a command prints, for servers whose keys expire."""

import re
import subprocess  # nosec B404 # runs the command that the user has named
from collections.abc import Sequence
from typing import Final

from pytest_rageval.errors import ServerError
from pytest_rageval.secret import Secret

__all__ = ["printed_key"]

LONGEST_S: Final = 60.0

SHELL: Final = re.compile(r"~|\$[\w({]|\d?[|&;<>]")
"""The beginning of a word that means something else to a shell."""

FOR_A_SHELL: Final = (
    '\nA word of it is for a shell, such as |, ~ or $NAME, and none reads it: write ["sh", "-c", "COMMAND"].'
)


def printed_key(command: Sequence[str]) -> Secret:
    """Run a command, without a shell, and return the one line that it prints.

    Raises:
        ServerError: there is no such command, it fails, takes too long, or prints something else. What it printed is
            not in the error, since it may be a key.
    """
    found = _run(command)
    if isinstance(found, Secret):
        return found
    # Raised here, where no variable holds what the command printed.
    hint = FOR_A_SHELL if any(map(SHELL.match, command)) else ""
    raise ServerError(
        f"The command of api_key_command, {command[0]!r}, {found}.\n"
        f"Run it in a terminal: it is to print the key, and nothing else, on its standard output.{hint}"
    )


def _run(command: Sequence[str]) -> Secret | str:
    """Return the key, or what went wrong."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return f"printed nothing in {LONGEST_S:g} s"
    except (OSError, ValueError) as error:
        return f"cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}"
    if done.returncode:
        return f"ended with exit status {done.returncode}"
    lines = done.stdout.decode("utf-8", "replace").split()
    # A key has no white space: "Bearer abc" or a table of tokens is no key.
    return Secret(lines[0]) if len(lines) == 1 else f"printed {len(lines)} words, and a key is one"
