"""`cached()`: results of the user's expensive functions, cached like replies."""

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.calls import identity_of
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import is_cached
from pytest_rageval.core.errors import CallableError, InputError, MissingReplyError, Unscored
from pytest_rageval.core.ranking import Document
from pytest_rageval.models.api import Functions
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.stores import interface
from pytest_rageval.models.stores import sqlite as sqlite_claims
from tests.unit.models.scripted import until


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[Any] = []
        self._opened: list[tuple[Gateway, BackgroundEventLoop]] = []

    def session(self, **access: Any) -> Functions:
        gateway, loop = Gateway(GatewaySettings(self.folder, **access)), BackgroundEventLoop()
        # Start the event loop, as any session has before threads use it; test_api.py tests threads that start it.
        loop.submit(asyncio.sleep(0)).result(60)
        self._opened.append((gateway, loop))
        return Functions(gateway, loop)

    def close(self) -> None:
        for gateway, loop in self._opened:
            if loop.started:
                loop.submit(gateway.close()).result(60)
            loop.close()
        self._opened.clear()

    def slow(self, *args: Any, **named: Any) -> Any:
        self.calls.append((args, named))
        return {"args": [str(arg) for arg in args], "named": sorted(named)}

    async def slow_too(self, *args: Any, **named: Any) -> Any:
        await asyncio.sleep(0)
        return self.slow(*args, **named)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "cache")
    yield made
    made.close()


def _call(
    functions: Functions, function: Callable[..., Any], *args: Any, version: str = "1", **named: Any
) -> Any:
    cached = functions.cached(function, version=version)
    if asyncio.iscoroutinefunction(function):
        return asyncio.run(asyncio.wait_for(cached(*args, **named), 60))
    return cached(*args, **named)


@pytest.mark.parametrize("name", ["slow", "slow_too"])
def test_a_result_is_computed_once(world: World, name: str) -> None:
    expected = {"args": ["a", "1"], "named": ["k"]}
    first = world.session()
    for _ in range(2):
        assert _call(first, getattr(world, name), "a", 1, k=None) == expected
    world.close()
    assert _call(world.session(), getattr(world, name), "a", 1, k=None) == expected
    assert world.calls == [(("a", 1), {"k": None})]


def test_a_cached_function_looks_like_the_function(world: World) -> None:
    cached = world.session().cached(world.slow, version="1")
    assert cached.__name__ == "slow"
    assert cached.__doc__ == World.slow.__doc__
    assert is_cached(cached)
    assert not is_cached(world.slow)
    assert asyncio.iscoroutinefunction(world.session().cached(world.slow_too, version="1"))


def test_another_version_is_another_function(world: World) -> None:
    functions = world.session()
    for version in ("1", "2", "1"):
        _call(functions, world.slow, "a", version=version)
        assert identity_of(functions.cached(world.slow, version=version)).endswith(f"slow@{version}")
    assert len(world.calls) == 2


