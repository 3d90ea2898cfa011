"""What unit tests share: private event loops with a timeout, and tests that are coroutines."""

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop

TIMEOUT_S = 60.0


@pytest.fixture
def loops() -> Iterator[Callable[..., BackgroundEventLoop]]:
    created: list[BackgroundEventLoop] = []

    def make(*, threads: int = 1, tick: Callable[[], None] = lambda: None) -> BackgroundEventLoop:
        waited, last = 0.0, time.monotonic()

        def tick_or_time_out() -> None:
            # The time between two ticks counts as a wait only up to a second: the rest is a slow call, such as the
            # import of a framework on a busy machine.
            nonlocal waited, last
            tick()
            now = time.monotonic()
            waited, last = waited + min(now - last, 1.0), now
            if waited > TIMEOUT_S:
                raise TimeoutError("the loop waits for something that never comes")

        created.append(BackgroundEventLoop(threads=threads, tick=tick_or_time_out))
        return created[-1]

    yield make
    for loop in created:
        loop.close()


@pytest.fixture
def loop(loops: Callable[..., BackgroundEventLoop]) -> BackgroundEventLoop:
    return loops()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine: in the simulated time of its `clock`, or with a timeout."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    coroutine = test(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters})
    clock = pyfuncitem.funcargs.get("clock")
    if clock is not None:
        clock.run(coroutine)
    else:
        asyncio.run(asyncio.wait_for(coroutine, TIMEOUT_S))
    return True
