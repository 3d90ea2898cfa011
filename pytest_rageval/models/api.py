"""The fixture `rageval_llm`: a model for the user's own code, with cache, limits, budget and plan.

Its method `cached` caches results of the user's expensive functions like replies. With a version, a result is stored in
the cache under the function's name, version and arguments. Without a version, it is stored in memory for this run. In
both cases one caller computes a result, and concurrent callers wait for it.
"""

import asyncio
import concurrent.futures
import functools
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar, cast

from pytest_rageval.calls import stored_module
from pytest_rageval.calls.event_loop import BackgroundEventLoop, in_asyncio
from pytest_rageval.calls.user_code import CACHED, count_completion
from pytest_rageval.core.errors import CallableError, InputError, MissingReplyError, Planned
from pytest_rageval.lib.foreign_values import is_async
from pytest_rageval.models.client import Server
from pytest_rageval.models.gateway import Gateway
from pytest_rageval.models.messages import Message, Reply, Request
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, Prompts
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import request_summary
from pytest_rageval.options.parsers import REJECTED_ARGUMENTS

SERVER: Final = "function"  # the `base_url` of the requests that stand for calls of functions
F = TypeVar("F", bound=Callable[..., Any])
ResultFuture = concurrent.futures.Future[Any]


class Functions:
    """Wraps the user's functions; the cache and the cassette of the gateway store their results."""

    def __init__(self, gateway: Gateway, loop: BackgroundEventLoop) -> None:
        self._gateway = gateway
        self._loop = loop
        self._locks: dict[str, asyncio.Lock] = {}
        self._by_name: dict[str, Callable[..., Any]] = {}

    def cached(self, function: F, *, version: str | None = None) -> F:
        """Return a function that caches the results of this one.

        Without a version, results are cached for this run only, and the report has a remark about it. As with
        `functools.cache`, all callers then get the same object.

        Args:
            function: a sync or async function. Arguments and results are JSON values: text, numbers, booleans, None,
                lists and dicts of these. Arguments may also be documents and dataclasses. A tuple in a result becomes
                a list.
            version: a text. Change it whenever the function's results change; for a method also when the state of its
                object changes, which is not part of the key.

        Raises:
            InputError: `function` is not callable, or has no name for the key; `version` is not a text, or is empty; or
                another function has the same name and version.
            CallableError: on a call, if the arguments or the result are not JSON values.
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
        known = self._by_name.setdefault(f"{name}@{version}", function)
        if not _is_same_function(known, function):
            raise InputError(
                f"Two different functions are cached as {name} in version {version!r}: they differ in what they "
                "were made with.\nGive each a version of its own."
            )
        make = self._async_wrapper if is_async(function) else self._sync_wrapper
        wrapper = make(function, name, version)
        setattr(wrapper, CACHED, True)
        # The fingerprint in a baseline identifies generators and judges by this attribute.
        wrapper.fingerprint = f"{name}@{version}"  # type: ignore[attr-defined]
        return cast("F", wrapper)

    def _async_wrapper(self, function: Callable[..., Any], name: str, version: str) -> Callable[..., Any]:
        @functools.wraps(function)
        async def cached(*args: Any, **kwargs: Any) -> Any:
            with self._start_call(name, version, args, kwargs) as call:
                reply = await self._loop.await_result(self._look_up_or_claim(call))
                if reply is None:
                    with _computing(call):
                        result = await cast("Awaitable[Any]", function(*args, **kwargs))
                    reply = build_reply(name, result)
                    await self._loop.await_result(self._end(call, reply))
                return json.loads(reply.text)

        return cached

    def _sync_wrapper(self, function: Callable[..., Any], name: str, version: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def cached(*args: Any, **kwargs: Any) -> Any:
            if self._loop.in_loop_thread:
                raise CallableError(
                    f"{name} is cached and sync, and was called in async code.\nMake it an async function."
                )
            with self._start_call(name, version, args, kwargs) as call:
                reply = self._loop.wait(self._look_up_or_claim(call))
                if reply is None:
                    with _computing(call):
                        result = function(*args, **kwargs)
                    reply = build_reply(name, result)
                    self._loop.wait(self._end(call, reply))
                return json.loads(reply.text)

        return cached

    @contextmanager
    def _start_call(self, name: str, version: str, args: Any, kwargs: Any) -> Iterator["_Call"]:
        """Yield a new call; if it fails, as with Ctrl-C or a timeout plugin, let the next caller compute the result."""
        call = _Call(build_request(name, version, args, kwargs))
        _refuse_recursion(name, call.request.key)
        try:
            yield call
        except BaseException:
            self._loop.submit(self._abandon(call))
            raise

    def _cached_in_memory(self, function: F) -> F:
        remark = f"results of {function!r:.60} are cached within this run only: no version"
        self._gateway.usage.remarks[remark] += 1
        results = _MemoryCache(function)

        # If `function` is an object without a name, a baseline identifies it by the qualified name of its wrapper:
        # do not rename the two wrappers, this method or its class.
        @functools.wraps(function)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await results.call_async(*args, **kwargs)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            return results.call(*args, **kwargs)

        return cast("F", awaited if is_async(function) else called)

    async def _look_up_or_claim(self, call: "_Call") -> Reply | None:
        """Return the stored result; or None, and then the caller must compute the result and call `_end`."""
        request, cache = call.request, self._gateway.cache
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
            while reply is None and not call.computes:
                claimed = await cache.claim(request.key)
                if isinstance(claimed, Reply):
                    reply = claimed
                elif claimed:
                    call.computes = True
                else:
                    await cache.wait_for_other(request.key)
        finally:
            call.decided.set()
            if not call.computes:
                lock.release()
        if reply is not None:
            self._gateway.record(request, reply)
        return reply

    async def _end(self, call: "_Call", reply: Reply | None) -> None:
        """Store the computed result; without a result, let another caller compute it."""
        call.computes = False
        request = call.request
        try:
            if reply is None:
                self._gateway.cache.release(request.key)
            else:
                await self._gateway.cache.keep(Entry(request.key, reply, request_summary(request)))
                self._gateway.record(request, reply)
        finally:
            self._locks[request.key].release()

    async def _abandon(self, call: "_Call") -> None:
        """If this call had to compute the result, let another caller compute it."""
        await call.decided.wait()
        if call.computes:
            await self._end(call, None)


@dataclass(eq=False)
class _Call:
    request: Request
    decided: asyncio.Event = field(default_factory=asyncio.Event)  # set when it is known which call computes
    computes: bool = False  # whether this call has to compute the result; False again when it has ended


class _MemoryCache:
    """The cached results of one function, for all threads and event loops of this process."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._results: dict[str, tuple[_Call, ResultFuture]] = {}

    def call(self, *args: Any, **kwargs: Any) -> Any:
        while True:
            call, future = self._register(args, kwargs)
            if call.computes:
                result = self._compute(call, future, args, kwargs)
                call.computes = False
                future.set_result(result)
            with suppress(concurrent.futures.CancelledError):
                result = future.result()
                # Shielded: a cancelled caller must not cancel the future for the others.
                return asyncio.shield(result) if isinstance(result, asyncio.Future) else result

    async def call_async(self, *args: Any, **kwargs: Any) -> Any:
        while True:
            call, future = self._register(args, kwargs)
            if call.computes:
                # In a separate task: a cancelled caller must not cancel the computation for the others.
                return await asyncio.shield(self._compute(call, future, args, kwargs))
            try:
                return await asyncio.shield(asyncio.wrap_future(future))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not future.cancelled() or (task is not None and task.cancelling()):
                    raise

    def _register(self, args: Any, kwargs: Any) -> tuple[_Call, ResultFuture]:
        """Return a new call and the future of its result. The first call with these arguments computes the result."""
        call = _Call(build_request("function", "", args, kwargs))
        with self._lock:
            first, future = self._results.get(call.request.key, (None, concurrent.futures.Future()))
            if first is None:
                call.computes = True
                self._results[call.request.key] = call, future
                return call, future
        if first in _COMPUTING.get():
            _refuse_recursion(f"{self._function!r:.60}", first.request.key)
        return call, future

    def _compute(self, call: _Call, future: ResultFuture, args: Any, kwargs: Any) -> Any:
        try:
            with _computing(call):
                result = _make_reusable(self._function, self._function(*args, **kwargs))
        except BaseException:
            self._discard(call, future)
            raise
        if isinstance(result, asyncio.Future):
            result.add_done_callback(functools.partial(self._end, call, future))
        return result

    def _end(self, call: _Call, future: ResultFuture, done: "asyncio.Future[Any]") -> None:
        if done.cancelled() or done.exception() is not None:
            self._discard(call, future)
        elif not future.done():
            call.computes = False
            future.set_result(done.result())

    def _discard(self, call: _Call, future: ResultFuture) -> None:
        call.computes = False
        with self._lock:
            del self._results[call.request.key]
        future.cancel()


