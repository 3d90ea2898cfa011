"""Calls of the user's own retrievers, generators and judges, with checks of their results."""

import contextlib
import inspect
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeGuard, TypeVar

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import require_loop
from pytest_rageval.core.errors import (
    CallableError,
    Cause,
    MissingReplyError,
    QueryError,
    RagevalError,
    Unscored,
    raised_in_package,
    summary_line,
)
from pytest_rageval.core.evalset import QuestionWithHistory
from pytest_rageval.lib.foreign_values import is_async, is_data_frame, is_record, parameter_of

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

# After this many equal failures before its first success a callable is not called again in the run.
MAX_FAILURES: Final = 5
MAX_ITEMS: Final = 10_000  # the most items in one result, such as documents
MAX_TEXT_LENGTH: Final = 1_000_000  # the most characters of one passage or answer

CACHED: Final = "__rageval_cached__"  # the attribute of the functions that `cached()` returns
# The attribute of a function that an extension makes of another fixture of the user: the name of that fixture.
GIVEN_BY: Final = "__rageval_given_by__"


@cache
def call_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions of the user's code that concern one call.

    `asyncio.run` raises CancelledError if its coroutine was cancelled. SystemExit would end the thread of the event
    loop, and every caller would wait for ever. Other exceptions end the test: Ctrl-C, and the outcomes of pytest, as of
    `pytest.skip` or of a timeout plugin.
    """
    import asyncio  # noqa: PLC0415 - see `calls.event_loop`

    return (Exception, SystemExit, asyncio.CancelledError, GeneratorExit)


@dataclass(eq=False)
class InvalidResult(Exception):  # noqa: N818 - turned into a QueryError by `UserCallable`
    """The result of a callable is unusable.

    `found` is what it returned or raised, in one line without the question; in `message`, `{question}` is replaced by
    it. Calls end if the first `MAX_FAILURES` questions fail with one `kind`.
    """

    found: str
    message: str
    kind: str = "returned"


class TimedResult(NamedTuple):
    """A converted result, and the duration of the call in seconds; None if other calls ran at the same time."""

    value: Any
    seconds: float | None


class RemoteResult(NamedTuple):
    """The result of a call in another process, and its duration there in seconds; None if it was not measured."""

    value: Any
    seconds: float | None


class UserCallable:
    """The user's retriever, generator or judge. `question` is the index of the question in its arguments.

    A sync callable is called in the thread of the test, one call at a time: it may not be thread-safe, or may be usable
    only in the thread that created it. An async callable is called in the event loop of the run, for all examples at
    once.

    A failure is an exception or an unusable result, for which `read` raises `InvalidResult`. It concerns one question:
    the callable is not called again with the same arguments in the same run. If it fails in the same way for the first
    `MAX_FAILURES` questions, it is not called again in that run at all. Therefore an async callable has at most that
    many calls in flight until one call has succeeded.
    """

    def __init__(  # noqa: PLR0913 - the properties of a callable
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
        self.is_async: bool = is_async(function)
        self._outcomes = _CallOutcomes(loop.runs)
        self._history = parameter_of(function, "history")
        # The calls that are running, from any thread.
        self.running: set[Call] = set()
        self.running_lock: Final = threading.Lock()
        loop.user_callables.append(self)
        self.calls: int = 0  # number of calls
        self.completion_counts: Counter[str] = Counter()  # completions requested during its calls, by model

    async def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function and return its converted result; QueryError if it failed, Unscored if it raised that.

        For a question with a history the function receives the plain text, and the messages before the question if the
        function has a parameter `history`.
        """
        return (await self.call_timed(*args, **kwargs)).value

    async def call_timed(self, *args: Any, **kwargs: Any) -> TimedResult:
        """Call as `call` does; also return the duration of the function itself, without the wait for its turn."""
        questions = [arg for arg in args if isinstance(arg, QuestionWithHistory)]
        history = [dict(message) for question in questions for message in question.history]
        if self._history is not None and (history or self._history.default is self._history.empty):
            kwargs.setdefault("history", history)
        plain = tuple([str(arg) if isinstance(arg, QuestionWithHistory) else arg for arg in args])
        try:
            return await self._call(plain, kwargs)
        except RagevalError as error:
            # One error object may end many questions: its traceback would grow with each and keep their frames alive.
            raise error.with_traceback(None) from error.__cause__
        except Unscored as unscored:
            if not raised_in_package(unscored):
                unscored.cause = self._cause
            raise

    async def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, object]) -> TimedResult:
        call = Call(self, args, kwargs, args[self._question])
        if not self.is_async:
            return await self._finish(call, await self._loop.call(self._invoke, call))
        await require_loop()
        async with self._run_outcomes.turn():
            return await self._finish(call, self._invoke(call))

    async def _finish(self, call: "Call", result: Any) -> TimedResult:
        if isinstance(result, TimedResult):
            return result
        try:
            await require_loop()
            import asyncio  # noqa: PLC0415 - see `calls.event_loop`

            # A task of its own, since the user's code may use `asyncio.timeout`, which cancels the current task.
            return await asyncio.ensure_future(self._await(call, result))
        except BaseException:
            # It was not started if this run, or the task before its first step, was cancelled.
            if inspect.iscoroutine(result) and inspect.getcoroutinestate(result) == inspect.CORO_CREATED:
                result.close()
            raise

    async def _await(self, call: "Call", result: Any) -> TimedResult:
        call.is_awaited = True
        with call:
            value = await result
            if _is_async_iterable(value):
                value = await _read_async(value)
            return self._convert(call, value)

    def _invoke(self, call: "Call") -> Any:
        # Checked in the calling thread: other calls may have failed while this one waited.
        failure = self._run_outcomes.failure_of(call)
        if failure is not None:
            raise failure
        self.calls += 1
        with call:
            result = self.function(*call.args, **call.kwargs)
            if _is_async_iterable(result):
                return _read_async(result)
            return result if inspect.isawaitable(result) else self._convert(call, result)

    def _convert(self, call: "Call", result: Any) -> TimedResult:
        """Convert a result, and record the outcome of the call before other calls can fail."""
        try:
            # A lazy iterable is read to its end here, in the thread where the user's code may run.
            whole = read_to_end(result)
            seconds = call.seconds
            if isinstance(result, RemoteResult):
                seconds = result.seconds if call.alone else None
            value = self._read(whole)
        except InvalidResult as unusable:
            message = unusable.message.replace("{question}", repr(call.question))
            raise self._failure(call, unusable.kind, f"{self.name} {message}", unusable.found) from None
        except Unscored:
            self._run_outcomes.succeeded = True
            raise
        self._run_outcomes.succeeded = True
        return TimedResult(value, seconds)

    def failure_by(self, call: "Call", error: BaseException) -> QueryError:
        """Return and record the failure of a call that has raised an exception."""
        message = str(CallableError.from_exception(f"{self.name} raised for {call.question!r}", error))
        return self._failure(call, type(error).__name__, message, f"raised {summary_line(error)}")

    def unanswered(self, call: "Call", error: RagevalError) -> RagevalError:
        """Return and record the error that a call received in place of a model's reply."""
        # In a replay other replies may be there, and a call costs nothing.
        self._run_outcomes.record_failure(
            error, call, None if isinstance(error, MissingReplyError) else type(error).__name__
        )
        return error

    def _failure(self, call: "Call", kind: str, message: str, found: str) -> QueryError:
        error = QueryError(message, f"{self.name} {found}", cause=self._cause)
        self._run_outcomes.record_failure(error, call, kind)
        return error

    @property
    def _run_outcomes(self) -> "_CallOutcomes":
        # Outcomes of earlier runs are dropped: in a later test the callable may work again.
        if self._outcomes.run != self._loop.runs:
            self._outcomes = _CallOutcomes(self._loop.runs)
        return self._outcomes


