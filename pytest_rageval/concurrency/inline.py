"""`step`: runs a coroutine in the calling thread, without an event loop, as long as it need not wait.

With a synchronous retriever and no model, a whole evaluation is such a coroutine. Code that needs a loop awaits
`require_loop` before it creates a future or a task; the coroutine then continues in a loop.
"""

import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, Final, TypeVar

from pytest_rageval.errors import ReplyPending

__all__ = [
    "LOOP_REQUIRED",
    "NOT_FINISHED",
    "call_user_function",
    "is_fatal",
    "is_inline",
    "require_loop",
    "run_inline",
]

T = TypeVar("T")

LOOP_REQUIRED: Final = object()  # awaited by a coroutine that cannot continue without a loop
NOT_FINISHED: Final = object()

_HERE: Final = threading.local()


def is_inline() -> bool:
    """Whether the coroutine that is running is run by `step`, in this thread."""
    return getattr(_HERE, "stepping", False)


def run_inline(work: Coroutine[Any, Any, Any], context: Context) -> Any:
    """Run a coroutine in this thread; its result, or `NOT_FINISHED` if it must continue in an event loop."""
    before = is_inline()
    _HERE.stepping = True
    try:
        while context.run(work.send, None) is not LOOP_REQUIRED:
            # Like `asyncio.sleep(0)` it lets other tasks run, and here there are none.
            pass
    except StopIteration as stop:
        return stop.value
    finally:
        _HERE.stepping = before
    return NOT_FINISHED


def call_user_function(function: Callable[..., T], *args: Any) -> T:
    """Call the user's function: a loop that it runs in this thread is not ours."""
    _HERE.stepping = False
    try:
        return function(*args)
    finally:
        _HERE.stepping = True


@coroutine
def require_loop() -> Generator[Any, Any, None]:
    """Wait until the running coroutine is in an event loop; at once where it is."""
    if is_inline():
        yield LOOP_REQUIRED


def is_fatal(error: BaseException) -> bool:
    """Whether an exception ends the whole run here, not one coroutine of many: Ctrl-C, or a timeout of pytest."""
    return is_inline() and not isinstance(error, (Exception, ReplyPending))