@pytest.mark.parametrize(
    ("function", "version", "message"),
    [
        (len, "", 'Write version="1", say'),
        (len, 1, 'Write version="1", say'),
        ("a result", None, "it cannot be called"),
        ("a result", "1", "it cannot be called"),
        (partial(len), "1", r"it has no name.*\nWrite a function with def\."),
        (lambda text: len(text), "1", r"it has no name.*\nWrite a function with def\."),  # noqa: PLW0108
    ],
)
def test_what_cannot_be_cached_is_refused(world: World, function: Any, version: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        world.session().cached(function, version=version)


@pytest.mark.parametrize("name", ["slow", "slow_too"])
def test_without_a_version_results_are_cached_within_the_run(world: World, name: str) -> None:
    session = world.session()
    cached = session.cached(getattr(world, name))

    async def twice() -> list[Any]:
        return [await cached("a"), await cached("a")]

    results = asyncio.run(twice()) if name == "slow_too" else [cached("a"), cached("a")]
    assert results[0] == results[1]
    assert len(world.calls) == 1
    (remark,) = session._gateway.usage.remarks
    assert remark.endswith("are cached within this run only: no version")
    session.cached(world.slow)("a")
    assert len(world.calls) == 2


@pytest.mark.parametrize("version", [None, "1"])
def test_a_failed_or_cancelled_async_call_is_not_cached(world: World, version: str | None) -> None:
    calls: list[int] = []

    async def fails() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise LookupError("lost")
        await asyncio.sleep(0 if len(calls) > 2 else 3600)
        return "now"

    cached = world.session().cached(fails, version=version)

    async def call() -> str:
        return await asyncio.wait_for(cached(), 60)

    async def cancelled() -> None:
        task = asyncio.ensure_future(cached())
        await until(lambda: len(calls) == 2)
        task.cancel()
        await task

    with pytest.raises(LookupError):
        asyncio.run(call())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert asyncio.run(call()) == "now"


async def test_one_who_gives_up_does_not_end_it_for_another_within_the_run(world: World) -> None:
    calls: list[int] = []

    async def slow() -> str:
        calls.append(1)
        await asyncio.sleep(0.05)
        return "now"

    cached = world.session().cached(slow)
    cancelled_task, waiting_task = (asyncio.create_task(cached()) for _ in range(2))
    await asyncio.sleep(0)
    cancelled_task.cancel()
    assert await waiting_task == "now"
    assert len(calls) == 1


@pytest.mark.parametrize("version", [None, "1"])
@pytest.mark.parametrize("fails", [False, True])
def test_event_loops_in_threads_compute_it_once(world: World, version: str | None, *, fails: bool) -> None:
    calls: list[int] = []

    async def slow() -> list[int]:
        calls.append(threading.get_ident())
        await asyncio.sleep(0.1)
        if fails and len(calls) == 1:
            raise LookupError("lost")
        return [1]

    cached = world.session().cached(slow, version=version)

    async def call() -> list[int]:
        return await asyncio.wait_for(cached(), 60)

    def attempt(_: int) -> list[int] | None:
        try:
            return asyncio.run(call())
        except LookupError:
            return None

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attempt, range(16)))
    assert results.count(None) == fails
    assert results.count([1]) == 16 - fails
    assert len(calls) == 1 + fails


def test_a_loop_that_ends_in_the_midst_leaves_it_to_another(world: World) -> None:
    calls: list[int] = []
    begun = threading.Event()

    async def slow() -> str:
        calls.append(1)
        begun.set()
        await asyncio.sleep(3600 if len(calls) == 1 else 0)
        return "now"

    cached = world.session().cached(slow)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cached(), 0.3)

    async def call() -> str:
        return await asyncio.wait_for(cached(), 60)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(asyncio.run, give_up())
        assert begun.wait(60)
        assert pool.submit(asyncio.run, call()).result(60) == "now"
        first.result(60)
    assert len(calls) == 2


def test_two_functions_may_wait_for_each_other_with_the_same_arguments(world: World) -> None:
    """Threads may call a cached function and another one that calls it, with equal arguments, without a deadlock."""
    session = world.session()

    def inner(text: str) -> str:
        time.sleep(0.02)
        return text.upper()

    cached = session.cached(inner)

    def outer(text: str) -> str:
        return cached(text) + "!"

    around = session.cached(outer)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(function, "a") for _ in range(4) for function in (cached, around)]
        assert [job.result(60) for job in jobs] == ["A", "A!"] * 4


def test_an_iterator_is_not_cached_within_the_run(world: World) -> None:
    def lines() -> Iterator[str]:
        yield "a"

    async def late() -> Any:
        yield "a"

    for function, kind in ((lines, "generator"), (late, "async_generator")):
        with pytest.raises(CallableError, match=f"returned a {kind}, which can be read only once"):
            world.session().cached(function)()


def test_two_functions_of_one_name_and_version_are_refused(world: World) -> None:
    def make_function(inside: str) -> Callable[[str], str]:
        def function(text: str) -> str:
            return text + inside

        return function

    session = world.session()
    assert session.cached(make_function("x"), version="1")("a") == "ax"
    assert session.cached(make_function("x"), version="1")("a") == "ax"
    with pytest.raises(InputError, match="Two different functions are cached as"):
        session.cached(make_function("y"), version="1")
    assert session.cached(make_function("y"), version="2")("a") == "ay"
    one, other = World(world.folder), World(world.folder)
    session.cached(one.slow, version="1")
    with pytest.raises(InputError, match="Two different functions are cached as"):
        session.cached(other.slow, version="1")


