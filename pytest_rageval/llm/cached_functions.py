"""`cached()`: results of the user's expensive functions, cached like replies.

With a version, a result is kept in the cache folder under the function's name, version and arguments; without
one, in memory for this run. Either way one caller computes a result, and the others wait for it.
"""

import asyncio
import concurrent.futures
import functools
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop, in_asyncio
from pytest_rageval.errors import CallableError, InputError, MissingReplyError, Planned
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import Reply, Request, request_summary
from pytest_rageval.llm.stores.interface import Entry
from pytest_rageval.user_code import CACHED, is_async

__all__ = ["Functions"]

SERVER: Final = "function"  # the `base_url` in a function's requests
F = TypeVar("F", bound=Callable[..., Any])
ResultFuture = concurrent.futures.Future[Any]


class Functions:
    """Makes cached functions, which share a gateway's cache folder, cassette and leases, in the run's event loop."""

    def __init__(self, gateway: Gateway, loop: BackgroundEventLoop) -> None:
        self._gateway = gateway
        self._loop = loop
        self._locks: dict[str, asyncio.Lock] = {}
        self._named: dict[str, Callable[..., Any]] = {}

    def cached(self, function: F, *, version: str | None = None) -> F:
        """Return the function with its results cached.

        Without a version results are kept for this run only, and the report says so; like `functools.cache` it
        then returns the same object to every caller.

        Args:
            function: sync or async. Arguments and results are JSON values: text, numbers, booleans, None, lists
                and dicts of these. Arguments may also be documents and dataclasses. A tuple in a result becomes a list.
            version: change it whenever the function's results change; for a method also when the state of its
                object changes, which is not part of the key.

        Raises:
            InputError: it is not callable; the version is not a text, or empty; the function has no name, which the
                key needs; or another function has the same name and version.
            CallableError: on a call, when arguments or result are not JSON values.
        """
        if not callable(function):
            why = "it cannot be called.\nGive a function, without calling it."
            raise InputError(f"cached({function!r:.60}, …): {why}")
        if version is None:
            return self._cached_in_memory(function)
        if not isinstance(version, str) or not version:
            raise InputError(
                f"cached(…, version={version!r}): the version is a text that changes when the results do.\n"
                'Write version="1", say.'
            )
        name = _qualified_name(function)
        known = self._named.setdefault(f"{name}@{version}", function)
        if not _same_function(known, function):
            raise InputError(
                f"Two different functions are cached as {name} in version {version!r}: they differ in what they "
                "were made with.\nGive each a version of its own."
            )
        make = self._async_wrapper if is_async(function) else self._sync_wrapper
        wrapper = make(function, name, version)
        setattr(wrapper, CACHED, True)
        # A baseline compares generators and judges by this attribute.
        wrapper.fingerprint = f"{name}@{version}"  # type: ignore[attr-defined]
        return cast("F", wrapper)

    def _async_wrapper(self, function: Callable[..., Any], name: str, version: str) -> Callable[..., Any]:
        @functools.wraps(function)
        async def cached(*args: Any, **named: Any) -> Any:
            with self._own_turn(name, version, args, named) as turn:
                reply = await self._loop.await_result(self._begin(turn))
                if reply is None:
                    with _computing(turn):
                        result = await cast("Awaitable[Any]", function(*args, **named))
                    reply = reply_of(name, result)
                    await self._loop.await_result(self._end(turn, reply))
                return json.loads(reply.text)

        return cached

    def _sync_wrapper(self, function: Callable[..., Any], name: str, version: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def cached(*args: Any, **named: Any) -> Any:
            if self._loop.in_loop_thread:
                raise CallableError(
                    f"{name} is cached and sync, and was called in async code.\nMake it an async function."
                )
            with self._own_turn(name, version, args, named) as turn:
                reply = self._loop.wait(self._begin(turn))
                if reply is None:
                    with _computing(turn):
                        result = function(*args, **named)
                    reply = reply_of(name, result)
                    self._loop.wait(self._end(turn, reply))
                return json.loads(reply.text)

        return cached

    @contextmanager
    def _own_turn(self, name: str, version: str, args: Any, named: Any) -> Iterator["_Turn"]:
        """Make one caller's turn, which is passed on where it fails, as by Ctrl-C or a timeout plugin."""
        turn = _Turn(request_of(name, version, args, named))
        _refuse_recursion(name, turn.request.key)
        try:
            yield turn
        except BaseException:
            self._loop.submit(self._give_up(turn))
            raise

    def _cached_in_memory(self, function: F) -> F:
        remark = f"results of {function!r:.60} are cached within this run only: no version"
        self._gateway.usage.remarks[remark] += 1
        results = _MemoryCache(function)

        @functools.wraps(function)
        async def awaited(*args: Any, **named: Any) -> Any:
            return await results.awaited(*args, **named)

        @functools.wraps(function)
        def called(*args: Any, **named: Any) -> Any:
            return results.called(*args, **named)

        return cast("F", awaited if is_async(function) else called)

    async def _begin(self, turn: "_Turn") -> Reply | None:
        """Return the kept result; or None, after which the caller must compute it and call `_end`."""
        request, cache = turn.request, self._gateway.cache
        lock = self._locks.setdefault(request.key, asyncio.Lock())
        await lock.acquire()
        try:
            reply = (await cache.look_up([request.key])).get(request.key)
            mode = self._gateway.settings.mode
            if reply is None and mode == "replay":
                raise MissingReplyError(
                    f"A result of {request.model} is in neither the cache nor a cassette, and --rageval-replay "
                    "computes nothing.\nRun once without it."
                )
            if reply is None and mode == "plan":
                raise Planned(f"a result of {request.model} is not there yet")
            while reply is None and not turn.taken:
                claimed = await cache.claim(request.key)
                if isinstance(claimed, Reply):
                    reply = claimed
                elif claimed:
                    turn.taken = True
                else:
                    await cache.wait_for_other(request.key)
        finally:
            turn.decided.set()
            if not turn.taken:
                lock.release()
        if reply is not None:
            self._gateway.record(request, reply)
        return reply

    async def _end(self, turn: "_Turn", reply: Reply | None) -> None:
        """Keep the computed result, or with None let another caller compute it."""
        turn.taken = False
        request = turn.request
        try:
            if reply is None:
                self._gateway.cache.release(request.key)
            else:
                await self._gateway.cache.keep(Entry(request.key, reply, request_summary(request)))
                self._gateway.record(request, reply)
        finally:
            self._locks[request.key].release()

    async def _give_up(self, turn: "_Turn") -> None:
        """Pass a turn on to the next caller, once it is decided whose it is."""
        await turn.decided.wait()
        if turn.taken:
            await self._end(turn, None)


@dataclass(eq=False)
class _Turn:
    """One caller's turn to compute a result: `taken` until it is over, `decided` when it is known whose it is."""

    request: Request
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    taken: bool = False


class _MemoryCache:
    """The results of one function, for all threads and event loops of this process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._results: dict[str, tuple[_Turn, ResultFuture]] = {}

    def called(self, *args: Any, **named: Any) -> Any:
        """Return the result of a call, computed now or before."""
        while True:
            turn, result = self._turn(args, named)
            if turn.taken:
                found = self._computed(turn, result, args, named)
                turn.taken = False
                result.set_result(found)
            with suppress(concurrent.futures.CancelledError):
                found = result.result()
                # Shielded: a cancelled caller must not cancel it for the others.
                return asyncio.shield(found) if isinstance(found, asyncio.Future) else found

    async def awaited(self, *args: Any, **named: Any) -> Any:
        """Return the result of awaiting a call, now or before, in any loop."""
        while True:
            turn, result = self._turn(args, named)
            if turn.taken:
                # In a task of its own: a cancelled caller must not cancel it for the others.
                return await asyncio.shield(self._computed(turn, result, args, named))
            try:
                return await asyncio.shield(asyncio.wrap_future(result))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not result.cancelled() or (task is not None and task.cancelling()):
                    raise

    def _turn(self, args: Any, named: Any) -> tuple[_Turn, ResultFuture]:
        """Return the future of a result, and whose turn it is to compute it."""
        turn = _Turn(request_of("function", "", args, named))
        with self._lock:
            known, result = self._results.get(turn.request.key, (None, concurrent.futures.Future()))
            if known is None:
                turn.taken = True
                self._results[turn.request.key] = turn, result
                return turn, result
        if known in _COMPUTING.get():
            _refuse_recursion(f"{self._function!r:.60}", known.request.key)
        return turn, result

    def _computed(self, turn: _Turn, result: ResultFuture, args: Any, named: Any) -> Any:
        try:
            with _computing(turn):
                found = _reusable(self._function, self._function(*args, **named))
        except BaseException:
            self._forget(turn, result)
            raise
        if isinstance(found, asyncio.Future):
            found.add_done_callback(functools.partial(self._end, turn, result))
        return found

    def _end(self, turn: _Turn, result: ResultFuture, done: "asyncio.Future[Any]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._forget(turn, result)
        elif not result.done():
            turn.taken = False
            result.set_result(done.result())

    def _forget(self, turn: _Turn, result: ResultFuture) -> None:
        """Drop a failed call: each waiting caller makes its own attempt."""
        turn.taken = False
        with self._lock:
            del self._results[turn.request.key]
        result.cancel()


_COMPUTING: Final[ContextVar[tuple[_Turn, ...]]] = ContextVar("rageval_computing", default=())
"""The turns being computed around the current code, innermost last."""


@contextmanager
def _computing(turn: _Turn) -> Iterator[None]:
    before = _COMPUTING.get()
    _COMPUTING.set((*before, turn))
    try:
        yield
    finally:
        _COMPUTING.set(before)


def _refuse_recursion(name: str, key: str) -> None:
    """Raise where a function would wait for the result that it is computing."""
    if any(turn.taken and turn.request.key == key for turn in _COMPUTING.get()):
        raise CallableError(
            f"{name} is cached, and calls itself with the same arguments: it would wait for its own result.\n"
            "Call the function that is not cached, or give other arguments."
        )


def _same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions of one name do the same, judged by object, code, closure and defaults."""
    if one is other:
        return True
    if getattr(one, "__self__", None) is not getattr(other, "__self__", None):
        return False
    # A callable object has no code: two of them may differ in their state.
    return getattr(one, "__code__", None) is not None and _definition(one) == _definition(other)


def _definition(function: Callable[..., Any]) -> list[object]:
    closure = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return [
        closure,
        *(getattr(function, name, None) for name in ("__code__", "__defaults__", "__kwdefaults__")),
    ]


def _qualified_name(function: Callable[..., Any]) -> str:
    """Return module and name of a function, under which later runs find its results."""
    kind = type(function)
    name = getattr(function, "__qualname__", "" if kind.__module__ == "functools" else kind.__qualname__)
    if not name or name.endswith("<lambda>"):
        raise InputError(
            f"cached({function!r}, …): it has no name, by which its results would be found in later runs.\n"
            "Write a function with def."
        )
    return f"{function.__module__}.{name}"


def _reusable(function: Callable[..., Any], result: Any) -> Any:
    """Return a result that every caller can use; a coroutine becomes a future, which can be awaited again."""
    if isinstance(result, Iterator | AsyncIterator):
        raise CallableError(
            f"{function!r:.60} is cached, and returned a {type(result).__name__}, which can be read only once.\n"
            "Return a list."
        )
    if inspect.iscoroutine(result) and not in_asyncio():
        result.close()
        raise CallableError(
            f"{function!r:.60} is async and cached without a version, which works only under asyncio.\n"
            'Give it one: cached(function, version="1").'
        )
    return asyncio.ensure_future(result) if inspect.iscoroutine(result) else result


def request_of(name: str, version: str, args: Sequence[Any], named: Mapping[str, Any]) -> Request:
    """Return the request that stands for a call of a function of this name and version."""
    arguments = {str(place): argument for place, argument in enumerate(args, 1)} | dict(named)
    try:
        plain = {place: _plain(argument) for place, argument in arguments.items()}
        parts = {f"argument {place}": json.dumps(value, sort_keys=True) for place, value in plain.items()}
        request = Request(SERVER, f"{name}@{version}", (plain,), parts=parts)
        _ = request.key
    except (TypeError, ValueError) as error:
        raise CallableError(
            f"{name} is cached, and was called with an argument that has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these, documents and dataclasses have one."
        ) from None
    return request


def _plain(value: Any) -> Any:
    """Return an argument as a JSON value; different arguments give different values."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        inner = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return {"__class__": f"{kind.__module__}.{kind.__qualname__}", **inner}
    if isinstance(value, Mapping):
        # A key such as "__class__" must not read like a dataclass.
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"__items__": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def reply_of(name: str, result: Any) -> Reply:
    """Return a function's result as a reply."""
    try:
        text = json.dumps(result, allow_nan=False)
        _refuse_other_keys(result)
    except (TypeError, ValueError) as error:
        raise CallableError(
            f"{name} is cached, and returned what has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these have one; keys are text."
        ) from None
    return Reply(text, name)


def _refuse_other_keys(result: Any) -> None:
    """Raise TypeError where a dict has a key that is not text: JSON would change it."""
    if isinstance(result, Mapping):
        for key in result:
            if not isinstance(key, str):
                message = f"a dict has the key {key!r:.60}, which is not a text"
                raise TypeError(message)
        result = list(result.values())
    if isinstance(result, list | tuple):
        for item in result:
            _refuse_other_keys(item)