RUNNING: "Final[ContextVar[Call | None]]" = ContextVar("RUNNING", default=None)
"""The call that is running in this context. It is not set in threads that the user's code starts."""


def running_calls(loop: BackgroundEventLoop) -> "list[Call]":
    """Return the calls that are running, from any thread."""
    running: list[Call] = []
    for user in loop.user_callables:
        if isinstance(user, UserCallable):
            with user.running_lock:
                running += user.running
    return running


def count_completion(loop: BackgroundEventLoop, model: str) -> None:
    """Add a completion to the counts of the callable that requests it.

    In a thread that the user's code started, or in a server, the context does not name the callable. Then the
    completion is counted for the callable that has a running call; if several callables have one, it is not counted.
    """
    call = RUNNING.get()
    users = {each.user for each in ([call] if call else running_calls(loop))}
    if len(users) == 1:
        users.pop().completion_counts[model] += 1


class Call:
    """A call of a user's function: measures its time, and converts its exceptions. Calls that overlap are not measured.

    It is a context manager, and a class, since a generator of `contextlib` takes longer than many retrievers.
    """

    def __init__(
        self, user: UserCallable, args: tuple[Any, ...], kwargs: Mapping[str, object], question: object
    ) -> None:
        self.user = user
        self.args = args
        self.kwargs = kwargs
        self.question = question
        self.alone: bool = True
        self.is_awaited = False
        # What it received in place of a model's reply; it may have continued without it.
        self.unanswered: RagevalError | None = None

    def __enter__(self) -> Self:
        with self.user.running_lock:
            self.alone = not self.user.running
            for other in self.user.running:
                other.alone = False
            self.user.running.add(self)
        self._token = RUNNING.set(self)
        self._began = perf_counter()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        RUNNING.reset(self._token)
        with self.user.running_lock:
            self.user.running.remove(self)
        if self.unanswered is not None and (error is None or isinstance(error, call_errors())):
            raise self.user.unanswered(self, self.unanswered) from None
        if (
            error is None
            or isinstance(error, RagevalError | Unscored)
            or not isinstance(error, call_errors())
        ):
            return
        if not (self.is_awaited and is_cancelled(error)):
            raise self.user.failure_by(self, error) from error

    @property
    def seconds(self) -> float | None:
        """The seconds since the call began; None if another call ran at the same time."""
        elapsed = perf_counter() - self._began
        return elapsed if self.alone else None

    @property
    def key(self) -> str:
        """The arguments as text."""
        try:
            return repr((self.args, self.kwargs))
        except Exception:  # noqa: BLE001 - the repr of a passage's metadata is the user's code
            return repr([arg if isinstance(arg, str) else id(arg) for arg in self.args])


