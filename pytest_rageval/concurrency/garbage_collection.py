"""Python's garbage collection, which runs less often during an evaluation."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

__all__ = ["FIRST_THRESHOLD", "RAISED_THRESHOLD", "fewer_collections"]

FIRST_THRESHOLD: Final = 20_000
"""The number of new objects that starts a collection when a run begins; Python's default is 700."""

RAISED_THRESHOLD: Final = 320_000
"""The threshold after a collection that freed nothing. A thousand questions in progress have half as many objects."""

FREED_NOTHING: Final = 0.01
"""A collection that frees less than this share of its threshold counts as one that freed nothing."""


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Collect garbage less often: from `FIRST_THRESHOLD` on, and from `RAISED_THRESHOLD` while nothing is freed.

    An evaluation keeps its objects and leaves no cycles, and collections took a quarter of its time. A retriever may
    leave cycles that hold large arrays: after a collection that frees objects, the first threshold applies again.
    """
    with _CHANGING:
        _before.append(gc.get_threshold())
        first, *others = _before[0]
        # 0 switches collections off.
        if first and len(_before) == 1:
            gc.set_threshold(max(first, FIRST_THRESHOLD), *others)
            gc.callbacks.append(_adapt)
    try:
        yield
    finally:
        with _CHANGING:
            before = _before[0]
            _before.pop()
            # Runs in several threads overlap: the last one restores what the first one found.
            if not _before:
                if _adapt in gc.callbacks:
                    gc.callbacks.remove(_adapt)
                gc.set_threshold(*before)


def _adapt(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    """Set the threshold of the next collection."""
    # Without the lock: a collection may start in a thread that holds it.
    now, *others = gc.get_threshold()
    if phase == "stop" and now and _before:
        freed_nothing = info["collected"] < FREED_NOTHING * now
        gc.set_threshold(max(_before[0][0], RAISED_THRESHOLD if freed_nothing else FIRST_THRESHOLD), *others)


_CHANGING: Final = threading.Lock()
_before: Final[list[tuple[int, int, int]]] = []
