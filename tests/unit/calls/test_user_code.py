"""The user's own callables."""

import asyncio
import itertools
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pytest_rageval.calls import identity_of
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import gather_results
from pytest_rageval.calls.user_code import (
    MAX_FAILURES,
    MAX_ITEMS,
    MAX_TEXT_LENGTH,
    Call,
    InvalidResult,
    UserCallable,
    bounded_text,
)
from pytest_rageval.core.errors import CallableError, InputError, QueryError, Unscored
from pytest_rageval.lib.foreign_values import has_parameter


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


def _user(loop: BackgroundEventLoop, function: Callable[..., Any]) -> UserCallable:
    return UserCallable("rageval_generator", function, loop)


@pytest.mark.parametrize("function", [_sync, _async, partial(_async), _AsyncObject(), _sync_to_async])
def test_sync_and_async_callables_are_called(loop: BackgroundEventLoop, function: Callable[..., Any]) -> None:
    user = _user(loop, function)
    assert [loop.run(user.call("a")) for _ in range(3)] == ["A"] * 3
    assert user.calls == 3
    assert user.function is function


def test_a_sync_callable_runs_in_the_tests_thread(loop: BackgroundEventLoop) -> None:
    """A sync callable runs in the test's thread, since some objects may be used only there."""
    user = _user(loop, lambda _: threading.get_ident())
    assert loop.run(user.call("a")) == threading.get_ident()


def test_a_lazy_series_is_read_where_it_may_run(loop: BackgroundEventLoop) -> None:
    """A generator of documents is consumed in the test's thread, since its code runs while it is read."""

    def lazy(_: str) -> Iterator[int]:
        yield threading.get_ident()

    assert loop.run(_user(loop, lazy).call("a")) == [threading.get_ident()]