@dataclass
class _CallOutcomes:
    """The outcomes of the calls in one run; `succeeded` is True after the first usable result."""

    run: int
    succeeded: bool = False
    _failed: dict[str, RagevalError] = field(default_factory=dict)
    _kinds: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _final: RagevalError | None = None
    _calls: int = 0
    _changed: "asyncio.Event | None" = None  # of an async callable

    def failure_of(self, call: Call) -> RagevalError | None:
        """Return the error of an earlier call with these arguments, or the error that ended all calls, or None."""
        # The repr is computed only after a failure: most runs have none, and the text of ten passages is long.
        return self._final or (self._failed.get(call.key) if self._failed else None)

    def record_failure(self, error: RagevalError, call: Call, kind: str | None) -> None:
        """Record a failure by call, kind and question; enough failures of one kind end the calls of this run."""
        self._failed[call.key] = error
        if kind is None:
            return
        self._kinds[kind].add(repr(call.question))
        if not self.succeeded and len(self._kinds[kind]) >= MAX_FAILURES:
            self._final = self._final or next(iter(self._failed.values()))

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until one call may run: before the first success, calls in flight must not exceed the failure limit."""
        import asyncio  # noqa: PLC0415 - see `calls.event_loop`

        self._changed = self._changed or asyncio.Event()
        while not self.succeeded and self._final is None:
            largest_kind = max(map(len, self._kinds.values()), default=0)
            if self._calls + largest_kind < MAX_FAILURES:
                break
            await self._changed.wait()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._changed.set()
            self._changed = asyncio.Event()


def error_result(error: BaseException) -> InvalidResult:
    """Return the `InvalidResult` for an exception in the user's code, which the calling process raises."""
    message = str(CallableError.from_exception("raised for {question}", error))
    return InvalidResult(f"raised {summary_line(error)}", message, type(error).__name__)


def read_to_end(result: Any) -> Any:
    """Return a lazy iterable as a list; any other value unchanged.

    A data frame and a record are unchanged, since their iterators return names; a cursor, which has the names of the
    columns; and a set, since a list of it would hide that it has no order.
    """
    complete = (list, str, bytes, tuple, set, frozenset, Mapping)
    if isinstance(result, complete) or not isinstance(result, Iterable) or inspect.isawaitable(result):
        return result
    if is_data_frame(result) or is_record(result) or hasattr(result, "fetchall"):
        return result
    return bounded_list(result)


def bounded_list(items: Iterable[T]) -> list[T]:
    listed = list(islice(items, MAX_ITEMS + 1))
    if len(listed) > MAX_ITEMS:
        what = f"returned more than {MAX_ITEMS:,} items"
        raise InvalidResult(what, f"{what} for {{question}}.\nReturn at most {MAX_ITEMS:,}, the best first.")
    return listed


def bounded_text(text: str, what: str) -> str:
    """Return a text of a result, which may be a subclass with methods that raise, as a `str` of bounded length."""
    plain = str.__str__(text)
    if len(plain) > MAX_TEXT_LENGTH:
        found = f"returned {what} of {len(plain):,} characters"
        raise InvalidResult(
            found, f"{found} for {{question}}.\nReturn at most {MAX_TEXT_LENGTH:,} characters."
        )
    return plain


async def _read_async(items: AsyncIterable[Any]) -> list[Any]:
    """Return the items as a list, at most one more than `MAX_ITEMS`: that many are an error."""
    listed: list[Any] = []
    async for item in items:
        listed.append(item)
        if len(listed) > MAX_ITEMS:
            break
    return listed


def _is_async_iterable(result: Any) -> TypeGuard[AsyncIterable[Any]]:
    return isinstance(result, AsyncIterable) and not isinstance(result, Iterable)


def is_cancelled(error: BaseException) -> bool:
    """Whether an exception ends the current task: the task is cancelled, or its coroutine is closed.

    Otherwise the user's code, which the task awaited, raised the exception.
    """
    if isinstance(error, GeneratorExit):
        return raised_in_package(error)
    import asyncio  # noqa: PLC0415 - see `calls.event_loop`

    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def is_cached(function: object) -> bool:
    return getattr(function, CACHED, False) is True
