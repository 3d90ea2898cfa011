"""How long to wait for a server that answers nothing, and what is said meanwhile."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Announcer", "Patience", "Wait"]

ANNOUNCED_AFTER_S: Final = 20.0


class Patience:
    """A stopwatch for one server: it runs while requests wait and none of them succeeds.

    It starts at the sending of the first attempt that fails, and a success resets it. While no request
    waits it stands still.

    Args:
        seconds: the time after which the server is given up.
        give_up: called then.

    Attributes:
        last: the server's last answer where that was a failure; else empty.
        requests: how many requests wait for the server.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self.seconds = seconds
        self._give_up = give_up
        self._succeeded_at = 0.0
        self._spent = 0.0
        self._runs_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.last = ""
        self.requests = 0

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

    def failed(self, sent_at: float, answer: str) -> None:
        """An attempt that was sent at this time has failed."""
        if not self.last:
            self._spent = time.monotonic() - max(sent_at, self._succeeded_at)
        self.last = answer
        self._start()

    def succeeded(self) -> None:
        """A reply came."""
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


@dataclass(frozen=True, slots=True)
class Wait:
    """A server that requests wait for.

    Attributes:
        url: the server's URL without secrets.
        last: its last answer.
        requests: how many wait.
        seconds: for how long.
        patience_s: the seconds after which the server is given up; None where it has refused no request.
    """

    url: str
    last: str
    requests: int
    seconds: float
    patience_s: float | None = None

    def lasts(self, seconds: float) -> bool:
        """Whether it has lasted for so long, or for a third of the patience where that is less."""
        return self.seconds >= (seconds if self.patience_s is None else min(seconds, self.patience_s / 3))

    def __str__(self) -> str:
        requests = f"{self.requests} {'request' if self.requests == 1 else 'requests'}"
        most = "" if self.patience_s is None else f"of at most {self.patience_s:g} "
        # The answer comes last: a terminal may be too narrow for it.
        return f"waiting for {self.url} ({requests}, {self.seconds:.0f} {most}s): {self.last}"


class Announcer:
    """Prints a line for each server that keeps requests waiting, once until it answers again.

    Args:
        say: prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._announced: set[str] = set()

    def __call__(self, waits: Sequence[Wait]) -> None:
        """Announce the new waits that have lasted long enough."""
        self._announced &= {wait.url for wait in waits}
        for wait in waits:
            if wait.url not in self._announced and wait.lasts(ANNOUNCED_AFTER_S):
                self._announced.add(wait.url)
                self._say(f"rageval: {wait}")
