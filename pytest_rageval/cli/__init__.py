"""The `rageval` command: upkeep of what the plugin keeps and reads, and a look at the judge."""

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_rageval.cli.cache import add_to as add_cache
from pytest_rageval.cli.evalset import add_to as add_evalset
from pytest_rageval.cli.judge import add_to as add_judge
from pytest_rageval.cli.output import note
from pytest_rageval.errors import RagevalError

__all__ = ["main"]

UNUSABLE = 2
"""Exit status, as argparse's own, for arguments and files that cannot be used."""

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: of the command line, without the program's name; None takes those of the process.

    Returns:
        The exit status: 0; 1 where damage was found; 2 for input that cannot be used; 130 after Ctrl-C.

    Raises:
        SystemExit: with 2 for arguments that are not allowed, with 0 after `--help`.
    """
    for stream in (sys.stdout, sys.stderr):
        # A model's name may hold letters that the terminal's encoding lacks.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    parser = argparse.ArgumentParser(
        prog="rageval", description="Looks after what pytest-rageval keeps and reads, and at whom it trusts."
    )
    groups = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_cache(groups)
    add_evalset(groups)
    add_judge(groups)
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except RagevalError as error:
        note(str(error))
        return UNUSABLE
    except BrokenPipeError:
        # Whoever read our output, such as `head`, has had enough. Nothing may be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        note(f"{type(error).__name__}: {error}")
        return UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status