_COMPUTING: Final[ContextVar[tuple[_Call, ...]]] = ContextVar("rageval_computing", default=())
"""The calls whose functions are running around the current code, innermost last."""


@contextmanager
def _computing(call: _Call) -> Iterator[None]:
    before = _COMPUTING.get()
    _COMPUTING.set((*before, call))
    try:
        yield
    finally:
        _COMPUTING.set(before)


def _refuse_recursion(name: str, key: str) -> None:
    """Raise CallableError if a function would wait for the result that it is computing itself."""
    if any(call.computes and call.request.key == key for call in _COMPUTING.get()):
        raise CallableError(
            f"{name} is cached, and calls itself with the same arguments: it would wait for its own result.\n"
            "Call the function that is not cached, or give other arguments."
        )


def _is_same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if one is other:
        return True
    if getattr(one, "__self__", None) is not getattr(other, "__self__", None):
        return False
    # Callable objects have no code: two of them count as different, since their state may differ.
    return getattr(one, "__code__", None) is not None and _definition(one) == _definition(other)


def _definition(function: Callable[..., Any]) -> list[object]:
    closure = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return [
        closure,
        *(getattr(function, name, None) for name in ("__code__", "__defaults__", "__kwdefaults__")),
    ]


def _qualified_name(function: Callable[..., Any]) -> str:
    kind = type(function)
    name = getattr(function, "__qualname__", "" if kind.__module__ == "functools" else kind.__qualname__)
    if not name or name.endswith("<lambda>"):
        raise InputError(
            f"cached({function!r}, …): it has no name, by which its results would be found in later runs.\n"
            "Write a function with def."
        )
    return f"{stored_module(function)}.{name}"


