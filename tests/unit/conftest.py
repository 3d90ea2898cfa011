"""What unit tests share: a private event loop that does not wait forever."""

import time
from collections.abc import Callable, Iterator

import pytest

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop

PATIENCE_S = 60.0


@pytest.fixture
def loops() -> Iterator[Callable[..., BackgroundEventLoop]]:
    """Makes private loops that raise TimeoutError where they would hang, and closes them."""
    made: list[BackgroundEventLoop] = []

    def make(*, threads: int = 1, tick: Callable[[], None] = lambda: None) -> BackgroundEventLoop:
        deadline = time.monotonic() + PATIENCE_S

        def guarded() -> None:
            tick()
            if time.monotonic() > deadline:
                raise TimeoutError("the loop waits for something that never comes")

        made.append(BackgroundEventLoop(threads=threads, tick=guarded))
        return made[-1]

    yield make
    for loop in made:
        loop.close()


@pytest.fixture
def loop(loops: Callable[..., BackgroundEventLoop]) -> BackgroundEventLoop:
    """A private loop that calls synchronous functions in the test's thread."""
    return loops()
