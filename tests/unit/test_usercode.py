"""The user's own callables, and what stands for them in a plan."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pytest_rageval.errors import CallableError, InputError, Planned, Unscored
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.usercode import Uncalled, UserCallable, takes


def _sync(question: str) -> str:
    return question.upper()


async def _async(question: str) -> str:
    await asyncio.sleep(0)
    return question.upper()


def _sync_to_async(question: str) -> Awaitable[str]:
    return _async(question)


class _AsyncObject:
    async def __call__(self, question: str) -> str:
        return await _async(question)


def _user(loop: PrivateLoop, function: Callable[..., Any]) -> UserCallable:
    return UserCallable("rageval_generator", function, loop)


@pytest.mark.parametrize("function", [_sync, _async, partial(_async), _AsyncObject(), _sync_to_async])
def test_sync_and_async_callables_are_called(loop: PrivateLoop, function: Callable[..., Any]) -> None:
    """Also a sync one that gives something to await; calls are counted."""
    user = _user(loop, function)
    assert [loop.run(user.call("a")) for _ in range(3)] == ["A"] * 3
    assert user.calls == 3
    assert user.function is function


def test_a_sync_callable_runs_in_the_tests_thread(loop: PrivateLoop) -> None:
    """Some may be used only where they were made."""
    user = _user(loop, lambda _: threading.get_ident())
    assert loop.run(user.call("a")) == threading.get_ident()


def test_a_lazy_series_is_read_where_it_may_run(loop: PrivateLoop) -> None:
    """A generator of documents runs as it is read."""

    def lazy(_: str) -> Iterator[int]:
        yield threading.get_ident()

    assert loop.run(_user(loop, lazy).call("a")) == [threading.get_ident()]


@pytest.mark.parametrize("kind", [LookupError, SystemExit])
def test_an_async_callable_that_raises_is_one_error(loop: PrivateLoop, kind: type[BaseException]) -> None:
    """It is called no more in this run, and again in the next."""

    async def fails(_: str) -> str:
        raise kind("lost")

    user = _user(loop, fails)

    async def twice() -> list[Any]:
        return [
            (await asyncio.gather(user.call(question), return_exceptions=True))[0] for question in ("a", "b")
        ]

    first, second = loop.run(twice())
    assert isinstance(first, CallableError)
    assert str(first).startswith(f"rageval_generator raised for 'a': {kind.__name__}: lost\n  ")
    assert second is first
    assert user.calls == 1
    with pytest.raises(CallableError, match="raised for 'c'"):
        loop.run(user.call("c"))


def test_a_sync_callable_that_exits_is_an_error(loop: PrivateLoop) -> None:
    """As one that was written for the command line does where a file is missing."""

    def exits(_: str) -> str:
        raise SystemExit("no index")

    with pytest.raises(CallableError, match="rageval_generator raised for 'a': SystemExit: no index\n  "):
        loop.run(_user(loop, exits).call("a"))


@pytest.mark.parametrize("error", [Unscored("no score"), InputError("no model")])
def test_errors_of_ours_go_through_as_they_are(loop: PrivateLoop, error: Exception) -> None:
    """The callable may ask models with rageval_llm: the next call is a call."""

    def fails(_: str) -> str:
        raise error

    async def fails_too(_: str) -> str:
        raise error

    for function in (fails, fails_too):
        user = _user(loop, function)
        for _ in range(2):
            with pytest.raises(type(error)) as caught:
                loop.run(user.call("a"))
            assert caught.value is error
        assert user.calls == 2


def test_an_unusable_result_ends_the_calls(loop: PrivateLoop) -> None:
    """Within the run in which it was found."""
    user = _user(loop, _sync)

    async def found() -> None:
        raise user.fail("returned None")

    with pytest.raises(CallableError, match=r"^rageval_generator returned None$"):
        loop.run(found())
    assert loop.run(user.call("a")) == "A"


class _Judge:
    """Compares, and cannot say what is relevant."""

    def compare(self, *_: object) -> float:
        raise AssertionError("called in a plan")


def _generate(*_: object) -> str:
    raise AssertionError("called in a plan")


def test_in_a_plan_nothing_is_called_and_each_call_is_counted() -> None:
    """As a generator and as a judge: there is no answer and no verdict, and the reason is one."""
    told: Counter[str] = Counter()

    def count(remark: str) -> None:
        told[remark] += 1

    generator, judge = (
        Uncalled(f"rageval_{name}", part, count)
        for name, part in (("generator", _generate), ("judge", _Judge()))
    )

    async def asked() -> list[Any]:
        return await asyncio.gather(
            generator("Which?", []),
            generator("Which?", [], sample=2),
            judge.compare("Which?", ["c7"], "c7"),
            return_exceptions=True,
        )

    outcomes = asyncio.run(asked())
    assert [(type(outcome), str(outcome)) for outcome in outcomes] == [(Planned, "not called in a plan")] * 3
    assert told == {
        "calls of rageval_generator, your own function: what they ask is not counted": 2,
        "calls of rageval_judge, your own function: what they ask is not counted": 1,
    }


def test_in_a_plan_a_missing_method_is_missing() -> None:
    """The stand-in has what the part has, whatever the methods are called."""
    judge = Uncalled("rageval_judge", _Judge(), print)
    assert hasattr(judge, "compare")
    assert not hasattr(judge, "relevant")


def _with_kinds(positional: str, /, *, named: str, **_: str) -> None:
    del positional, named


@pytest.mark.parametrize(
    ("function", "name", "taken"),
    [
        (_with_kinds, "named", True),
        (_with_kinds, "positional", False),
        (_with_kinds, "other", False),
        (partial(_sync_to_async), "question", True),
        (_AsyncObject(), "question", True),
        (dict.get, "key", False),
    ],
)
def test_which_words_a_function_takes(function: Callable[..., Any], name: str, taken: bool) -> None:  # noqa: FBT001
    """Those it names itself and that can be given by name."""
    assert takes(function, name) is taken


class _Base:
    def compare(self, question: str) -> str:
        return question


class _Strict(_Base):
    """Overrides nothing that has a name of its own."""

    @classmethod
    def made(cls, question: str) -> str:
        return question


class _Set(_Base):
    def __init__(self, fingerprint: object) -> None:
        self.fingerprint = fingerprint

    def __call__(self, question: str) -> str:
        return question


def _drawn(question: str, *, model: str = "m", **_: object) -> str:
    return question + model


@pytest.mark.parametrize(
    ("function", "identity"),
    [
        (_sync, "_sync"),
        (_Base().compare, "_Base.compare"),
        (_Strict().compare, "_Strict.compare"),
        (_Strict.made, "_Strict.made"),
        (_AsyncObject(), "_AsyncObject"),
        (partial(_drawn, model="m1"), "_drawn(model='m1')"),
        (partial(_drawn, "q", top=_Base(), k=3), f"_drawn('q', k=3, top={__name__}._Base)"),
        (partial(partial(_drawn, model="m1"), k=3), "_drawn(k=3, model='m1')"),
        (_Set(None), "_Set"),
        (_Set(3).compare, "_Set.compare"),
    ],
)
def test_a_function_is_known_by_its_name_and_its_object(
    loop: PrivateLoop, function: Callable[..., Any], identity: str
) -> None:
    """So that a baseline blames another judge on the judge, and the same one in another process on nobody."""
    assert _user(loop, function).identity == f"{__name__}.{identity}"


def test_a_function_may_say_what_it_is(loop: PrivateLoop) -> None:
    """For what no name can tell: settings, weights, a prompt."""
    assert _user(loop, _Set("m1, temperature 0")).identity == "m1, temperature 0"
    assert _user(loop, _Set("m1, temperature 0").compare).identity == "m1, temperature 0"
