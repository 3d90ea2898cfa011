"""Displays the progress of an evaluation: on a terminal in a line that is rewritten, else in a line every ten seconds.

The workers of pytest-xdist send their progress to the controller, which displays the sum (`workers`).
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from pytest_rageval.lib.text import one_line
from pytest_rageval.plugin.terminal import print_line, write_uncaptured

if TYPE_CHECKING:
    from pytest_rageval.models.rate_limits import Stall, StallNotifier
    from pytest_rageval.models.usage import Usage

    Running = tuple[str, Usage] | None
    """The node id of the running test and its usage of models so far; None if no test runs."""

TERMINAL_DELAY_S: Final = 1.0  # time after which the line on a terminal appears
TERMINAL_INTERVAL_S: Final = 0.25  # minimum time between two updates of the line on a terminal
LOG_INTERVAL_S: Final = 10.0  # minimum time between two lines in a file or a log, and before the first
WORKER_INTERVAL_S: Final = 1.0  # minimum time between two messages of a worker
STALL_S: Final = 10.0  # time after which the line names a server that does not respond
MIN_MINUTES_S: Final = 120.0  # remaining time from which on it is displayed in minutes


class Work(NamedTuple):
    """The expected and the completed work of a process.

    `requests` is an estimate. `live` replies are not from the cache, and cost `cost_usd`, except the `unpriced` ones;
    these three are those of the whole run so far.
    """

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
        return cls(*map(sum, zip(*works, strict=True)))

    def since(self, before: "Work") -> "Work":
        """Return the work after the state `before`; `live`, `cost_usd` and `unpriced` remain those of the run."""
        return self._replace(
            rankings=self.rankings - before.rankings,
            ranked=self.ranked - before.ranked,
            requests=self.requests - before.requests,
            replies=self.replies - before.replies,
        )

    def __str__(self) -> str:
        parts = [(self.ranked, self.rankings, self.rankings_per_s, "questions retrieved")]
        if self.requests:
            # The number of rankings is of no interest once all are completed.
            parts = parts if self.ranked < self.rankings else []
            parts.append((self.replies, self.requests, self.replies_per_s, "replies"))
        share = sum(done for done, *_ in parts) / max(sum(total for _, total, *_ in parts), 1)
        text = f"{', '.join(f'{done} of {total} {unit}' for done, total, _, unit in parts)} ({share:.0%})"
        if all(rate > 0 or done == total for done, total, rate, _ in parts) and parts[-1][2] > 0:
            left_s = max((total - done) / (rate or 1.0) for done, total, rate, _ in parts)
            text += f", {parts[-1][2]:.1f} a second"
            in_minutes = left_s >= MIN_MINUTES_S
            text += f", about {left_s / 60:.0f} min left" if in_minutes else f", about {left_s:.0f} s left"
        if self.live:
            text += ", price not known" if self.unpriced else f", {self.cost_usd:.4f} USD"
        return text


class Progress:
    """Displays the progress of one process, or of all workers together.

    With -q a terminal shows only servers that do not respond; a log also shows the work that waits for a server.
    """

    def __init__(self, config: pytest.Config, width: int, *, in_place: bool = True) -> None:
        self._config = config
        self._width = width
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._quiet = config.get_verbosity() < 0
        self._in_place = in_place and self._reporter is not None and self._reporter.isatty
        self._began_at: float | None = None
        self._updated_at: float | None = None
        self._was_stalled = False
        self._stall_notifier: StallNotifier | None = None

    def show(self, work: Work, stalls: "Sequence[Stall]") -> None:
        """Display the servers that do not respond, else the work; unless the last display is too recent."""
        now = time.monotonic()
        if self._began_at is None:
            self._began_at = now
        if self._quiet:
            self._notify(stalls)
            if work.replies >= work.requests or getattr(self._reporter, "isatty", False):
                return
            stalls = ()
        delay = TERMINAL_DELAY_S if self._in_place else LOG_INTERVAL_S
        interval = TERMINAL_INTERVAL_S if self._in_place else LOG_INTERVAL_S
        stall_text = "; ".join(str(stall) for stall in stalls if stall.has_lasted(STALL_S))
        was_stalled, self._was_stalled = self._was_stalled, bool(stall_text)
        is_due = now - self._began_at >= delay and now - (self._updated_at or 0.0) >= interval
        # A new stall is displayed immediately.
        if not (is_due or (stall_text and not was_stalled)):
            return
        if not (stall_text or work.rankings or work.requests):
            return
        text = one_line(f"rageval: {stall_text or work}")
        if not self._in_place:
            self._updated_at = now
            print_line(self._config, text)
            return
        if self._updated_at is None:
            self._write(self._reporter.ensure_newline)
        self._updated_at = now
        text = text if len(text) < self._width else f"{text[: self._width - 2]}…"
        self._write(lambda: self._reporter.rewrite(text, erase=True))

    def clear(self) -> None:
        if not self._in_place:
            return
        if self._updated_at is not None:
            self._write(lambda: self._reporter.rewrite("", erase=True))
            self._write(lambda: self._reporter.rewrite(""))
        self._began_at = self._updated_at = None

    def _notify(self, stalls: "Sequence[Stall]") -> None:
        """Print a line about each server that does not respond, once until it responds again."""
        if not (stalls or self._stall_notifier):
            return
        if self._stall_notifier is None:
            from pytest_rageval.models.rate_limits import StallNotifier  # noqa: PLC0415 - loaded by the first stall

            self._stall_notifier = StallNotifier(partial(print_line, self._config))
        self._stall_notifier(stalls)

    def _write(self, write: Callable[[], None]) -> None:
        write_uncaptured(self._config, write)
        self._reporter.flush()


class EvaluationProgress:
    """Measures the work of this process and displays it; in a worker of pytest-xdist, sends it to the controller."""

    def __init__(
        self,
        config: pytest.Config,
        measure: Callable[[], Work],
        running_test: "Callable[[], Running]",
        width: int,
    ) -> None:
        self._measure = measure
        self._running_test = running_test
        self._channel: Any = getattr(config, "workerinput", {}).get("rageval_channel")
        self._display = Progress(config, width)
        # The work at the end of the previous test, and at the first tick of the current test.
        self._before = self._at_first_tick = Work()
        self._began_at: float | None = None
        self._sent_at = 0.0

    def tick(self, stalls: "Sequence[Stall]") -> None:
        """Display or send the progress; called often while a test waits. `stalls` as in `Progress.show`."""
        if threading.current_thread() is not threading.main_thread():
            # pytest's capturing and its terminal may be used only in the main thread.
            return
        work, now = self._measure(), time.monotonic()
        if self._began_at is None:
            self._began_at, self._at_first_tick = now, work
        # Cached results are complete before the first tick. They are not counted in the rate.
        seconds, since_first_tick = max(now - self._began_at, 1.0), work.since(self._at_first_tick)
        work = work.since(self._before)._replace(
            rankings_per_s=since_first_tick.ranked / seconds, replies_per_s=since_first_tick.replies / seconds
        )
        if self._channel is None:
            self._display.show(work, stalls)
        elif now - self._sent_at >= WORKER_INTERVAL_S:
            self._sent_at = now
            self._send(work, stalls)

    def clear(self) -> None:
        if self._began_at is not None:
            self._before, self._began_at = self._measure(), None
            if self._channel is not None:
                self._send(self._before.since(self._before), ())
        self._display.clear()

    def _send(self, work: Work, stalls: "Sequence[Stall]") -> None:
        # The controller may have closed the channel.
        with suppress(OSError):
            fields = [
                (stall.url, stall.reason, stall.requests, stall.seconds, stall.patience_s) for stall in stalls
            ]
            running = self._running_test()
            running_data = running and (running[0], running[1].to_dict())
            self._channel.send((tuple(work), fields, running_data))
