"""Fixtures of the unit tests: private event loops with a timeout."""

import time
from collections.abc import Callable, Iterator

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop

TIMEOUT_S = 60.0


@pytest.fixture
def loops() -> Iterator[Callable[..., BackgroundEventLoop]]:
    created: list[BackgroundEventLoop] = []

    def make(*, threads: int = 1, tick: Callable[[], None] = lambda: None) -> BackgroundEventLoop:
        deadline = time.monotonic() + TIMEOUT_S

        def tick_or_time_out() -> None:
            tick()
            if time.monotonic() > deadline:
                raise TimeoutError("the loop waits for something that never comes")

        created.append(BackgroundEventLoop(threads=threads, tick=tick_or_time_out))
        return created[-1]

    yield make
    for loop in created:
        loop.close()


@pytest.fixture
def loop(loops: Callable[..., BackgroundEventLoop]) -> BackgroundEventLoop:
    return loops()
