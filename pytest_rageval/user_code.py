"""The user's own retrievers, generators and judges: calls, failures, and checks of their results."""

import asyncio
import contextlib
import inspect
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple, NoReturn, Self

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.concurrency.inline import require_loop
from pytest_rageval.conversation import QuestionWithHistory
from pytest_rageval.errors import (
    CallableError,
    Cause,
    Planned,
    QueryError,
    RagevalError,
    Unscored,
    raised_in_package,
    summary_line,
)

__all__ = [
    "CACHED",
    "FIRST",
    "InvalidResult",
    "PlanStub",
    "RemoteResult",
    "TimedResult",
    "UserCallable",
    "accepts",
    "as_number",
    "as_share",
    "is_async",
    "is_cached",
    "is_ours",
    "note_asked",
    "raised_in",
    "read_to_end",
    "takes",
    "underlying",
]

FIRST: Final = 5
"""A callable that fails at so many questions before it has answered any is not called again in that run."""


CACHED: Final = "__rageval_cached__"  # an attribute of the functions that `cached()` returns


@dataclass(eq=False)
class InvalidResult(Exception):  # noqa: N818 - turned into a QueryError by `UserCallable`
    """A callable's result cannot be used."""

    found: str  # what it returned, in one line and without the question
    message: str  # the full text after the callable's name; `{question}` stands for the question
    kind: str = "returned"  # failures of one kind at all of the first questions end the calls


class TimedResult(NamedTuple):
    """A converted result, and the seconds that the call took; None if other calls ran meanwhile."""

    value: Any
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """The result of a call in another process, and the seconds that it took there; None if it was not timed."""

    value: Any
    seconds: float | None


