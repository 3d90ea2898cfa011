"""What the plugin prints. Foreign text is made safe for terminals and CI logs here."""

import sys
from collections.abc import Iterable, Mapping
from typing import Final

import pytest

from pytest_rageval.printable import printable

__all__ = ["PASSED", "ended", "failure", "print_error", "print_lines", "worse_end"]


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


PASSED: Final[Mapping[str, str]] = {"outcome": "passed"}

EXCUSED: Final = frozenset({"passed", "skipped", "xfailed"})
"""Outcomes that leave a build green."""


def ended(report: pytest.TestReport | pytest.CollectReport) -> Mapping[str, str]:
    """How one phase of a test ended, with what pytest says of it, without the traceback where there is one.

    Failed, in error, skipped, or failed as expected (xfailed); a module that cannot be collected is in error.
    """
    if report.passed:
        return PASSED
    if report.skipped:
        expected = hasattr(report, "wasxfail")
        reason = report.wasxfail if expected else _reason(report)
        return {"outcome": "xfailed" if expected else "skipped", "message": reason}
    crash = getattr(report.longrepr, "reprcrash", None)
    message = report.longreprtext if crash is None else crash.message
    outcome = "failed" if report.when == "call" else "error"
    # The name that pytest gives to what `pytest.fail` raises tells nothing.
    return {"outcome": outcome, "message": message.removeprefix("Failed: ")}


def worse_end(one: Mapping[str, str], other: Mapping[str, str]) -> Mapping[str, str]:
    """Of the ends of two phases the one that is the test's: the first that failed, else the first that is told."""
    if one is PASSED or (one["outcome"] in EXCUSED and other["outcome"] not in EXCUSED):
        return other
    return one


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped: pytest has it with the place."""
    *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (report.longreprtext,)
    return reason.removeprefix("Skipped: ")