def _make_reusable(function: Callable[..., Any], result: Any) -> Any:
    """Return a result that every caller can use: a coroutine becomes a future, which can be awaited repeatedly."""
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


def build_request(name: str, version: str, args: Sequence[Any], kwargs: Mapping[str, object]) -> Request:
    arguments = {str(position): argument for position, argument in enumerate(args, 1)} | dict(kwargs)
    try:
        values = {key: _to_json_value(argument) for key, argument in arguments.items()}
        parts = {f"argument {key}": json.dumps(value, sort_keys=True) for key, value in values.items()}
        request = Request(SERVER, f"{name}@{version}", (values,), parts=parts)
        _ = request.key
    except (TypeError, ValueError) as error:
        raise CallableError(
            f"{name} is cached, and was called with an argument that has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these, documents and dataclasses have one."
        ) from None
    return request


def _to_json_value(value: Any) -> Any:
    """Return an argument as a JSON value; different arguments result in different values."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        inner = {field.name: _to_json_value(getattr(value, field.name)) for field in fields(value)}
        return {"__class__": f"{stored_module(kind)}.{kind.__qualname__}", **inner}
    if isinstance(value, Mapping):
        # A dict with a key such as "__class__" must not result in the same value as a dataclass.
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {key: _to_json_value(item) for key, item in value.items()}
        return {"__items__": [[_to_json_value(key), _to_json_value(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_to_json_value(item) for item in value]
    return value


def build_reply(name: str, result: Any) -> Reply:
    try:
        text = json.dumps(result, allow_nan=False)
        _refuse_non_text_keys(result)
    except (TypeError, ValueError) as error:
        raise CallableError(
            f"{name} is cached, and returned what has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these have one; keys are text."
        ) from None
    return Reply(text, name)


def _refuse_non_text_keys(result: Any) -> None:
    """Raise TypeError if a dict has a key that is not text: JSON would change the key to text."""
    if isinstance(result, Mapping):
        for key in result:
            if not isinstance(key, str):
                message = f"a dict has the key {key!r:.60}, which is not a text"
                raise TypeError(message)
        result = list(result.values())
    if isinstance(result, list | tuple):
        for item in result:
            _refuse_non_text_keys(item)


Conversation = str | Sequence[Message]

STORED_AS: Final = "pytest_rageval.llm.api"  # see calls.STORED_AS
REFUSED: Final = {**REJECTED_ARGUMENTS, "n": "ask with sample=0, 1, 2 … instead"}
"""Arguments that other clients accept and `LLM.complete` does not, with what to do instead."""


class LLM(Functions):
    """Sends prompts to the configured model. Every reply is stored, so that it is paid for once.

    Args:
        gateway: the gateway of the run.
        loop: the event loop of the gateway.
        default: returns the server and the default model; may raise InputError.
        prompts: the prompts that built-in retrievers use.
    """

    def __init__(
        self,
        gateway: Gateway,
        loop: BackgroundEventLoop,
        default: Callable[[], tuple[Server, str]],
        prompts: Prompts = DEFAULT_PROMPTS,
    ) -> None:
        super().__init__(gateway, loop)
        self.prompts = prompts
        self._default = default

    def complete(
        self, messages: Conversation, *, model: str | None = None, sample: int = 0, **parameters: Any
    ) -> Reply:
        """Return the model's reply; its `text` is the answer. For sync code.

        Args:
            messages: a conversation in OpenAI's format, or one user message as text.
            model: the model's name at the server; by default the model that generates answers.
            sample: 0, 1, 2 … for repeated draws of the same prompt.
            parameters: parameters of the request: `temperature`, `max_tokens`, `stop`, `response_format` …

        Raises:
            Unscored: this request failed; the reason. If the caller does not catch it, the example is unscored.
            RagevalError: no request can be answered: no server, a wrong key, no budget.
            InputError: a message or a parameter cannot be used.
        """
        if self._loop.in_loop_thread:
            raise CallableError(
                "rageval_llm.complete() was called in async code.\nWrite: await rageval_llm.acomplete(…)"
            )
        server, request = self._request(messages, model, sample, parameters)
        return self._loop.wait(self._gateway.get_reply(server, request))

    async def acomplete(
        self, messages: Conversation, *, model: str | None = None, sample: int = 0, **parameters: Any
    ) -> Reply:
        """`complete` for async code, under asyncio or trio."""
        server, request = self._request(messages, model, sample, parameters)
        return await self._loop.await_result(self._gateway.get_reply(server, request))

    def _request(
        self, messages: Conversation, model: str | None, sample: int, parameters: Mapping[str, object]
    ) -> tuple[Server, Request]:
        """Return the server and the request, with copies of the messages: the caller may change them later."""
        for name in REFUSED.keys() & parameters.keys():
            raise InputError(f"rageval_llm.complete() does not take {name!r}: {REFUSED[name]}.")
        if model is not None and (not isinstance(model, str) or not model):
            why = "a model is named by a text; None is the default one"
            raise InputError(f"rageval_llm.complete(…, model={model!r:.60}): {why}.")
        if type(sample) is not int or sample < 0:
            why = "expected a whole number, at least 0"
            raise InputError(f"rageval_llm.complete(…, sample={sample!r:.60}): {why}.")
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        conversation = tuple(messages) if isinstance(messages, Iterable) else ()
        if not conversation or not all(isinstance(m, Mapping) and "role" in m for m in conversation):
            raise InputError(
                f"rageval_llm.complete() was given {messages!r:.80}, which is not a list of messages.\n"
                'Write a text, or [{"role": "user", "content": "…"}].'
            )
        server, default = self._default()
        try:
            copied, frozen = json.loads(json.dumps([conversation, dict(parameters)], allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"rageval_llm.complete() was given what JSON cannot express: {error}.\n"
                "Messages and parameters are text, numbers, booleans, None, lists and dicts of these."
            ) from None
        count_completion(self._loop, model or default)
        return server, Request(
            server.base_url, model or default, tuple(copied), frozen, sample, api=server.api
        )
