"""What is shown while models are asked: a line of progress on a terminal, and what is waited for anywhere."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pytest

from pytest_rageval.llm.patience import Announcer, Wait
from pytest_rageval.plugin.terminal import print_error, print_lines
from pytest_rageval.printable import one_line

__all__ = ["Progress", "print_line"]

PATIENCE_S: Final = 1.0
INTERVAL_S: Final = 0.25

SHOWN_S: Final = 10.0
"""After so long the line on a terminal says what is waited for."""


class Progress:
    """Shows a line that is rewritten in place and disappears; elsewhere prints what is waited for.

    Args:
        config: of the run; no line is shown with -q, without a terminal, or in a worker.
        line: what to show now.
    """

    def __init__(self, config: pytest.Config, line: Callable[[], str]) -> None:
        self._config = config
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._line = line
        self._enabled = self._reporter is not None and self._reporter.isatty and config.get_verbosity() >= 0
        self._began: float | None = None
        self._shown: float | None = None
        self._announce = Announcer(partial(print_line, config))

    def tick(self, waits: Sequence[Wait]) -> None:
        """Show the line, if it is time to.

        Args:
            waits: the servers that answer nothing now.
        """
        if threading.current_thread() is not threading.main_thread():
            # pytest's capturing and its terminal are for the main thread.
            return
        if self._enabled:
            self._show(waits)
        else:
            self._announce(waits)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._write(lambda: self._reporter.rewrite("", erase=True))
            self._write(lambda: self._reporter.rewrite(""))
        self._began = self._shown = None

    def _show(self, waits: Sequence[Wait]) -> None:
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if now - self._began < PATIENCE_S or now - (self._shown or 0.0) < INTERVAL_S:
            return
        if self._shown is None:
            self._write(self._reporter.ensure_newline)
        self._shown = now
        waiting = [str(wait) for wait in waits if wait.lasts(SHOWN_S)]
        text = one_line(f"rageval: {'; '.join(waiting) or f'{self._line()}, {now - self._began:.0f} s'}")
        width = self._config.get_terminal_writer().fullwidth
        text = text if len(text) < width else f"{text[: width - 2]}…"
        self._write(lambda: self._reporter.rewrite(text, erase=True))

    def _write(self, write: Callable[[], None]) -> None:
        _uncaptured(self._config, write)
        self._reporter.flush()


def print_line(config: pytest.Config, text: str) -> None:
    """A line on the terminal, now; from a worker on the standard error that xdist's controller has too."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")

    def write() -> None:
        if reporter is None or hasattr(config, "workerinput"):
            print_error(text)
            return
        reporter.ensure_newline()
        print_lines(reporter, [text], yellow=True)
        reporter.flush()

    _uncaptured(config, write)


def _uncaptured(config: pytest.Config, write: Callable[[], None]) -> None:
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if capture is None:
        write()
    else:
        with capture.global_and_fixture_disabled():
            write()