@dataclass
class Query:
    text: str
    tags: dict[str, Any] = field(default_factory=dict)


@dataclass
class Command:
    text: str
    tags: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "b"),
        ("a", "a "),
        (1, "1"),
        (True, 1),
        (None, "None"),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": 2}),
        (Document("t", "1"), Document("t", "2")),
        (Document("t"), Document("u")),
        (Document("t", metadata={"p": 1}), Document("t", metadata={"p": 2})),
        ([Document("t")], [Document("t"), Document("t")]),
        (Query("a"), Query("b")),
        (Query("a", {"x": [1]}), Query("a", {"x": [2]})),
        ("half \ud83d", "half \ud83e"),
    ],
)
def test_other_arguments_are_computed_again(world: World, one: Any, other: Any) -> None:
    functions = world.session()
    for argument in (one, other, one, other):
        _call(functions, world.slow, argument)
    assert len(world.calls) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Query("a"), Command("a")),
        ({1: "a"}, {"1": "a"}),
        (Query("a"), {"text": "a", "tags": {}}),
        (Query("a"), {"__class__": f"{__name__}.Query", "text": "a", "tags": {}}),
        ({1: "a"}, {"__items__": [[1, "a"]]}),
    ],
)
def test_arguments_of_other_kinds_are_other_arguments(world: World, one: Any, other: Any) -> None:
    functions = world.session()

    def show(argument: object) -> str:
        return repr(argument)

    assert [_call(functions, show, argument) for argument in (one, other)] == [repr(one), repr(other)]


def test_the_order_of_named_arguments_does_not_matter(world: World) -> None:
    functions = world.session()
    _call(functions, world.slow, {"x": 1, "y": 2}, a=1, b=2)
    _call(functions, world.slow, {"y": 2, "x": 1}, b=2, a=1)
    assert len(world.calls) == 1


def test_two_functions_do_not_share_results(world: World) -> None:
    def shout(text: str) -> str:
        return text.upper()

    def count(text: str) -> int:
        return len(text)

    functions = world.session()
    assert [_call(functions, function, "abc") for function in (shout, count)] == ["ABC", 3]


async def test_an_object_with_an_async_call_is_an_async_function(world: World) -> None:

    class Caller:
        async def __call__(self, text: str) -> str:
            return text.upper()

    cached = world.session().cached(Caller(), version="1")
    assert await cached("a") == "A"


@pytest.mark.parametrize(
    "argument", [object(), {1, 2}, b"bytes", float("nan"), [object()], {"a": {"b": {1}}}, Query(object())]
)
@pytest.mark.parametrize("name", ["slow", "slow_too"])
def test_an_argument_without_a_lasting_form_is_an_error(world: World, name: str, argument: Any) -> None:
    with pytest.raises(CallableError, match=f"{name} is cached, and was called with an argument that has no"):
        _call(world.session(), getattr(world, name), argument)
    assert world.calls == []


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {1, 2},
        b"bytes",
        float("nan"),
        {"a": [object()]},
        Document("t"),
        {1: "a"},
        [{"a": {True: 1}}],
    ],
)
def test_a_result_without_a_lasting_form_is_an_error(world: World, result: Any) -> None:
    """A result that cannot be stored as JSON raises CallableError and is not cached: the next call computes again."""
    functions, calls = world.session(), []

    def wrong(_: str) -> Any:
        calls.append(1)
        return result

    for _ in range(2):
        with pytest.raises(CallableError, match="is cached, and returned what has no lasting form"):
            _call(functions, wrong, "a")
    assert len(calls) == 2


@pytest.mark.parametrize(
    "result",
    ["", None, 0, False, [], "half \ud83d", "nul \x00", "„ja“", 1.5, {"a": [1, None]}, (1, (2,))],
)
def test_a_result_is_the_same_now_and_later(world: World, result: Any) -> None:
    """A tuple is a list from the first call on, so that tests do not depend on the cache."""
    functions, calls = world.session(), []

    def function() -> Any:
        calls.append(1)
        return result

    expected = [1, [2]] if isinstance(result, tuple) else result
    assert [_call(functions, function) for _ in range(2)] == [expected, expected]
    assert len(calls) == 1


