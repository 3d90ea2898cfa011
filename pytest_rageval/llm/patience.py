"""How long one server is waited for that answers nothing."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Announcer", "Patience", "Wait"]

SAID_S: Final = 20.0
"""After so long it is said what is waited for."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A server for which requests wait, and why.

    Attributes:
        url: of the server, as far as it may be shown.
        last: what it answered last.
        requests: how many wait.
        seconds: for so long.
        patience_s: after so many seconds it is given up; None where it has refused none of them.
    """

    url: str
    last: str
    requests: int
    seconds: float
    patience_s: float | None = None

    def lasts(self, seconds: float) -> bool:
        """Whether it has lasted for so long, or for a third of the patience, where that is less."""
        return self.seconds >= (seconds if self.patience_s is None else min(seconds, self.patience_s / 3))

    def __str__(self) -> str:
        requests = f"{self.requests} {'request' if self.requests == 1 else 'requests'}"
        most = "" if self.patience_s is None else f"of at most {self.patience_s:g} "
        # The answer comes last: a terminal may be too narrow for it.
        return f"waiting for {self.url} ({requests}, {self.seconds:.0f} {most}s): {self.last}"


class Patience:
    """A stopwatch for one server: it runs while requests wait and none of them succeeds.

    It starts with the first attempt that fails, at the moment that attempt was sent; a success sets
    it back. While nothing is asked it stands still.

    Args:
        seconds: after which the server is given up.
        give_up: called then.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.seconds = seconds
        self._give_up = give_up
        self._succeeded_at = 0.0
        self._spent = 0.0
        self._runs_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.last = ""
        """What the server answered last, where that was a failure; else empty."""
        self.requests = 0
        """How many requests wait for the server."""

    @property
    def spent(self) -> float:
        """The seconds without a success so far."""
        runs_since = self._runs_since
        return self._spent + (0.0 if runs_since is None else time.monotonic() - runs_since)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """One request waits for the server until the block ends."""
        self.requests += 1
        if self.last:
            self._start()
        try:
            yield
        finally:
            self.requests -= 1
            if not self.requests:
                self._stop()

    def failed(self, sent: float, answer: str) -> None:
        """An attempt that was sent at this moment has failed."""
        if not self.last:
            self._spent = time.monotonic() - max(sent, self._succeeded_at)
        self.last = answer
        self._start()

    def succeeded(self) -> None:
        """A reply came: the server works."""
        self._stop()
        self._spent, self.last = 0.0, ""
        self._succeeded_at = time.monotonic()

    def _start(self) -> None:
        if self._runs_since is None:
            self._runs_since = time.monotonic()
            left = max(0.0, self.seconds - self._spent)
            self._timer = asyncio.get_running_loop().call_later(left, self._give_up)

    def _stop(self) -> None:
        self._spent, self._runs_since = self.spent, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Announcer:
    """Says what is waited for: a line for each server, once until it answers again.

    Args:
        say: prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[str] = set()

    def __call__(self, waits: Sequence[Wait]) -> None:
        """Say of these what is not said yet and lasts for long."""
        self._said &= {wait.url for wait in waits}
        for wait in waits:
            if wait.url not in self._said and wait.lasts(SAID_S):
                self._said.add(wait.url)
                self._say(f"rageval: {wait}")
