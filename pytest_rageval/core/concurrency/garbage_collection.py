"""`fewer_collections`: makes Python's garbage collection rarer during an evaluation or while a large file is read.

It is used because an evaluation keeps its objects and leaves few reference cycles: with Python's default threshold,
collections took a quarter of the time of an evaluation.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

FIRST_THRESHOLD: Final = 20_000
"""The number of new objects that triggers a collection when a run begins; Python's default is 700."""

RAISED_THRESHOLD: Final = 320_000
"""The threshold after a collection that freed nothing. 1,000 questions in progress have half as many objects."""

MIN_FREED_SHARE: Final = 0.01
"""A collection that frees a smaller share of its threshold counts as one that freed nothing."""


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Raise the threshold of the garbage collection, and restore it at the end.

    The threshold is at least `FIRST_THRESHOLD`, and at least `RAISED_THRESHOLD` while collections free nothing. A
    retriever may leave reference cycles that hold large arrays; so after a collection that frees objects, the first
    threshold applies again. A user's higher threshold, or a collection that is switched off, stays as it is.
    """
    with _lock:
        _saved_thresholds.append(gc.get_threshold())
        first, *others = _saved_thresholds[0]
        # The threshold 0 means that collections are switched off.
        if first and len(_saved_thresholds) == 1:
            gc.set_threshold(max(first, FIRST_THRESHOLD), *others)
            gc.callbacks.append(_adjust_threshold)
    try:
        yield
    finally:
        with _lock:
            original = _saved_thresholds[0]
            _saved_thresholds.pop()
            # Runs in several threads may overlap: the last one to end restores the threshold that the first one saved.
            if not _saved_thresholds:
                if _adjust_threshold in gc.callbacks:
                    gc.callbacks.remove(_adjust_threshold)
                gc.set_threshold(*original)


def _adjust_threshold(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    """Set the threshold of the next collection; a callback of `gc`."""
    # Without the lock, since a collection may start in a thread that holds it.
    threshold, *others = gc.get_threshold()
    if phase == "stop" and threshold and _saved_thresholds:
        freed_nothing = info["collected"] < MIN_FREED_SHARE * threshold
        new_threshold = RAISED_THRESHOLD if freed_nothing else FIRST_THRESHOLD
        gc.set_threshold(max(_saved_thresholds[0][0], new_threshold), *others)


_lock: Final = threading.Lock()

_saved_thresholds: Final[list[tuple[int, int, int]]] = []
"""The thresholds at the start of each active `fewer_collections`; the first entry has the original ones."""
