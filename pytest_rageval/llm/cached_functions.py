"""`cached()`: results of the user's expensive functions, kept like replies."""

import asyncio
import concurrent.futures
import functools
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from pytest_rageval.errors import CallableError, InputError, MissingReplyError, Planned, RagevalError
from pytest_rageval.event_loop import PrivateLoop, in_asyncio
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import Reply, Request, request_summary
from pytest_rageval.user_code import is_async

__all__ = ["Functions", "is_cached", "reply_of", "request_of"]

SERVER: Final = "function"
"""Stands where a model's server does: a function is asked like one."""


def request_of(name: str, version: str, args: Sequence[Any], named: Mapping[str, Any]) -> Request:
    """What is asked when a function of this name and version is called with these arguments.

    Raises:
        CallableError: an argument has no lasting form.
    """
    arguments = {str(place): argument for place, argument in enumerate(args, 1)} | dict(named)
    try:
        plain = {place: _plain(argument) for place, argument in arguments.items()}
        request = Request(SERVER, f"{name}@{version}", (plain,))
        parts = {f"argument {place}": json.dumps(value, sort_keys=True) for place, value in plain.items()}
        _ = request.key
    except (TypeError, ValueError) as error:
        message = (
            f"{name} is cached, and was called with an argument that has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these, documents and dataclasses have one."
        )
        raise CallableError(message) from None
    return Request(SERVER, f"{name}@{version}", (plain,), parts=parts)


