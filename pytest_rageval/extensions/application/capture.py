"""`capture`: records what searches returned while the application answered a question."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

from pytest_rageval.core.data import Step
from pytest_rageval.core.errors import InputError, Unscored, did_you_mean
from pytest_rageval.core.user_code import is_async
from pytest_rageval.lib.lazy import Lazy

FRAMEWORKS: Final = {
    name: Lazy("extensions.application.frameworks", f"capture_{name}")
    for name in ("langchain", "llama_index", "haystack", "opentelemetry")
}


@dataclass(eq=False, slots=True)
class Recorder:
    """The searches that ran while one question was answered.

    Attributes:
        steps: the searches, in the order of their ends, with the documents as they were returned.
        mixed: whether a search ran in a thread of its own beside other questions: it is unknown whose it was.
    """

    steps: list[Step] = field(default_factory=list)
    mixed: bool = False

    def searches(self) -> list[Step]:
        """Return the searches; Unscored if it is not known which they were."""
        if self.mixed:
            raise Unscored(
                "a captured search ran in a thread beside other questions, and whose it was is not known; make the "
                "application a sync function, or pass the context on (asyncio.to_thread does)"
            )
        return self.steps


_CURRENT: Final[ContextVar[Recorder | None]] = ContextVar("rageval_recorder", default=None)
_ACTIVE: Final[set[Recorder]] = set()
_LOCK: Final = threading.Lock()
_captures = 0


def is_capturing() -> bool:
    """Whether searches are captured at all."""
    return _captures > 0


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record the searches of the code in the `with` block, and of tasks and threads to which it passes its context."""
    recorder = Recorder()
    token = _CURRENT.set(recorder)
    with _LOCK:
        _ACTIVE.add(recorder)
    try:
        yield recorder
    finally:
        _CURRENT.reset(token)
        with _LOCK:
            _ACTIVE.discard(recorder)


def record(query: object, documents: Any) -> None:
    """Record a search for the question that is being answered; nothing if there is none."""
    recorder = _CURRENT.get()
    with _LOCK:
        if recorder is None:
            # A thread without the context of its question: known only if no other question is answered now.
            if len(_ACTIVE) != 1:
                for other in _ACTIVE:
                    other.mixed = True
                return
            recorder = next(iter(_ACTIVE))
        # A list is copied, since the application may go on to change it.
        recorder.steps.append(Step(str(query), list(documents) if isinstance(documents, list) else documents))


@contextmanager
def capture(owner: object, method: str = "") -> Iterator[None]:
    """Record what a method returns while the application answers; within the `with` block, and for all threads.

    Args:
        owner: the object or class with the method; or the name of a framework whose searches are recorded, without a
            method: "langchain", "llama_index", "haystack", or "opentelemetry" for spans of retrievers.
        method: the name of the method, sync or async. Its first argument, or the one named `query`, is the query.

    Raises:
        InputError: there is no such method or framework.
    """
    global _captures  # noqa: PLW0603 - a count, for all threads
    if isinstance(owner, str):
        if owner not in FRAMEWORKS or method:
            raise InputError(
                f"capture({owner!r}): there is no such framework.{did_you_mean(owner, FRAMEWORKS)}\n"
                f'There are: {", ".join(FRAMEWORKS)}. For a method, give its object: capture(store, "search").'
            )
        manager = FRAMEWORKS[owner](record)
    else:
        manager = _patched(owner, method)
    with manager:
        _captures += 1
        try:
            yield
        finally:
            _captures -= 1


@contextmanager
def _patched(owner: Any, method: str) -> Iterator[None]:
    original = getattr(owner, method, None)
    if not callable(original):
        raise InputError(
            f"capture: {type(owner).__name__} has no method {method!r}.{did_you_mean(method, dir(owner))}"
        )
    of = type if isinstance(owner, type) else object
    own_names = getattr(owner, "__dict__", {})
    is_own, own = method in own_names, own_names.get(method)
    replacement: Any = _recorded(original)
    if isinstance(own, staticmethod | classmethod):
        replacement = staticmethod(replacement)  # the original is bound already
    try:
        # Some objects, such as models of pydantic, refuse a new attribute in any other way.
        of.__setattr__(owner, method, replacement)
    except (AttributeError, TypeError):
        raise InputError(
            f"capture: {type(owner).__name__}.{method} cannot be replaced.\n"
            f"Give the class: capture({type(owner).__name__}, {method!r}); or a method of your own that calls it."
        ) from None
    try:
        yield
    finally:
        if is_own:
            of.__setattr__(owner, method, own)
        else:
            of.__delattr__(owner, method)


def _recorded(original: Callable[..., Any]) -> Callable[..., Any]:
    def query_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        texts = [argument for argument in args if isinstance(argument, str)]
        return kwargs.get("query", texts[0] if texts else "")

    if is_async(original):

        @wraps(original)
        async def awaiting(*args: Any, **kwargs: Any) -> Any:
            returned = await original(*args, **kwargs)
            record(query_of(args, kwargs), returned)
            return returned

        return awaiting

    @wraps(original)
    def calling(*args: Any, **kwargs: Any) -> Any:
        returned = original(*args, **kwargs)
        record(query_of(args, kwargs), returned)
        return returned

    return calling
