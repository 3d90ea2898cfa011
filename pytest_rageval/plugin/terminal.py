"""Prints to the terminal with unprintable characters escaped; formats failures; cuts this package out of tracebacks."""

import os
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from pytest_rageval.core.errors import RagevalError, Unscored, exception_chain
from pytest_rageval.lib.text import one_line, printable

PACKAGE: Final = Path(__file__).parents[1]

MIN_WIDTH: Final = 40  # a narrower terminal counts as one of `DEFAULT_WIDTH`, as for pytest
DEFAULT_WIDTH: Final = 80

COLOURS: Final = {"pass": "green", "fail": "red", "error": "red", "inconclusive": "yellow"}
"""pytest's markup for the verdicts in the table."""


PASSED: Final[Mapping[str, str]] = {"outcome": "passed"}  # the outcome of a phase that passed


def failure(text: str, summary: str = "") -> BaseException:
    """Return the exception of `pytest.fail(text, pytrace=False)`; `summary` is the message in one line."""
    error = pytest.fail.Exception(printable(text), pytrace=False)
    error.rageval_summary = one_line(summary or text.partition("\n")[0])  # type: ignore[attr-defined]
    return error


def place_failure(report: pytest.TestReport, item: pytest.Item, error: BaseException) -> None:
    """Set the location of a threshold's failure to the test, and shorten its message to one line.

    On CI, pytest's summary prints the whole message; `--tb=line`, JSON reports and annotations use the location. The
    whole message remains in the traceback, and in the attribute `rageval_message` for this package's reports.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return
    report.rageval_message = crash.message  # type: ignore[attr-defined]
    summary = getattr(error, "rageval_summary", None)
    if summary is None:
        crash.message = crash.message.partition("\n")[0]
        return
    crash.message = summary
    crash.path, crash.lineno = _failure_location(item, error)
    # The option belongs to pytest's terminal plugin, which can be switched off.
    if item.config.getoption("tbstyle", "auto") != "line":
        # Add the last line of pytest's tracebacks: "FILE:LINE: Failed".
        path = Path(crash.path)
        folder = item.config.invocation_params.dir
        path = path.relative_to(folder) if path.is_relative_to(folder) else path
        trace = report.longrepr.reprtraceback  # type: ignore[union-attr]
        location = replace(crash, path=str(path), message="Failed")
        last = replace(trace.reprentries[-1], lines=[], reprfileloc=location, style="short")
        trace.reprentries = [*trace.reprentries, last]


def shorten_to_place(report: pytest.TestReport) -> None:
    """Leave a failure of this package one line in the terminal, for `--tb=line`.

    pytest prints the whole failure before this line. Other reports have the whole failure by now.
    """
    if hasattr(report, "rageval_message"):
        report.toterminal = lambda out: None  # type: ignore[method-assign]  # noqa: ARG005


def _failure_location(item: pytest.Item, error: BaseException) -> tuple[str, int]:
    """Return the file and the innermost line of the test's file in the traceback; if it has none, that of the test."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__, limit=None)
        if frame.filename == str(item.path) and frame.lineno is not None
    ]
    if lines:
        return str(item.path), lines[-1]
    path, line, _ = item.reportinfo()
    return str(path), (line or 0) + 1


def argument_of(config: pytest.Config, nodeid: str) -> str:
    """Return the command-line argument that runs a test, from the folder in which this run was started."""
    path, colons, name = nodeid.partition("::")
    relative_path = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    return shlex.quote(f"{Path(relative_path).as_posix()}{colons}{name}")


def fail_run(session: pytest.Session) -> None:
    """Set the exit status of a run that passed, or had no tests, to that of a run with failed tests."""
    if session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def report_outcome(report: pytest.TestReport | pytest.CollectReport) -> Mapping[str, str]:
    """Return the outcome of one phase of a test, or of a module that cannot be collected, with pytest's message."""
    if report.passed:
        return PASSED
    if report.skipped:
        if hasattr(report, "wasxfail"):
            return {"outcome": "xfailed", "message": report.wasxfail}
        # `longrepr` is a tuple of file, line and reason.
        *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (report.longreprtext,)
        return {"outcome": "skipped", "message": reason.removeprefix("Skipped: ")}
    crash = getattr(report.longrepr, "reprcrash", None)
    message = report.longreprtext if crash is None else getattr(report, "rageval_message", crash.message)
    outcome = "failed" if report.when == "call" else "error"
    # `pytest.fail` raises an exception with the name Failed.
    return {"outcome": outcome, "message": message.removeprefix("Failed: ")}


