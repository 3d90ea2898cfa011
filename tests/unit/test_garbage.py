"""Searches for garbage become rarer while they find none, and are frequent again when they find some."""

import gc
import threading
from collections.abc import Iterator

import pytest

from pytest_rageval.garbage import LEAST, MOST, fewer_searches


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Python's defaults, whatever other tests have set."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    assert not gc.callbacks or all(each.__module__ != "pytest_rageval.garbage" for each in gc.callbacks)


def test_a_search_that_finds_nothing_is_the_last_for_long() -> None:
    """What is made is kept."""
    kept: list[list[int]] = []
    with fewer_searches():
        assert gc.get_threshold() == (LEAST, 10, 10)
        kept += ([n] for n in range(LEAST + 1))
        assert gc.get_threshold() == (MOST, 10, 10)
        kept += ([n] for n in range(MOST + 1))
        assert gc.get_threshold() == (MOST, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


def test_a_search_that_finds_garbage_is_followed_by_frequent_ones() -> None:
    """A retriever that leaves cycles costs no more memory than it did at first."""
    with fewer_searches():
        gc.collect(0)
        assert gc.get_threshold()[0] == MOST
        for _ in range(MOST + 1000):
            cycle: list[object] = []
            cycle.append(cycle)
        assert gc.get_threshold()[0] == LEAST


@pytest.mark.parametrize("first", [50_000, 2 * MOST])
def test_a_larger_threshold_of_the_user_is_the_least(first: int) -> None:
    """It is kept, or raised."""
    gc.set_threshold(first, 7, 8)
    with fewer_searches():
        gc.collect(0)
        assert gc.get_threshold() == (max(MOST, first), 7, 8)
    assert gc.get_threshold() == (first, 7, 8)


def test_searches_that_are_off_stay_off() -> None:
    """Zero is never; nothing watches."""
    gc.set_threshold(0, 7, 8)
    with fewer_searches():
        gc.collect()
        assert gc.get_threshold() == (0, 7, 8)


def test_runs_that_overlap_restore_what_the_first_found() -> None:
    """The last of them does."""
    inside, leave = threading.Event(), threading.Event()

    def run() -> None:
        with fewer_searches():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=run)
    with fewer_searches():
        thread.start()
        inside.wait()
    assert gc.get_threshold()[0] >= LEAST
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)