@pytest.mark.parametrize("error", [LookupError("lost"), Unscored("no"), KeyboardInterrupt(), StopIteration()])
def test_an_exception_is_not_cached(world: World, error: BaseException) -> None:
    functions, calls = world.session(), []

    def fails(_: str) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return "now"

    with pytest.raises(type(error)) as caught:
        _call(functions, fails, "a")
    assert caught.value is error
    assert _call(functions, fails, "a") == "now"


@pytest.mark.parametrize("version", [None, "1"])
def test_threads_that_ask_for_the_same_compute_it_once(world: World, version: str | None) -> None:
    def slow(text: str) -> str:
        world.calls.append(threading.get_ident())
        time.sleep(0.05)
        return text

    cached = world.session().cached(slow, version=version)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(cached, ["a"] * 16)) == ["a"] * 16
    assert len(world.calls) == 1


async def test_tasks_that_ask_for_the_same_compute_it_once(world: World) -> None:
    """Tasks with equal arguments share one computation; different arguments are computed concurrently."""

    async def slow(text: str) -> str:
        world.calls.append(text)
        await until(lambda: len(world.calls) == 2)
        return text

    cached = world.session().cached(slow, version="1")
    assert await asyncio.gather(*(cached(text) for text in "abab")) == list("abab")
    assert sorted(world.calls) == ["a", "b"]


def test_processes_that_ask_for_the_same_compute_it_once(world: World) -> None:
    def slow(text: str) -> str:
        world.calls.append(text)
        time.sleep(0.15)
        return text

    cached = [world.session().cached(slow, version="1") for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda function: function("a"), cached)) == ["a", "a"]
    assert world.calls == ["a"]


@pytest.mark.parametrize("version", [None, "1"])
def test_one_that_fails_lets_the_next_thread_compute(world: World, version: str | None) -> None:
    def fails(_: str) -> str:
        world.calls.append(1)
        time.sleep(0.03)
        if len(world.calls) == 1:
            raise LookupError
        return "now"

    cached = world.session().cached(fails, version=version)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(cached, "a") for _ in range(2)]
        errors = [future.exception(60) for future in futures]
    assert sorted(type(error).__name__ for error in errors) == ["LookupError", "NoneType"]
    assert len(world.calls) == 2


def test_a_cached_function_may_call_another(world: World) -> None:
    functions = world.session()
    inner = functions.cached(world.slow, version="1")

    def twice(text: str) -> Any:
        return [inner(text), inner(text)]

    outer = functions.cached(twice, version="1")
    assert outer("a") == outer("a")
    assert len(world.calls) == 1


def test_a_sync_function_in_async_code_is_an_error(world: World) -> None:
    """A sync cached function would deadlock in the run's own event loop: calling it there raises CallableError."""
    functions = world.session()
    cached = functions.cached(world.slow, version="1")

    async def call() -> Any:
        return cached("a")

    with pytest.raises(CallableError, match=r"called in async code\.\nMake it an async function"):
        functions._loop.run(call())
    assert world.calls == []


def test_an_async_function_in_the_runs_loop(world: World) -> None:
    functions = world.session()
    cached = functions.cached(world.slow_too, version="1")
    assert functions._loop.run(cached("a")) == functions._loop.run(cached("a"))
    assert len(world.calls) == 1


def test_a_sync_function_in_the_thread_that_serves_the_loop(world: World) -> None:
    functions = world.session()
    cached = functions.cached(world.slow, version="1")

    async def call() -> list[Any]:
        return await asyncio.gather(*(functions._loop.call(cached, text) for text in "aba"))

    assert len(functions._loop.run(call())) == 3
    assert len(world.calls) == 2