def terminal_width(columns: int | None = None) -> int:
    """Return the width of the terminal in columns; `DEFAULT_WIDTH` if it has less than `MIN_WIDTH`."""
    columns = columns or shutil.get_terminal_size().columns
    return columns if columns >= MIN_WIDTH else DEFAULT_WIDTH


def print_lines(reporter: "pytest.TerminalReporter", lines: Iterable[str], **markup: bool) -> None:
    """Print lines to the terminal.

    The verdict and the value in a row of the table have the verdict's colour. On a terminal, long lines are wrapped. In
    a file and in the log of a CI job they are not wrapped, so that they can be searched.
    """
    for line in lines:
        coloured = COLOURS.get(getattr(line, "verdict", ""))
        parts = [printable(part) for part in (_wrap(line) if reporter.isatty else [line])]
        if coloured is None or len(parts) > 1:
            for part in parts:
                reporter.line(part, **markup)
            continue
        rest = parts[0]
        for text in line.coloured:  # type: ignore[attr-defined]
            before, found, after = rest.partition(f" {text}")
            if found:
                reporter.write(before)
                reporter.write(found, **{coloured: True})
                rest = after
        reporter.line(rest)


def print_command(
    reporter: "pytest.TerminalReporter", kind: str, properties: Mapping[str, str], message: str
) -> None:
    """Print a workflow command for GitHub's runner, such as an annotation, with all values escaped."""
    pairs = (f"{name}={_escape(one_line(value), ',:')}" for name, value in properties.items())
    reporter.ensure_newline()
    reporter.line(f"::{kind} {','.join(pairs)}::{_escape(printable(message))}")


def _escape(text: str, extra: str = "") -> str:
    """Escape a value of a workflow command: percent signs, line breaks, and the `extra` characters."""
    return "".join(f"%{ord(char):02X}" if char in f"%\r\n{extra}" else char for char in text)


def _wrap(line: str) -> list[str]:
    """Return a line in parts that fit the terminal. A command is not wrapped, so that it can be copied."""
    if len(line) <= (columns := terminal_width()) or "pytest --" in line:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def print_line(config: pytest.Config, text: str) -> None:
    """Print a line while tests run: to the terminal; in an xdist worker, to stderr."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")

    def write() -> None:
        if reporter is None or hasattr(config, "workerinput"):
            # Another process may have printed the beginning of the current line.
            sys.stderr.write(f"\n{printable(text)}\n")
            sys.stderr.flush()
            return
        reporter.ensure_newline()
        print_lines(reporter, [text], yellow=True)
        reporter.flush()

    write_uncaptured(config, write)


def plain_nodeid(nodeid: str) -> str:
    """Return a node id without the group that xdist's workers append with `--dist loadgroup`.

    >>> plain_nodeid("test_a.py::test_b[x@y]@slow"), plain_nodeid("at@home/test_a.py::test_b[x@y]")
    ('test_a.py::test_b[x@y]', 'at@home/test_a.py::test_b[x@y]')
    """
    index = nodeid.rfind("@")
    # An "@" in a path or a parameter is before the last "::" or "]".
    return nodeid[:index] if index > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid


def write_uncaptured(config: pytest.Config, write: Callable[[], None]) -> None:
    """Call a function that writes to the terminal, with pytest's capturing suspended."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        write()


def cut_traceback(excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Remove the frames of this package, and the causes, from the errors of this package.

    The message of such an error contains all that users need. Errors of this package are also cut if they are causes of
    a user's exception or members of a group: pytest shows these too, and with `--showlocals` the variables of each
    frame.
    """
    if excinfo is None:
        return
    for error in exception_chain(excinfo.value):
        if isinstance(error, RagevalError | Unscored):
            error.__cause__, error.__suppress_context__ = None, True
            _remove_own_frames(error)
    # If the exception was printed before, as by `--debug`, pytest has cached the list of frames.
    excinfo.traceback = type(excinfo.traceback)(excinfo.tb)


def _remove_own_frames(error: BaseException) -> None:
    entry = error.__traceback__
    if _is_own_frame(entry):
        error.__traceback__ = None
        return
    while entry is not None:
        if _is_own_frame(entry.tb_next):
            entry.tb_next = None
        entry = entry.tb_next


def _is_own_frame(entry: TracebackType | None) -> bool:
    return entry is not None and Path(entry.tb_frame.f_code.co_filename).is_relative_to(PACKAGE)
