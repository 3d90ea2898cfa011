"""Escapes everything that the plugin prints; formats failures and tracebacks without this package's frames."""

import os
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from pytest_rageval.errors import RagevalError, Unscored
from pytest_rageval.printable import one_line, printable

__all__ = [
    "argument_of",
    "cut_traceback",
    "fail_run",
    "failure",
    "place_failure",
    "plain_nodeid",
    "print_command",
    "print_line",
    "print_lines",
    "terminal_width",
    "uncaptured",
]

PACKAGE: Final = Path(__file__).parents[1]

LEAST_WIDTH: Final = 40
"""A terminal that says that it is narrower is taken for one of 80 columns, as pytest does."""

COLOURS: Final = {"pass": "green", "fail": "red", "error": "red", "inconclusive": "yellow"}
"""pytest's markup of the verdicts in the table."""


def failure(text: str, summary: str = "") -> BaseException:
    """What `pytest.fail` raises, with this text and without a traceback; default summary: the first line."""
    error = pytest.fail.Exception(printable(text), pytrace=False)
    error.rageval_summary = one_line(summary or text.partition("\n")[0])  # type: ignore[attr-defined]
    return error


def place_failure(report: pytest.TestReport, item: pytest.Item, error: BaseException) -> None:
    """Place a failure of a threshold in the test, and shorten its message to one line.

    pytest's summary prints the whole message on CI, and `--tb=line`, JSON reports and annotations its place.
    The whole text is in the traceback, and as `rageval_message` for reports.

    Args:
        report: on the failed phase of the test.
        item: the test.
        error: that failed it.
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
    crash.path, crash.lineno = _place(item, error)
    if item.config.option.tbstyle != "line":
        # As pytest ends a traceback.
        shown = Path(crash.path)
        folder = item.config.invocation_params.dir
        shown = shown.relative_to(folder) if shown.is_relative_to(folder) else shown
        trace = report.longrepr.reprtraceback  # type: ignore[union-attr]
        place = replace(crash, path=str(shown), message="Failed")
        last = replace(trace.reprentries[-1], lines=[], reprfileloc=place, style="short")
        trace.reprentries = [*trace.reprentries, last]


def _place(item: pytest.Item, error: BaseException) -> tuple[str, int]:
    """The innermost line of the test's file, else the test itself."""
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
    """The argument with which pytest runs a test, from the folder in which this run was started."""
    path, colons, name = nodeid.partition("::")
    here = os.path.relpath(config.rootpath / path, config.invocation_params.dir)
    return shlex.quote(f"{Path(here).as_posix()}{colons}{name}")


def fail_run(session: pytest.Session) -> None:
    """Make the exit status of a run whose tests passed that of a failed one."""
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def terminal_width(columns: int | None = None) -> int:
    """The number of columns of the terminal; 80 without one, and where it is too narrow for any table.

    `columns` is what it had before output was captured.
    """
    columns = columns or shutil.get_terminal_size().columns
    return columns if columns >= LEAST_WIDTH else 80


def print_lines(reporter: pytest.TerminalReporter, lines: Iterable[str], **markup: bool) -> None:
    """Print lines to the terminal; `markup` is pytest's, such as `yellow=True`.

    Verdicts at the end of table rows have their colour. On a terminal long lines are wrapped; in a file and in the
    log of a CI job they are not, so that they can be searched.
    """
    for line in lines:
        for part in map(printable, _fitting(line) if reporter.isatty else [line]):
            head, gap, verdict = part.rpartition("  ")
            if gap and head.startswith("  ") and verdict in COLOURS:
                reporter.write(head + gap)
                reporter.line(verdict, **{COLOURS[verdict]: True})
            else:
                reporter.line(part, **markup)


def print_command(
    reporter: pytest.TerminalReporter, kind: str, properties: Mapping[str, str], message: str
) -> None:
    """Print a command to GitHub's runner, such as an annotation; what it quotes cannot begin another one."""
    named = ",".join(f"{name}={_escaped(one_line(value), ',:')}" for name, value in properties.items())
    reporter.ensure_newline()
    reporter.line(f"::{kind} {named}::{_escaped(printable(message))}")


def _escaped(text: str, more: str = "") -> str:
    """As the runner reads a value: without the characters that would end it."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)


def _fitting(line: str) -> list[str]:
    """The line in parts that fit the terminal; a command is not broken, it is there to be copied."""
    if len(line) <= (columns := terminal_width()) or "pytest --" in line:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def print_line(config: pytest.Config, text: str) -> None:
    """Print a line while tests run: to the terminal, or from an xdist worker to the standard error."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")

    def write() -> None:
        if reporter is None or hasattr(config, "workerinput"):
            # Another process may have begun this line.
            sys.stderr.write(f"\n{printable(text)}\n")
            sys.stderr.flush()
            return
        reporter.ensure_newline()
        print_lines(reporter, [text], yellow=True)
        reporter.flush()

    uncaptured(config, write)


def plain_nodeid(nodeid: str) -> str:
    """The node id without the group that xdist's workers append with `--dist loadgroup`.

    >>> plain_nodeid("test_a.py::test_b[x@y]@slow"), plain_nodeid("at@home/test_a.py::test_b[x@y]")
    ('test_a.py::test_b[x@y]', 'at@home/test_a.py::test_b[x@y]')
    """
    at = nodeid.rfind("@")
    # An "@" of a path or a parameter comes before the last "::" or "]".
    return nodeid[:at] if at > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid


def uncaptured(config: pytest.Config, write: Callable[[], None]) -> None:
    """Write to the terminal itself, also while pytest captures output."""
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        write()


def cut_traceback(excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Cut the frames of this package, and the causes, from our errors: their text has all that users need.

    Also from ours among the causes of a user's exception or in a group: pytest shows these too, and with
    `--showlocals` the variables of each frame.
    """
    if excinfo is None:
        return
    for error in _chain(excinfo.value):
        if isinstance(error, RagevalError | Unscored):
            error.__cause__, error.__suppress_context__ = None, True
            _cut(error)
    # A frame list is cached where the exception was printed before, as by `--debug`.
    excinfo.traceback = type(excinfo.traceback)(excinfo.tb)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception with its causes, its contexts and the members of its groups."""
    found, seen = [error], set[int]()
    while found:
        each = found.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        found += [one for one in (each.__cause__, each.__context__) if one is not None]
        found += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        yield each


def _cut(error: BaseException) -> None:
    last = error.__traceback__
    if _is_ours(last):
        error.__traceback__ = None
        return
    while last is not None:
        if _is_ours(last.tb_next):
            last.tb_next = None
        last = last.tb_next


def _is_ours(frame: TracebackType | None) -> bool:
    return frame is not None and Path(frame.tb_frame.f_code.co_filename).is_relative_to(PACKAGE)