class UserCallable:
    """The user's retriever, generator or judge.

    A sync one is called in the test's own thread, one call at a time: it may not be thread-safe, or usable only
    where it was made. An async one is called in the run's event loop, for all examples at once.

    A failure, which is an exception or an unusable result, concerns one question: the callable is not called again
        with the same arguments in the same run. If it fails in the same way on the first `FIRST` questions, it is not
        called again in that run at all. So an async one gets only that many calls at once until one has succeeded.

    Args:
        name: of the fixture, and of its method if there is one, for errors.
        function: the callable, or a method of the user's object.
        loop: the run's event loop.
        question: the position of the question among the arguments, for errors.
        cause: the cause of examples that are unscored by a failure.
        read: converts a result; raises `InvalidResult`.
    """

    def __init__(  # noqa: PLR0913 - the parts of a callable
        self,
        name: str,
        function: Callable[..., Any],
        loop: BackgroundEventLoop,
        question: int = 0,
        *,
        cause: Cause = "run",
        read: Callable[[Any], Any] = lambda result: result,
    ) -> None:
        self.name = name
        self._question = question
        self._cause: Cause = cause
        self.function = function
        self._loop = loop
        self._read = read
        self.is_async = is_async(function)
        self._tries = _Tries(loop.runs)
        self._history = _parameter(function, "history")
        self._stopwatches = _Stopwatches(self)
        loop.users.append(self)
        self.calls = 0  # so far
        self.asked: Counter[str] = Counter()  # by model, the completions that were asked for during its calls

    async def call(self, *args: Any, **named: Any) -> Any:
        """Call it, and return its converted result.

        Of a `Question` it receives the text, and the messages before it if it has a parameter `history`.

        QueryError: it failed for these arguments, now or before in this run, or at all of the first questions.
        Unscored: it raised this; one that this package raised keeps its own cause.
        """
        return (await self.timed(*args, **named)).value

    async def timed(self, *args: Any, **named: Any) -> TimedResult:
        """As `call`, with the time that the function itself took: without waiting for its turn."""
        questions = [each for each in args if isinstance(each, QuestionWithHistory)]
        history = [dict(message) for each in questions for message in each.history]
        if self._history is not None and (history or self._history.default is self._history.empty):
            named.setdefault("history", history)
        plain = tuple([str(each) if isinstance(each, QuestionWithHistory) else each for each in args])
        try:
            return await self._result(plain, named)
        except QueryError as error:
            # One error may end many questions: its traceback would grow with each, and keep what each had.
            raise error.with_traceback(None) from error.__cause__
        except Unscored as unscored:
            if not raised_in_package(unscored):
                unscored.cause = self._cause
            raise

    async def _result(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> TimedResult:
        if not self.is_async:
            return await self._whole(await self._loop.call(self._guarded, args, named), args, named)
        await require_loop()
        async with self._current.turn():
            return await self._whole(self._guarded(args, named), args, named)

    async def _whole(self, result: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> TimedResult:
        if isinstance(result, TimedResult):
            return result
        try:
            await require_loop()
        except BaseException:
            if inspect.iscoroutine(result):
                result.close()
            raise
        # It may use `asyncio.timeout`, which takes the current task for its own.
        return await asyncio.ensure_future(self._awaited(result, args, named))

    async def _awaited(self, result: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> TimedResult:
        try:
            with self._stopwatches.started() as watch:
                return self._used(await result, args, named, watch)
        except (RagevalError, Unscored):
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # SystemExit would end the thread of the loop, and every caller would wait for ever.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise self._raised(args, named, error) from error

    def _guarded(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        # Checked in the calling thread: other calls may have failed while this one waited.
        known = self._current.known(args, named)
        if known is not None:
            raise known
        self.calls += 1
        try:
            with self._stopwatches.started() as watch:
                result = self.function(*args, **named)
                return result if inspect.isawaitable(result) else self._used(result, args, named, watch)
        except (RagevalError, Unscored):
            raise
        except (Exception, SystemExit) as error:
            # After a SystemExit pytest would not tear down the fixtures.
            raise self._raised(args, named, error) from error

    def _used(
        self, result: Any, args: tuple[Any, ...], named: Mapping[str, Any], watch: "_Stopwatch"
    ) -> TimedResult:
        """Convert a result; recorded at once, before other calls may fail."""
        try:
            # A lazy iterable is read to its end here, in the thread where the user's code may run.
            whole = read_to_end(result)
            seconds = watch.seconds
            if isinstance(result, RemoteResult):
                seconds = result.seconds if watch.alone else None
            value = self._read(whole)
        except InvalidResult as unusable:
            message = unusable.message.replace("{question}", repr(args[self._question]))
            raise self._failed(unusable.kind, args, named, f"{self.name} {message}", unusable.found) from None
        except Unscored:
            self._current.answered = True
            raise
        self._current.answered = True
        return TimedResult(value, seconds)

    def _raised(self, args: tuple[Any, ...], named: Mapping[str, Any], error: BaseException) -> QueryError:
        message = str(CallableError.from_exception(f"{self.name} raised for {args[self._question]!r}", error))
        return self._failed(type(error).__name__, args, named, message, f"raised {summary_line(error)}")

    def _failed(self, kind: str, args: Sequence[Any], named: object, message: str, found: str) -> QueryError:
        error = QueryError(message, f"{self.name} {found}", part=self.name, cause=self._cause)
        self._current.record_failure(error, repr((args, named)), kind, repr(args[self._question]))
        return error

    @property
    def is_running(self) -> bool:
        """Whether a call of it is running, in any thread."""
        return self._stopwatches.running

    @property
    def _current(self) -> "_Tries":
        # Of this run only: in a later test the callable may work again.
        if self._tries.run != self._loop.runs:
            self._tries = _Tries(self._loop.runs)
        return self._tries

    @property
    def identity(self) -> str:
        """Identifies it in a baseline.

        The text in its attribute `fingerprint`, or its object's, which the user changes with what the function
        does. Else module and name; for a method with the class of its object, for a partial with its arguments.
        """
        return _identity(self.function)


_CALLED: ContextVar[UserCallable | None] = ContextVar("_CALLED", default=None)
"""The part of the user's code that is running. It is not set in threads that this code starts."""


def note_asked(loop: BackgroundEventLoop, model: str) -> None:
    """Count a completion that the user's code requests, for the callable that requests it.

    In a thread that the user's code started, or behind a server, the context does not name it. Then it is the callable
    of which a call is running; where several have one, the completion is not counted.
    """
    called = _CALLED.get()
    if called is None:
        running = [each for each in loop.users if isinstance(each, UserCallable) and each.is_running]
        called = running[0] if len(running) == 1 else None
    if called is not None:
        called.asked[model] += 1


class _Stopwatches:
    """Times the calls of one function, from several threads; calls that overlap slow each other, and have no time."""

    def __init__(self, owner: UserCallable) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._running: set[_Stopwatch] = set()

    @property
    def running(self) -> bool:
        """Whether a call has begun and not ended."""
        return bool(self._running)

    def started(self) -> "_Stopwatch":
        """Time a call: its time can be read within the block of `with`."""
        return _Stopwatch(self)

    def start(self, watch: "_Stopwatch") -> "Token[UserCallable | None]":
        """Note that a call begins."""
        with self._lock:
            watch.alone = not self._running
            for other in self._running:
                other.alone = False
            self._running.add(watch)
        return _CALLED.set(self._owner)

    def stop(self, watch: "_Stopwatch", token: "Token[UserCallable | None]") -> None:
        """Note that it has ended."""
        _CALLED.reset(token)
        with self._lock:
            self._running.remove(watch)


class _Stopwatch:
    """Times one call. A class, as a generator of `contextlib` takes longer than many a retriever."""

    def __init__(self, all_of: _Stopwatches) -> None:
        self._all = all_of
        self.alone = True

    def __enter__(self) -> Self:
        self._token = self._all.start(self)
        self._began = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._all.stop(self, self._token)

    @property
    def seconds(self) -> float | None:
        """The seconds since it was started; None where another call ran meanwhile."""
        elapsed = perf_counter() - self._began
        return elapsed if self.alone else None


@dataclass
class _Tries:
    """The outcomes of the calls in one run; `answered` once any call had a usable result."""

    run: int
    answered: bool = False
    _failed: dict[str, QueryError] = field(default_factory=dict)
    _kinds: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _final: QueryError | None = None
    _calls: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def known(self, args: Sequence[Any], named: Mapping[str, Any]) -> QueryError | None:
        """Return the error of an earlier call with these arguments, or that of all calls."""
        # Most runs have no errors, and the text of ten passages is long.
        return self._final or (self._failed.get(repr((args, named))) if self._failed else None)

    def record_failure(self, error: QueryError, key: str, kind: str, question: str) -> None:
        """Record a failure by call, kind and question; enough of one kind end the calls of this run."""
        self._failed[key] = error
        self._kinds[kind].add(question)
        if not self.answered and len(self._kinds[kind]) >= FIRST:
            self._final = self._final or next(iter(self._failed.values()))

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Admit one call; until one has succeeded, only as many at once as could end the calls."""
        while not self.answered and self._final is None:
            most_alike = max(map(len, self._kinds.values()), default=0)
            if self._calls + most_alike < FIRST:
                break
            await self._changed.wait()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._changed.set()
            self._changed = asyncio.Event()


class PlanStub:
    """Replaces the value of a fixture, the user's own generator or judge, in a plan: each call counts a remark.

    It has the same methods, so that a missing one is an error in a plan as in a run.
    """

    def __init__(self, name: str, part: object, count: Callable[[str], None]) -> None:
        self._remark = f"calls of {name}, your own function: what they ask is not counted"
        self._part = part
        self._count = count

    def __getattr__(self, method: str) -> Any:
        value = getattr(self._part, method)
        return self.__call__ if callable(value) else value

    async def __call__(self, *_: object, **__: object) -> NoReturn:
        """Count a call; always raises `Planned`."""
        self._count(self._remark)
        raise Planned("not called in a plan")


def raised_in(error: BaseException) -> InvalidResult:
    """The exception to raise for an exception in the user's code; the caller may be in another process."""
    message = str(CallableError.from_exception("raised for {question}", error))
    return InvalidResult(f"raised {summary_line(error)}", message, type(error).__name__)


def read_to_end(result: Any) -> Any:
    """Return a lazy iterable as a list; anything else as it is."""
    whole = (str, bytes, Mapping, list, tuple)
    if isinstance(result, whole) or not isinstance(result, Iterable) or inspect.isawaitable(result):
        return result
    return list(result)


def _identity(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    for fingerprint in (getattr(function, "fingerprint", None), getattr(owner, "fingerprint", None)):
        if isinstance(fingerprint, str):
            return fingerprint
    if isinstance(function, partial):
        arguments = [_shown(value) for value in function.args]
        arguments += [f"{name}={_shown(value)}" for name, value in sorted(function.keywords.items())]
        return f"{_identity(function.func)}({', '.join(arguments)})"
    if inspect.ismethod(function):
        # The object's class, not the method's: two judges may inherit it from one base class.
        return f"{_name(owner if isinstance(owner, type) else type(owner))}.{function.__name__}"
    return _name(function if hasattr(function, "__qualname__") else type(function))


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _shown(value: object) -> str:
    """Return the repr of a value where every process has the same; else its type."""
    return repr(value) if isinstance(value, str | int | float | bool | None) else _name(type(value))


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it makes a coroutine; also for objects with an async `__call__`."""
    called = getattr(function, "__call__", None)  # noqa: B004 - its type matters, not its presence
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def is_cached(function: object) -> bool:
    """Whether `cached()` returned it."""
    return getattr(function, CACHED, False) is True


def is_ours(part: object) -> bool:
    """Whether a generator or judge is the package's own, which uses the session's gateway."""
    of_this_package = type(part).__module__.partition(".")[0] == __name__.partition(".")[0]
    return of_this_package and not isinstance(part, PlanStub)


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function accepts a keyword argument of this name."""
    return _parameter(function, name) is not None


def _parameter(function: Callable[..., Any], name: str) -> inspect.Parameter | None:
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return None
    named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return parameter if parameter is not None and parameter.kind in named else None


def accepts(function: Callable[..., Any], *args: Any, **named: Any) -> bool:
    """Whether a function can be called with these arguments; also true of one without a signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return True
    try:
        signature.bind(*args, **named)
    except TypeError:
        return False
    return True


def underlying(part: object) -> object:
    """Return the value of the fixture that a stub replaces in a plan; another part is returned as it is."""
    return vars(part)["_part"] if isinstance(part, PlanStub) else part


def as_number(value: Any) -> float | None:
    """Return a number of any type, numpy's and bools included, as a float; None for anything else.

    >>> as_number(True), as_number("1")
    (1.0, None)
    """
    if value is None or isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def as_share(value: Any) -> float | None:
    """Return a number in [0, 1] as a float; None for anything else."""
    number = as_number(value)
    return number if number is not None and 0 <= number <= 1 else None