@pytest.mark.parametrize(("mode", "error"), [("replay", MissingReplyError), ("plan", Unscored)])
@pytest.mark.parametrize("name", ["slow", "slow_too"])
def test_in_replay_no_function_is_called(world: World, name: str, mode: str, error: type[Exception]) -> None:
    """In the modes replay and plan, cached results are returned, and every missing result raises an error."""
    _call(world.session(), getattr(world, name), "a")
    functions = world.session(mode=mode)
    assert _call(functions, getattr(world, name), "a")["args"] == ["a"]
    for _ in range(2):
        with pytest.raises(error):
            _call(functions, getattr(world, name), "b")
    assert len(world.calls) == 1


def test_results_are_recorded_and_read_from_a_cassette(world: World, tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"
    functions = world.session(keeps_replies=True, cassette=cassette)
    for text in "aab":
        _call(functions, world.slow, text)
    write_cassette(cassette, functions._gateway.used.values())
    assert len(read_cassette(cassette)) == 2
    world.close()
    world.folder = tmp_path / "other"
    assert _call(world.session(mode="replay", cassette=cassette), world.slow, "a")["args"] == ["a"]
    assert len(world.calls) == 2


def test_a_cached_result_names_its_function(world: World) -> None:
    """The summary has its name and version, and the arguments as hashes: no secret is in the file."""
    functions = world.session(keeps_replies=True)
    _call(functions, world.slow, "a secret")
    (entry,) = functions._gateway.used.values()
    assert entry.summary["model"].endswith("World.slow@1")
    assert list(entry.summary["parts"]) == ["argument 1"]
    assert "secret" not in json.dumps(entry.summary)


@pytest.mark.parametrize("turns", [1, 5, 20])
async def test_a_call_cancelled_at_any_moment_blocks_no_other(world, turns, monkeypatch):
    monkeypatch.setattr(sqlite_claims, "CLAIM_TTL_S", 0.3)
    monkeypatch.setattr(interface, "RENEWAL_S", 0.05)
    one, other = (world.session().cached(world.slow_too, version="1") for _ in range(2))
    for number in range(10):
        task = asyncio.create_task(one(str(number)))
        for _ in range(turns):
            await asyncio.sleep(0.0001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for number in range(10):
        await asyncio.wait_for(one(str(number)), 60)
        await asyncio.wait_for(other(str(number)), 60)


def _busy(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_call_cancelled_before_its_turn_passes_the_turn_on(world: World) -> None:
    """If a call is cancelled while its event loop is too busy to take the lock, the next call gets the lock."""
    cached = world.session().cached(world.slow_too, version="1")
    task = asyncio.create_task(cached("a"))
    await asyncio.sleep(0)
    _busy(0.2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await asyncio.wait_for(cached("a"), 60))["args"] == ["a"]
    assert len(world.calls) == 1


async def test_a_call_cancelled_before_its_result_is_kept(world: World) -> None:
    functions, computed = world.session(), []

    async def function() -> str:
        computed.append(functions._loop.submit(_busy_in_loop()))
        return "x"

    async def _busy_in_loop() -> None:
        _busy(0.2)

    cached = functions.cached(function, version="1")
    task = asyncio.create_task(cached())
    await until(lambda: computed)
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await asyncio.wait_for(cached(), 60) == "x"


def test_an_interrupted_wait_blocks_no_other(world: World) -> None:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    go_on = threading.Event()

    def slow(text: str) -> str:
        world.calls.append(text)
        go_on.wait(60)
        if len(world.calls) == 1:
            raise LookupError
        return text

    one = world.session().cached(slow, version="1")
    other = world.session().cached(slow, version="1")
    outcomes: list[object] = []

    def call(function: Callable[[str], str]) -> None:
        try:
            outcomes.append(function("a"))
        except BaseException as error:  # noqa: BLE001 - looked at below
            outcomes.append(type(error))

    # The other session computes, so that this one waits; the computation raises in the end.
    busy, later = (
        threading.Thread(target=call, args=(function_to_call,), daemon=True)
        for function_to_call in (other, one)
    )
    busy.start()
    while not world.calls:
        time.sleep(0.002)

    def interrupt(*_: object) -> None:
        raise InterruptedError("too slow")

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        one("a")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(InterruptedError):
            interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        go_on.set()
    busy.join(60)
    # Let a call that still waits in the background continue.
    time.sleep(0.2)
    later.start()
    later.join(60)
    assert outcomes == [LookupError, "a"]
