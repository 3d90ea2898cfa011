"""What the plugin prints, and the line of progress. Foreign text is made safe for terminals and CI logs here."""

import os
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.printable import one_line, printable

if TYPE_CHECKING:
    from pytest_rageval.llm.rate_limits import Wait

__all__ = ["Progress", "argument_of", "fail_run", "failure", "place_failure", "print_line", "print_lines"]

DELAY_S: Final = 1.0
"""The line of progress appears after this time."""

INTERVAL_S: Final = 0.25
"""Time between two updates of the line."""

WAIT_S: Final = 10.0
"""The line names a server that has not answered for this time."""


def failure(text: str, summary: str = "") -> BaseException:
    """What `pytest.fail` raises, with this text and without a traceback; default summary: the first line."""
    error = pytest.fail.Exception(printable(text), pytrace=False)
    error.rageval_summary = one_line(summary or text.partition("\n")[0])  # type: ignore[attr-defined]
    return error


def place_failure(report: pytest.TestReport, item: pytest.Item, error: BaseException) -> None:
    """Place a failure of ours in the test, and shorten its message to one line.

    pytest's summary prints the whole message on CI, and `--tb=line`, JSON reports and annotations its place.
    The whole text stands in the traceback, and as `rageval_message` for reports.

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


def print_lines(reporter: pytest.TerminalReporter, lines: Iterable[str], **markup: bool) -> None:
    """Print lines to the terminal; `markup` is pytest's, such as `yellow=True`."""
    for line in lines:
        reporter.line(printable(line), **markup)


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

    _uncaptured(config, write)


class Progress:
    """A line that is rewritten in place while models are asked; without a terminal, warnings of long waits.

    Args:
        config: of the run; there is no line with -q, without a terminal, or in a worker.
        line: returns the text to show.
    """

    def __init__(self, config: pytest.Config, line: Callable[[], str]) -> None:
        from pytest_rageval.llm.rate_limits import Announcer  # noqa: PLC0415 - with asyncio

        self._config = config
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._line = line
        self._enabled = self._reporter is not None and self._reporter.isatty and config.get_verbosity() >= 0
        self._began: float | None = None
        self._updated: float | None = None
        self._announce = Announcer(partial(print_line, config))

    def tick(self, waits: "Sequence[Wait]") -> None:
        """Show or update the line, if it is time to.

        Args:
            waits: the servers that do not answer now.
        """
        if threading.current_thread() is not threading.main_thread():
            # pytest's capturing and its terminal are for the main thread.
            return
        if self._enabled:
            self._show(waits)
        else:
            self._announce(waits)

    def clear(self) -> None:
        """Remove the line."""
        if self._updated is not None:
            self._write(lambda: self._reporter.rewrite("", erase=True))
            self._write(lambda: self._reporter.rewrite(""))
        self._began = self._updated = None

    def _show(self, waits: "Sequence[Wait]") -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if now - self._began < DELAY_S or now - (self._updated or 0.0) < INTERVAL_S:
            return
        if self._updated is None:
            self._write(self._reporter.ensure_newline)
        self._updated = now
        waiting = [str(wait) for wait in waits if wait.lasts(WAIT_S)]
        text = one_line(f"rageval: {'; '.join(waiting) or f'{self._line()}, {now - self._began:.0f} s'}")
        width = self._config.get_terminal_writer().fullwidth
        text = text if len(text) < width else f"{text[: width - 2]}…"
        self._write(lambda: self._reporter.rewrite(text, erase=True))

    def _write(self, write: Callable[[], None]) -> None:
        _uncaptured(self._config, write)
        self._reporter.flush()


def _uncaptured(config: pytest.Config, write: Callable[[], None]) -> None:
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if capture is None:
        write()
    else:
        with capture.global_and_fixture_disabled():
            write()