def _plain(value: Any) -> Any:
    """An argument in JSON's kinds; different arguments have different forms."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        inner = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return {"__class__": f"{kind.__module__}.{kind.__qualname__}", **inner}
    if isinstance(value, Mapping):
        # Where "__class__" is a key it could be taken for a dataclass.
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"__items__": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def reply_of(name: str, result: Any) -> Reply:
    """What a function of this name returned.

    Raises:
        CallableError: it has no lasting form.
    """
    try:
        text = json.dumps(result, allow_nan=False)
        _refuse_other_keys(result)
    except (TypeError, ValueError) as error:
        message = (
            f"{name} is cached, and returned what has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these have one; keys are text."
        )
        raise CallableError(message) from None
    return Reply(text, name)


def _refuse_other_keys(result: Any) -> None:
    """Raise TypeError where a dict has keys that are no text: JSON would make them other keys."""
    if isinstance(result, Mapping):
        for key in result:
            if not isinstance(key, str):
                message = f"a dict has the key {key!r:.60}, which is no text"
                raise TypeError(message)
        result = list(result.values())
    if isinstance(result, list | tuple):
        for item in result:
            _refuse_other_keys(item)


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

MARK: Final = "__rageval_cached__"


class Functions:
    """Makes cached functions; they share the cache folder, the cassette and the leases of a door.

    Args:
        door: whose cache it is.
        loop: of the run, in which the cache is used.
    """

    def __init__(self, door: Gateway, loop: PrivateLoop) -> None:
        self._door = door
        self._loop = loop
        self._locks: dict[str, asyncio.Lock] = {}
        self._named: dict[str, Callable[..., Any]] = {}

    def cached(self, function: F, *, version: str | None = None) -> F:
        """The function, which computes each result once and then finds it.

        Without a version it does so within this run only, and the report says so; like `functools.cache` it
        then gives every caller the same object.

        Args:
            function: sync or async; its arguments and result are made of what JSON has: text,
                numbers, booleans, None, lists and objects of these. Documents may be among the
                arguments, and so may dataclasses. A tuple in a result comes back as a list.
            version: changes when the function's results do; also with the state of the object whose
                method it is, which is no part of what a result is found by.

        Raises:
            InputError: it cannot be called; the version is no text, or empty; the function has no name, by which its
                results are found; or another one has the same name and version.
            CallableError: when called, with arguments or a result that cannot be kept.
        """
        if not callable(function):
            message = (
                f"cached({function!r:.60}, …): it cannot be called.\nGive a function, without calling it."
            )
            raise InputError(message)
        if version is None:
            return self._within_the_run(function)
        if not isinstance(version, str) or not version:
            message = (
                f"cached(…, version={version!r}): the version is a text that changes when the results do.\n"
                'Write version="1", say.'
            )
            raise InputError(message)
        name = _name(function)
        known = self._named.setdefault(f"{name}@{version}", function)
        if not _alike(known, function):
            message = (
                f"Two different functions are cached as {name} in version {version!r}: they differ in what they "
                "were made with.\nGive each a version of its own."
            )
            raise InputError(message)
        wrapper = (
            self._awaiting(function, name, version)
            if is_async(function)
            else self._calling(function, name, version)
        )
        setattr(wrapper, MARK, True)
        # As generator or judge it is another one in another version, and a baseline tells them apart by this.
        wrapper.fingerprint = f"{name}@{version}"  # type: ignore[attr-defined]
        return cast("F", wrapper)

    def _awaiting(self, function: Callable[..., Any], name: str, version: str) -> Callable[..., Any]:
        """An async function that finds or awaits."""

        @functools.wraps(function)
        async def found_or_awaited(*args: Any, **named: Any) -> Any:
            turn = _Turn(request_of(name, version, args, named))
            _refuse_circle(name, turn.request.key)
            try:
                reply = await self._from_elsewhere(self._begin(turn))
                if reply is None:
                    with _computing(turn):
                        result = await cast("Awaitable[Any]", function(*args, **named))
                    reply = reply_of(name, result)
                    await self._from_elsewhere(self._end(turn, reply))
            except BaseException:
                self._loop.submit(self._give_up(turn))
                raise
            return json.loads(reply.text)

        return found_or_awaited

    def _calling(self, function: Callable[..., Any], name: str, version: str) -> Callable[..., Any]:
        """A sync function that finds or calls."""

        @functools.wraps(function)
        def found_or_called(*args: Any, **named: Any) -> Any:
            if self._loop.here:
                message = (
                    f"{name} is cached and sync, and was called in async code.\nMake it an async function."
                )
                raise CallableError(message)
            turn = _Turn(request_of(name, version, args, named))
            _refuse_circle(name, turn.request.key)
            try:
                reply = self._loop.wait(self._begin(turn))
                if reply is None:
                    with _computing(turn):
                        result = function(*args, **named)
                    reply = reply_of(name, result)
                    self._loop.wait(self._end(turn, reply))
            except BaseException:
                # Also what comes from outside while this waits: Ctrl-C, a timeout plugin.
                self._loop.submit(self._give_up(turn))
                raise
            return json.loads(reply.text)

        return found_or_called

    def _within_the_run(self, function: F) -> F:
        """A function whose results this process remembers."""
        self._door.usage.remarks[
            f"results of {function!r:.60} are kept within this run only: no version"
        ] += 1
        remembered = _Remembered(function)

        @functools.wraps(function)
        async def awaited(*args: Any, **named: Any) -> Any:
            return await remembered.awaited(*args, **named)

        @functools.wraps(function)
        def called(*args: Any, **named: Any) -> Any:
            return remembered.called(*args, **named)

        return cast("F", awaited if is_async(function) else called)

    async def _from_elsewhere(self, work: Coroutine[Any, Any, T]) -> T:
        """What the run's loop makes of it, for a caller in any loop; who is cancelled does not end it."""
        return await self._loop.awaited(work)

    async def _begin(self, turn: "_Turn") -> Reply | None:
        """The kept result; or None, and then it is this one's turn to compute it, and to `_end`."""
        request, cache = turn.request, self._door.cache
        lock = self._locks.setdefault(request.key, asyncio.Lock())
        await lock.acquire()
        try:
            reply = cache.find([request.key]).get(request.key)
            if reply is None:
                self._refuse_unless_live(request)
            while reply is None and not turn.taken:
                claimed = await cache.claim(request.key)
                if isinstance(claimed, Reply):
                    reply = claimed
                elif claimed:
                    turn.taken = True
                else:
                    await cache.settled(request.key)
        finally:
            turn.begun.set()
            if not turn.taken:
                lock.release()
        if reply is not None:
            self._door.remember(request, reply)
        return reply

    async def _end(self, turn: "_Turn", reply: Reply | None) -> None:
        """Keep what was computed, or let somebody else compute it."""
        from pytest_rageval.llm.store import Entry  # noqa: PLC0415 - with SQLite, when needed

        turn.taken = False
        request = turn.request
        try:
            if reply is None:
                with suppress(RagevalError):
                    self._door.cache.release(request.key)
            else:
                await self._door.cache.keep(Entry(request.key, reply, request_summary(request)))
                self._door.remember(request, reply)
        finally:
            self._locks[request.key].release()

    async def _give_up(self, turn: "_Turn") -> None:
        """Give on a turn, if it was had or still comes, to whoever waits for it."""
        await turn.begun.wait()
        if turn.taken:
            await self._end(turn, None)

    def _refuse_unless_live(self, request: Request) -> None:
        mode = self._door.access.mode
        if mode == "replay":
            raise MissingReplyError(
                f"A result of {request.model} is in neither the cache nor a cassette, and --rageval-replay "
                "computes nothing.\nRun once without it."
            )
        if mode == "plan":
            raise Planned(f"a result of {request.model} is not there yet")


