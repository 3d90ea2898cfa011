"""`step`: runs a coroutine in the calling thread, without an event loop, as long as it need not wait.

With a synchronous retriever and no model, a whole evaluation is such a coroutine. Code that needs a loop awaits
`in_loop` before it creates a future or a task; the coroutine then continues in a loop.
"""

import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, Final, TypeVar

from pytest_rageval.errors import ReplyPending

__all__ = ["NEEDS_LOOP", "NOT_ENDED", "call_outside", "ends_all", "in_loop", "is_stepping", "step"]

T = TypeVar("T")

NEEDS_LOOP: Final = object()  # awaited by a coroutine that cannot continue without a loop
NOT_ENDED: Final = object()

_HERE: Final = threading.local()


def is_stepping() -> bool:
    """Whether the coroutine that is running is run by `step`, in this thread."""
    return getattr(_HERE, "stepping", False)


def step(work: Coroutine[Any, Any, Any], context: Context) -> Any:
    """Run a coroutine in this thread; its result, or `NOT_ENDED` if it must continue in an event loop."""
    before = is_stepping()
    _HERE.stepping = True
    try:
        while context.run(work.send, None) is not NEEDS_LOOP:
            # Like `asyncio.sleep(0)` it lets other tasks run, and here there are none.
            pass
    except StopIteration as stop:
        return stop.value
    finally:
        _HERE.stepping = before
    return NOT_ENDED


def call_outside(function: Callable[..., T], *args: Any) -> T:
    """Call the user's function: a loop that it runs in this thread is not ours."""
    _HERE.stepping = False
    try:
        return function(*args)
    finally:
        _HERE.stepping = True


@coroutine
def in_loop() -> Generator[Any, Any, None]:
    """Wait until the running coroutine is in an event loop; at once where it is."""
    if is_stepping():
        yield NEEDS_LOOP


def ends_all(error: BaseException) -> bool:
    """Whether an exception ends the whole run here, not one coroutine of many: Ctrl-C, or a timeout of pytest."""
    return is_stepping() and not isinstance(error, (Exception, ReplyPending))
