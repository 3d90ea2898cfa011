"""Garbage is collected less often while collections free nothing, and more often again once they free objects."""

import gc
import threading
from collections.abc import Iterator

import pytest

from pytest_rageval.core.concurrency.garbage_collection import (
    FIRST_THRESHOLD,
    RAISED_THRESHOLD,
    fewer_collections,
)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Set Python's default thresholds before each test, and restore the previous ones after it."""
    before = gc.get_threshold()
    # Free the garbage of earlier tests, so that it does not count as freed in this test.
    gc.collect()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    assert not gc.callbacks or all(
        callback.__module__ != "pytest_rageval.core.concurrency.garbage_collection"
        for callback in gc.callbacks
    )


def test_the_threshold_rises_after_a_collection_that_freed_nothing() -> None:
    """If all objects stay alive, the first collection raises the threshold."""
    alive: list[list[int]] = []
    with fewer_collections():
        assert gc.get_threshold() == (FIRST_THRESHOLD, 10, 10)
        alive += ([n] for n in range(FIRST_THRESHOLD + 1))
        assert gc.get_threshold() == (RAISED_THRESHOLD, 10, 10)
        alive += ([n] for n in range(RAISED_THRESHOLD + 1))
        assert gc.get_threshold() == (RAISED_THRESHOLD, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_the_threshold_falls_after_a_collection_that_freed_objects() -> None:
    """If a collection frees reference cycles, the threshold returns to its first value."""
    with fewer_collections():
        gc.collect(0)
        assert gc.get_threshold()[0] == RAISED_THRESHOLD
        for _ in range(RAISED_THRESHOLD + 1000):
            cycle: list[object] = []
            cycle.append(cycle)
        assert gc.get_threshold()[0] == FIRST_THRESHOLD


@pytest.mark.parametrize("first", [50_000, 2 * RAISED_THRESHOLD])
def test_a_larger_threshold_of_the_user_is_the_least(first: int) -> None:
    """A larger threshold of the user is kept or raised, never lowered."""
    gc.set_threshold(first, 7, 8)
    with fewer_collections():
        gc.collect(0)
        assert gc.get_threshold() == (max(RAISED_THRESHOLD, first), 7, 8)
    assert gc.get_threshold() == (first, 7, 8)


def test_collections_that_are_off_stay_off() -> None:
    """A threshold of 0, which disables collection, is not changed."""
    gc.set_threshold(0, 7, 8)
    with fewer_collections():
        gc.collect()
        assert gc.get_threshold() == (0, 7, 8)


def test_runs_that_overlap_restore_what_the_first_found() -> None:
    """Of overlapping runs, the last to end restores the thresholds that the first one saved."""
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
