"""Python's searches for garbage in cycles, which are rarer during a run."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

__all__ = ["LEAST", "MOST", "fewer_searches"]

LEAST: Final = 20_000
"""So many more objects begin a search at the beginning of a run; Python's default is 700."""

MOST: Final = 320_000
"""So many begin one where the last has found nothing: a thousand questions at once have half as many."""

WORTH: Final = 0.01
"""A search that frees a smaller share of the objects that began it has found nothing."""


@contextmanager
def fewer_searches() -> Iterator[None]:
    """Search less often: at first after `LEAST` objects, and after `MOST` when a search has found nothing.

    An evaluation keeps what it makes and leaves no cycles, and the searches took a quarter of the time. A retriever may
    leave cycles that hold large arrays: when a search finds garbage, the next one is after `LEAST` objects again.
    """
    with _CHANGING:
        _before.append(gc.get_threshold())
        first, *others = _before[0]
        # 0 is never.
        if first and len(_before) == 1:
            gc.set_threshold(max(first, LEAST), *others)
            gc.callbacks.append(_adapt)
    try:
        yield
    finally:
        with _CHANGING:
            before = _before[0]
            _before.pop()
            # Runs in several threads overlap: the last restores what the first found.
            if not _before:
                if _adapt in gc.callbacks:
                    gc.callbacks.remove(_adapt)
                gc.set_threshold(*before)


def _adapt(phase: Literal["start", "stop"], found: dict[str, int]) -> None:
    """Set the number of objects that begin the next search."""
    # Without the lock: a search may begin in a thread that has it.
    now, *others = gc.get_threshold()
    if phase == "stop" and now and _before:
        nothing = found["collected"] < WORTH * now
        gc.set_threshold(max(_before[0][0], MOST if nothing else LEAST), *others)


_CHANGING: Final = threading.Lock()
_before: Final[list[tuple[int, int, int]]] = []
