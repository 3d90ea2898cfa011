"""A line of progress while models are asked; only on a terminal, and only when it takes a while."""

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

__all__ = ["Progress"]

PATIENCE_S: Final = 1.0
INTERVAL_S: Final = 0.25


class Progress:
    """Shows a line that is rewritten in place and disappears.

    Args:
        config: of the run; nothing is shown with -q, without a terminal, or in a worker.
        line: what to show now.
    """

    def __init__(self, config: pytest.Config, line: Callable[[], str]) -> None:
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._capture = config.pluginmanager.get_plugin("capturemanager")
        self._line = line
        self._enabled = self._reporter is not None and self._reporter.isatty and config.get_verbosity() >= 0
        self._began: float | None = None
        self._shown: float | None = None

    def tick(self) -> None:
        """Show the line, if it is time to."""
        if not self._enabled:
            return
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if now - self._began < PATIENCE_S or now - (self._shown or 0.0) < INTERVAL_S:
            return
        if self._shown is None:
            self._write(self._reporter.ensure_newline)
        self._shown = now
        text = f"rageval: {self._line()}, {now - self._began:.0f} s"
        self._write(lambda: self._reporter.rewrite(text, erase=True))

    def clear(self) -> None:
        """Take the line away."""
        if self._shown is not None:
            self._write(lambda: self._reporter.rewrite("", erase=True))
            self._write(lambda: self._reporter.rewrite(""))
        self._began = self._shown = None

    def _write(self, write: Callable[[], None]) -> None:
        if self._capture is None:
            write()
        else:
            with self._capture.global_and_fixture_disabled():
                write()
        self._reporter.flush()