@pytest.mark.parametrize("kind", [LookupError, SystemExit, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_callable_fails_at_one_question(loop, kind, *, is_async):
    def fails(question: str) -> str:
        if question == "b":
            return question
        raise kind("lost")

    async def fails_later(question: str) -> str:
        await asyncio.sleep(0)
        return fails(question)

    user = _user(loop, fails_later if is_async else fails)
    first, other, again = _called(loop, user, "a", "b", "a")
    assert isinstance(first, QueryError)
    assert str(first).startswith(f"rageval_generator raised for 'a': {kind.__name__}: lost\n  ")
    assert re.fullmatch(
        rf"rageval_generator raised {kind.__name__}: lost \(test_user_code\.py:\d+\)", first.reason
    )
    assert other == "b"
    assert again is first
    assert user.calls == 2
    with pytest.raises(CallableError, match="raised for 'a'"):
        loop.run(user.call("a"))


def _called(
    loop: BackgroundEventLoop, user: UserCallable, *questions: str, at_once: bool = False
) -> list[Any]:
    async def each() -> list[Any]:
        calls = [user.call(question) for question in questions]
        if at_once:
            return await asyncio.gather(*calls, return_exceptions=True)
        return [(await asyncio.gather(call, return_exceptions=True))[0] for call in calls]

    return loop.run(each())


QUESTIONS = [f"q{n}" for n in range(20)]


async def _wrong(question: str) -> str:
    # Fail one after the other, so that waiting calls could start in place of failed ones.
    await asyncio.sleep(0.002 * int(question[1:]))
    raise LookupError(question)


def _wrong_sync(question: str) -> str:
    raise LookupError(question)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("function", [_wrong, _wrong_sync])
def test_what_fails_at_the_first_few_is_called_no_more(loop, function, *, at_once):
    user = _user(loop, function)
    outcomes = _called(loop, user, *QUESTIONS, at_once=at_once)
    assert user.calls == MAX_FAILURES
    assert [str(outcome) for outcome in outcomes[MAX_FAILURES:]] == [str(outcomes[0])] * (20 - MAX_FAILURES)


@pytest.mark.parametrize("at_once", [True, False])
def test_what_has_answered_one_is_called_for_all(loop: BackgroundEventLoop, *, at_once: bool) -> None:
    async def seldom(question: str) -> str:
        return question if question == "q3" else await _wrong(question)

    user = _user(loop, seldom)
    outcomes = _called(loop, user, *QUESTIONS, at_once=at_once)
    assert user.calls == len(QUESTIONS)
    assert [outcome for outcome in outcomes if not isinstance(outcome, QueryError)] == ["q3"]


def test_different_failures_are_no_wrong_line(loop: BackgroundEventLoop) -> None:
    """Only failures of the same kind count towards the limit that stops the calls."""
    kinds = [LookupError, ValueError, OSError, TypeError]

    def fails(question: str) -> str:
        raise kinds[int(question[1:]) % len(kinds)]

    user = _user(loop, fails)
    _called(loop, user, *QUESTIONS)
    assert user.calls == len(kinds) * (MAX_FAILURES - 1) + 1


def test_one_question_asked_in_many_ways_is_one_question(loop: BackgroundEventLoop) -> None:
    def fails(question: str, *, sample: int) -> str:
        if question == "bad":
            raise LookupError(sample)
        return question

    async def each() -> list[Any]:
        calls = [user.call("bad", sample=n) for n in range(2 * MAX_FAILURES)] + [user.call("good", sample=0)]
        return await asyncio.gather(*calls, return_exceptions=True)

    user = _user(loop, fails)
    assert loop.run(each())[-1] == "good"


def test_a_question_without_an_answer_is_no_failure(loop: BackgroundEventLoop) -> None:
    def unscored(_: str) -> str:
        raise Unscored("empty")

    user = _user(loop, unscored)
    assert {type(outcome) for outcome in _called(loop, user, *QUESTIONS)} == {Unscored}
    assert user.calls == len(QUESTIONS)


def test_an_async_callable_is_called_for_a_few_and_then_for_all_at_once(loop: BackgroundEventLoop) -> None:
    running_counts: list[int] = []
    calls = 0

    async def counting(question: str) -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.01)
        running_counts.append(calls)
        calls -= 1
        return question

    assert _called(loop, _user(loop, counting), *QUESTIONS, at_once=True) == QUESTIONS
    assert running_counts[0] == MAX_FAILURES
    assert max(running_counts) > MAX_FAILURES


def test_an_inline_callable_fails_at_one_question(loop: BackgroundEventLoop) -> None:
    async def cancelled() -> str:
        raise asyncio.CancelledError

    def fails(question: str) -> str:
        return asyncio.run(cancelled()) if question == "a" else question

    user = _user(loop, fails)

    async def each() -> list[Any]:
        return await gather_results(user.call(question) for question in "abc")

    error, *others = loop.run(each(), inline=True)
    assert isinstance(error, QueryError)
    assert str(error).startswith("rageval_generator raised for 'a': CancelledError: \n  ")
    assert others == ["b", "c"]
    assert not loop.started


def test_a_cancelled_run_is_no_failure_of_the_callable(loop: BackgroundEventLoop) -> None:
    async def waits(_: str) -> str:
        await asyncio.sleep(60)
        raise AssertionError("cancelled before")

    user = _user(loop, waits)
    call = Call(user, ("a",), {}, "a")

    async def cancel() -> BaseException | str:
        call = asyncio.ensure_future(user.call("a"))
        await asyncio.sleep(0.01)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return (await asyncio.gather(call, return_exceptions=True))[0]

    assert isinstance(loop.run(cancel()), asyncio.CancelledError)

    async def close() -> None:
        work = user._await(call, waits("a"))
        work.send(None)
        work.close()

    loop.run(close())
    assert user._run_outcomes.failure_of(call) is None


@pytest.mark.parametrize("error", [Unscored("no score"), InputError("no model")])
def test_errors_of_the_package_are_not_wrapped(loop: BackgroundEventLoop, error: Exception) -> None:
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


def test_a_result_is_read_where_it_is_returned(loop: BackgroundEventLoop) -> None:
    """A result that cannot be used is a failure of its question, with a reason that names the result."""

    def read(result: str) -> int:
        if result == "A":
            raise InvalidResult("returned A", "returned A for {question}.\nReturn B.")
        return len(result)

    for function in (_sync, _async):
        user = UserCallable("rageval_generator", function, loop, read=read)
        wrong, good = _called(loop, user, "a", "bcd")
        assert (str(wrong), wrong.reason) == (
            "rageval_generator returned A for 'a'.\nReturn B.",
            "rageval_generator returned A",
        )
        assert good == 3


def _with_kinds(positional: str, /, *, named: str, **_: str) -> None:
    del positional, named


@pytest.mark.parametrize(
    ("function", "name", "expected"),
    [
        (_with_kinds, "named", True),
        (_with_kinds, "positional", False),
        (_with_kinds, "other", False),
        (partial(_sync_to_async), "question", True),
        (_AsyncObject(), "question", True),
        (dict.get, "key", False),
    ],
)
def test_which_words_a_function_takes(function: Callable[..., Any], name: str, expected: bool) -> None:  # noqa: FBT001
    assert has_parameter(function, name) is expected


class _Base:
    def compare(self, question: str) -> str:
        return question


class _Strict(_Base):
    """A subclass that does not override `compare`."""

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
def test_a_function_is_known_by_its_name_and_its_object(function: Any, identity: str) -> None:
    """The identity names function and class, so that it is equal in another process and differs for another judge."""
    assert identity_of(function) == f"{__name__}.{identity}"


def test_a_function_may_say_what_it_is() -> None:
    """An attribute `fingerprint` identifies settings, weights or a prompt that no name can tell."""
    assert identity_of(_Set("m1, temperature 0")) == "m1, temperature 0"
    assert identity_of(_Set("m1, temperature 0").compare) == "m1, temperature 0"


@pytest.mark.parametrize("items", [itertools.count(), range(MAX_ITEMS + 1)])
def test_a_result_without_bounds_is_an_error_that_names_the_limit(loop, items):
    with pytest.raises(QueryError, match=rf"returned more than {MAX_ITEMS:,} items for 'a'"):
        loop.run(_user(loop, lambda _: iter(items)).call("a"))
    assert len(loop.run(_user(loop, lambda _: iter(range(MAX_ITEMS))).call("a"))) == MAX_ITEMS


def test_a_text_without_bounds_is_an_error_that_names_the_limit() -> None:
    class Text(str):
        __slots__ = ()

    assert type(bounded_text(Text("a"), "a text")) is str
    assert bounded_text("a" * MAX_TEXT_LENGTH, "a text")
    with pytest.raises(InvalidResult) as raised:
        bounded_text("a" * (MAX_TEXT_LENGTH + 1), "a text")
    assert raised.value.found == f"returned a text of {MAX_TEXT_LENGTH + 1:,} characters"
    assert f"at most {MAX_TEXT_LENGTH:,} characters" in raised.value.message
