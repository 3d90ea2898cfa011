"""Progress of an evaluation: a line that is rewritten on a terminal, a line every ten seconds elsewhere.

The workers of pytest-xdist send theirs to the controller, which prints their sum.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_rageval.plugin.terminal import print_line, terminal_width, uncaptured
from pytest_rageval.printable import one_line

if TYPE_CHECKING:
    from pytest_rageval.llm.servers.rate_limits import Stall, StallNotifier
    from pytest_rageval.llm.usage import Usage

    Running = tuple[str, Usage] | None
    """The test that runs, and what it has asked of models; None where none does."""

__all__ = ["EvaluationProgress", "Work", "WorkersProgress"]

DELAY_S: Final = 1.0
"""The line on a terminal appears after this time."""

INTERVAL_S: Final = 0.25
"""Time between two updates of it."""

LINE_S: Final = 10.0
"""Time between two lines in a file or in the log of a CI job."""

SENT_S: Final = 1.0
"""Time between two messages of a worker."""

WAIT_S: Final = 10.0
"""The line names a server that has not answered for this time."""

LONG_S: Final = 120.0
"""A longer time is shown in minutes."""


class Work(NamedTuple):
    """The expected and completed amounts of work; the last three fields are totals of the run so far."""

    rankings: int = 0
    ranked: int = 0
    requests: int = 0
    replies: int = 0
    rankings_per_s: float = 0.0
    replies_per_s: float = 0.0
    live: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    @classmethod
    def total(cls, works: Iterable["Work"]) -> "Work":
        """The sum over processes."""
        return cls(*map(sum, zip(*works, strict=True)))

    def since(self, before: "Work") -> "Work":
        """The work after an earlier moment, with the cost of the run."""
        return self._replace(
            rankings=self.rankings - before.rankings,
            ranked=self.ranked - before.ranked,
            requests=self.requests - before.requests,
            replies=self.replies - before.replies,
        )

    def __str__(self) -> str:
        parts = [(self.ranked, self.rankings, self.rankings_per_s, "questions retrieved")]
        if self.requests:
            # Rankings that have all come say nothing any more.
            parts = parts if self.ranked < self.rankings else []
            parts.append((self.replies, self.requests, self.replies_per_s, "replies"))
        share = sum(done for done, *_ in parts) / max(sum(asked for _, asked, *_ in parts), 1)
        text = f"{', '.join(f'{done} of {asked} {what}' for done, asked, _, what in parts)} ({share:.0%})"
        if all(rate > 0 or done == asked for done, asked, rate, _ in parts) and parts[-1][2] > 0:
            left = max((asked - done) / (rate or 1.0) for done, asked, rate, _ in parts)
            text += f", {parts[-1][2]:.1f} a second"
            text += f", about {left:.0f} s left" if left < LONG_S else f", about {left / 60:.0f} min left"
        if self.live:
            text += ", price not known" if self.unpriced else f", {self.cost_usd:.4f} USD"
        return text


class Progress:
    """The progress of one process, or of all workers together.

    With -q nothing is shown, except a server that does not answer.

    Args:
        config: of the run.
        width: of the terminal.
        in_place: whether a line may be rewritten, on a terminal.
    """

    def __init__(self, config: pytest.Config, width: int, *, in_place: bool = True) -> None:
        self._config = config
        self._width = width
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._quiet = config.get_verbosity() < 0
        self._in_place = in_place and self._reporter is not None and self._reporter.isatty
        self._began: float | None = None
        self._updated: float | None = None
        self._waited = False
        self._announcer: StallNotifier | None = None

    def show(self, work: Work, waits: "Sequence[Stall]") -> None:
        """Show it, if it is time to; `waits` are the servers that do not answer now."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._quiet:
            self._announce(waits)
            return
        delay, interval = (DELAY_S, INTERVAL_S) if self._in_place else (LINE_S, LINE_S)
        waiting = "; ".join(str(wait) for wait in waits if wait.has_lasted(WAIT_S))
        waited, self._waited = self._waited, bool(waiting)
        is_due = now - self._began >= delay and now - (self._updated or 0.0) >= interval
        # That a server does not answer is said at once.
        if not (is_due or (waiting and not waited)):
            return
        if not (waiting or work.rankings or work.requests):
            return
        text = one_line(f"rageval: {waiting or work}")
        if not self._in_place:
            self._updated = now
            print_line(self._config, text)
            return
        if self._updated is None:
            self._write(self._reporter.ensure_newline)
        self._updated = now
        text = text if len(text) < self._width else f"{text[: self._width - 2]}…"
        self._write(lambda: self._reporter.rewrite(text, erase=True))

    def clear(self) -> None:
        """Remove the line from a terminal; lines of a log stay."""
        if not self._in_place:
            return
        if self._updated is not None:
            self._write(lambda: self._reporter.rewrite("", erase=True))
            self._write(lambda: self._reporter.rewrite(""))
        self._began = self._updated = None

    def _announce(self, waits: "Sequence[Stall]") -> None:
        if not (waits or self._announcer):
            return
        if self._announcer is None:
            from pytest_rageval.llm.servers.rate_limits import StallNotifier  # noqa: PLC0415 - loaded where a server is waited for

            self._announcer = StallNotifier(partial(print_line, self._config))
        self._announcer(waits)

    def _write(self, write: Callable[[], None]) -> None:
        uncaptured(self._config, write)
        self._reporter.flush()


