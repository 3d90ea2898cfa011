"""The one way in which the plugin prints: what it says may quote models, eval sets and passages."""

import sys
from collections.abc import Iterable

import pytest

from pytest_rageval.printable import printable

__all__ = ["failure", "print_error", "print_lines"]


def failure(text: str) -> BaseException:
    """What `pytest.fail` raises, with this text and without a traceback."""
    return pytest.fail.Exception(printable(text), pytrace=False)


def print_lines(reporter: pytest.TerminalReporter, lines: Iterable[str], **markup: bool) -> None:
    """Print lines to the terminal; `markup` is pytest's, such as `yellow=True`."""
    for line in lines:
        reporter.line(printable(line), **markup)


def print_error(text: str) -> None:
    """Print a line to the standard error, as a worker of xdist does; its line may have begun with something else."""
    sys.stderr.write(f"\n{printable(text)}\n")
    sys.stderr.flush()
