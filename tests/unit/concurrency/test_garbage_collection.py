"""Garbage is collected less often while nothing is freed, and often again when something is."""

import gc
import threading
from collections.abc import Iterator

import pytest

from pytest_rageval.concurrency.garbage_collection import FIRST_THRESHOLD, RAISED_THRESHOLD, fewer_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Python's defaults, whatever other tests have set."""
    before = gc.get_threshold()
    # What other tests have left would be freed here.
    gc.collect()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    assert not gc.callbacks or all(
        callback.__module__ != "pytest_rageval.concurrency.garbage_collection" for callback in gc.callbacks
    )


def test_the_threshold_rises_after_a_collection_that_freed_nothing() -> None:
    """All objects are kept."""
    kept: list[list[int]] = []
    with fewer_collections():
        assert gc.get_threshold() == (FIRST_THRESHOLD, 10, 10)
        kept += ([n] for n in range(FIRST_THRESHOLD + 1))
        assert gc.get_threshold() == (RAISED_THRESHOLD, 10, 10)
        kept += ([n] for n in range(RAISED_THRESHOLD + 1))
        assert gc.get_threshold() == (RAISED_THRESHOLD, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_threshold_falls_after_a_collection_that_freed_objects() -> None:
    """A retriever that leaves cycles costs no more memory than it did at first."""
    with fewer_collections():
        gc.collect(0)
        assert gc.get_threshold()[0] == RAISED_THRESHOLD
        for _ in range(RAISED_THRESHOLD + 1000):
            cycle: list[object] = []
            cycle.append(cycle)
        assert gc.get_threshold()[0] == FIRST_THRESHOLD


@pytest.mark.parametrize("first", [50_000, 2 * RAISED_THRESHOLD])
def test_a_larger_threshold_of_the_user_is_the_least(first: int) -> None:
    """It is kept, or raised."""
    gc.set_threshold(first, 7, 8)
    with fewer_collections():
        gc.collect(0)
        assert gc.get_threshold() == (max(RAISED_THRESHOLD, first), 7, 8)
    assert gc.get_threshold() == (first, 7, 8)


def test_collections_that_are_off_stay_off() -> None:
    """Zero is never; nothing watches."""
    gc.set_threshold(0, 7, 8)
    with fewer_collections():
        gc.collect()
        assert gc.get_threshold() == (0, 7, 8)


def test_runs_that_overlap_restore_what_the_first_found() -> None:
    """The last of them does."""
    inside, leave = threading.Event(), threading.Event()

    def run() -> None:
        with fewer_collections():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=run)
    with fewer_collections():
        thread.start()
        inside.wait()
    assert gc.get_threshold()[0] >= FIRST_THRESHOLD
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)