@dataclass(eq=False)
class _Turn:
    """Who computes a result.

    Attributes:
        request: for the result.
        begun: set when it is known whose turn it is.
        taken: whether it is this one's, and not over.
    """

    request: Request
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class _Remembered:
    """The results of one function, for all threads and event loops of this process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._results: dict[str, tuple[_Turn, concurrent.futures.Future[Any]]] = {}

    def called(self, *args: Any, **named: Any) -> Any:
        """What the function returned, now or before."""
        while True:
            turn, result = self._taken(args, named)
            if turn.taken:
                self._compute(turn, result, args, named)
            with suppress(concurrent.futures.CancelledError):
                found = result.result()
                # Who is cancelled while it waits does not end it for the others.
                return asyncio.shield(found) if isinstance(found, asyncio.Future) else found

    async def awaited(self, *args: Any, **named: Any) -> Any:
        """What came of awaiting it, now or before, whatever loop it was in."""
        while True:
            turn, result = self._taken(args, named)
            if turn.taken:
                try:
                    with _computing(turn):
                        computed = asyncio.ensure_future(self._function(*args, **named))
                except BaseException:
                    self._forget(turn, result)
                    raise
                computed.add_done_callback(functools.partial(self._end, turn, result))
                # In a task of its own: who is cancelled while it waits does not end it for the others.
                return await asyncio.shield(computed)
            try:
                return await asyncio.shield(asyncio.wrap_future(result))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not result.cancelled() or (task is not None and task.cancelling()):
                    raise

    def _taken(self, args: Any, named: Any) -> "tuple[_Turn, concurrent.futures.Future[Any]]":
        """Where the result is, or will be; and whose turn it is to compute it."""
        turn = _Turn(request_of("function", "", args, named))
        with self._lock:
            known, result = self._results.get(turn.request.key, (None, concurrent.futures.Future()))
            if known is None:
                turn.taken = True
                self._results[turn.request.key] = turn, result
                return turn, result
        if known in _COMPUTED.get():
            _refuse_circle(f"{self._function!r:.60}", known.request.key)
        return turn, result

    def _compute(self, turn: _Turn, result: "concurrent.futures.Future[Any]", args: Any, named: Any) -> None:
        try:
            with _computing(turn):
                found = _lasting(self._function, self._function(*args, **named))
        except BaseException:
            self._forget(turn, result)
            raise
        if isinstance(found, asyncio.Future):
            found.add_done_callback(functools.partial(self._end, turn, result))
        turn.taken = False
        result.set_result(found)

    def _end(
        self, turn: _Turn, result: "concurrent.futures.Future[Any]", done: "asyncio.Future[Any]"
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            self._forget(turn, result)
        elif not result.done():
            turn.taken = False
            result.set_result(done.result())

    def _forget(self, turn: _Turn, result: "concurrent.futures.Future[Any]") -> None:
        """What failed is not kept: who waits for it tries by itself."""
        turn.taken = False
        with self._lock:
            del self._results[turn.request.key]
        result.cancel()


_COMPUTED: Final[ContextVar[tuple[_Turn, ...]]] = ContextVar("rageval_computed", default=())
"""What is being computed around the code that asks, the innermost last."""


@contextmanager
def _computing(turn: _Turn) -> Iterator[None]:
    before = _COMPUTED.get()
    _COMPUTED.set((*before, turn))
    try:
        yield
    finally:
        _COMPUTED.set(before)


def _refuse_circle(name: str, key: str) -> None:
    """Raise where a function would wait for the result that it is computing."""
    if any(turn.taken and turn.request.key == key for turn in _COMPUTED.get()):
        message = (
            f"{name} is cached, and calls itself with the same arguments: it would wait for its own result.\n"
            "Call the function that is not cached, or give other arguments."
        )
        raise CallableError(message)


def is_cached(function: object) -> bool:
    """Whether a function was made by `Functions.cached`."""
    return getattr(function, MARK, False) is True


def _alike(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions of one name do the same, as far as can be seen: code, what it closes over, self."""
    if one is other:
        return True
    if getattr(one, "__self__", None) is not getattr(other, "__self__", None):
        return False
    codes = [getattr(each, "__code__", None) for each in (one, other)]
    cells = [
        [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()] for each in (one, other)
    ]
    defaults = [
        (getattr(each, "__defaults__", None), getattr(each, "__kwdefaults__", None)) for each in (one, other)
    ]
    # Without code it is an object that can be called: another one may be made of something else.
    return (
        codes[0] is not None and codes[0] == codes[1] and cells[0] == cells[1] and defaults[0] == defaults[1]
    )


def _name(function: Callable[..., Any]) -> str:
    """By which the results of a function are found in later runs."""
    kind = type(function)
    name = getattr(function, "__qualname__", "" if kind.__module__ == "functools" else kind.__qualname__)
    if not name or name.endswith("<lambda>"):
        message = (
            f"cached({function!r}, …): it has no name, by which its results would be found in later runs.\n"
            "Write a function with def."
        )
        raise InputError(message)
    return f"{function.__module__}.{name}"


def _lasting(function: Callable[..., Any], result: Any) -> Any:
    """A result as it can be had again: of a coroutine the future, which can be awaited again."""
    if isinstance(result, Iterator | AsyncIterator):
        message = (
            f"{function!r:.60} is cached, and returned a {type(result).__name__}, which can be read only once.\n"
            "Return a list."
        )
        raise CallableError(message)
    if inspect.iscoroutine(result) and not in_asyncio():
        result.close()
        message = (
            f"{function!r:.60} is async and cached without a version, which works under asyncio alone.\n"
            'Give it one: cached(function, version="1").'
        )
        raise CallableError(message)
    return asyncio.ensure_future(result) if inspect.iscoroutine(result) else result
