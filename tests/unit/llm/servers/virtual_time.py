"""An event loop in which waiting takes no time: what is tested of seconds is exact, on a busy machine too."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

__all__ = ["Clock"]


class Clock:
    """Stands for the module `time`; it goes on where its event loop has nothing to do but to wait."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """The seconds that have passed; no two readings are the same, as of a real clock."""
        self.now += 1e-6
        return self.now

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run to completion, by this clock."""
        with asyncio.Runner(loop_factory=lambda: _Loop(self)) as runner:
            return runner.run(coroutine)


class _Loop(asyncio.SelectorEventLoop):
    """Tells the time of a clock, and moves it on to the next timer instead of waiting for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__(_Selector(clock))

    def time(self) -> float:
        return self._clock.now


class _Selector(selectors.SelectSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise TimeoutError("the loop waits for something that never comes")
        self._clock.now += max(timeout, 0.0)
        return super().select(0)
