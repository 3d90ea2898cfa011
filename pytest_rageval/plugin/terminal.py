"""What the plugin prints, and the line of progress. Foreign text is made safe for terminals and CI logs here."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.printable import one_line, printable

if TYPE_CHECKING:
    from pytest_rageval.llm.rate_limits import Wait

__all__ = ["Progress", "fail_run", "failure", "print_line", "print_lines"]

DELAY_S: Final = 1.0
"""The line of progress appears after this time."""

INTERVAL_S: Final = 0.25
"""Time between two updates of the line."""

WAIT_S: Final = 10.0
"""The line names a server that has not answered for this time."""


def failure(text: str) -> BaseException:
    """What `pytest.fail` raises, with this text and without a traceback."""
    return pytest.fail.Exception(printable(text), pytrace=False)


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