class EvaluationProgress:
    """Measures the work of this process, and shows it; in a worker of pytest-xdist, sends it.

    Args:
        config: of the run.
        measure: returns the work of the process so far.
        running: returns the test that runs.
        width: of the terminal.
    """

    def __init__(
        self, config: pytest.Config, measure: Callable[[], Work], running: "Callable[[], Running]", width: int
    ) -> None:
        self._measure = measure
        self._running = running
        self._channel: Any = getattr(config, "workerinput", {}).get("rageval_progress")
        self._shown = Progress(config, width)
        self._before = self._first = Work()
        self._began: float | None = None
        self._sent = 0.0

    def tick(self, waits: "Sequence[Stall]") -> None:
        """Show the progress; called often while a test waits."""
        if threading.current_thread() is not threading.main_thread():
            # pytest's capturing and its terminal are for the main thread.
            return
        work, now = self._measure(), time.monotonic()
        if self._began is None:
            self._began, self._first = now, work
        # What was kept comes at once, before the first tick: it says nothing about the rate.
        seconds, first = max(now - self._began, 1.0), work.since(self._first)
        work = work.since(self._before)._replace(
            rankings_per_s=first.ranked / seconds, replies_per_s=first.replies / seconds
        )
        self._show(work, waits, now)

    def clear(self) -> None:
        """The evaluation of a test has ended."""
        if self._began is not None:
            self._before, self._began = self._measure(), None
            if self._channel is not None:
                self._send(self._before.since(self._before), ())
        self._shown.clear()

    def _show(self, work: Work, waits: "Sequence[Stall]", now: float) -> None:
        if self._channel is None:
            self._shown.show(work, waits)
        elif now - self._sent >= SENT_S:
            self._sent = now
            self._send(work, waits)

    def _send(self, work: Work, waits: "Sequence[Stall]") -> None:
        # The controller may have ended.
        with suppress(OSError):
            fields = [(wait.url, wait.reason, wait.requests, wait.seconds, wait.patience_s) for wait in waits]
            running = self._running()
            asked = running and (running[0], running[1].to_dict())
            self._channel.send((tuple(work), fields, asked))


class WorkersProgress:
    """The progress of all workers, in the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._shown: Progress | None = None
        self._lock = threading.Lock()
        self._works: dict[int, Work] = {}
        self._waits: dict[int, list[Stall]] = {}
        self._running: dict[int, Running] = {}
        self._channels: list[Any] = []

    def connect(self, node: Any) -> None:
        """Give a worker the channel of its messages."""
        channel = node.gateway.newchannel()
        self._channels.append(channel)
        channel.setcallback(partial(self._received, len(self._channels)))
        node.workerinput["rageval_progress"] = channel

    @property
    def running(self) -> "list[tuple[str, Usage]]":
        """The tests that the workers last ran, each with what it had asked of models."""
        with self._lock:
            return [running for running in self._running.values() if running is not None]

    def _received(self, worker: int, message: tuple[Any, Any, Any]) -> None:
        """Called in the thread that receives."""
        from pytest_rageval.llm.servers.rate_limits import Stall  # noqa: PLC0415 - few runs do
        from pytest_rageval.llm.usage import Usage  # noqa: PLC0415

        work, waits, asked = message
        with self._lock:
            self._running[worker] = asked and (asked[0], Usage.from_dict(asked[1]))
            self._works[worker] = Work(*work)
            self._waits[worker] = [Stall(*fields) for fields in waits]
            if self._shown is None:
                # A line would be broken by the dots of tests that end.
                self._shown = Progress(self._config, terminal_width(), in_place=False)
            all_waits = [wait for found in self._waits.values() for wait in found]
            self._shown.show(Work.total(self._works.values()), all_waits)
