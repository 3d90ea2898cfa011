"""The `rageval` command: `main()` runs it.

`arguments` has the command line. One module for each group of commands: `cache_reading` (info, export),
`cache_writing` (import, prune), `cache_verify`, `evalset_check`, `evalset_anchor`, `evalset_generate`, `judge`.
They share `cache_folder`, `evalset_reading`, `quotes` (quotes found in texts) and `output` (what is printed).
A command returns the exit status. It raises `RagevalError` for input that cannot be used.
"""

import os
import sys
from collections.abc import Sequence

from pytest_rageval.cli.arguments import parser
from pytest_rageval.cli.output import note
from pytest_rageval.errors import RagevalError

__all__ = ["main"]

UNUSABLE = 2
"""Exit status, as argparse's own, for arguments and files that cannot be used."""

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: of the command line, without the program's name; None: those of the process.

    Returns:
        The exit status: 0; 1 if the command found damage or errors; 2 for unusable input; 130 after Ctrl-C.

    Raises:
        SystemExit: with 2 for arguments that are not allowed, with 0 after `--help`.
    """
    for stream in (sys.stdout, sys.stderr):
        # The terminal's encoding may lack letters of a model's name.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except RagevalError as error:
        note(str(error))
        return UNUSABLE
    except BrokenPipeError:
        # The reader of our output, such as `head`, has closed it. The flush at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        note(f"{type(error).__name__}: {error}")
        return UNUSABLE
    except KeyboardInterrupt:
        return INTERRUPTED
    return status
