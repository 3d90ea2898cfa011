"""An event loop with a simulated clock: waiting takes no time, and durations are exact, even on a busy machine."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class Clock:
    """A replacement for the module `time`; its time advances when its event loop would wait for a timer."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        self.now += 1e-6
        return self.now

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: _Loop(self)) as runner:
            return runner.run(coroutine)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop with the time of a `Clock`, which advances the clock to the next timer instead of waiting."""

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
