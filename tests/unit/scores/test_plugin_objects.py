"""Checks of the comparators, measures and scores that other plugins add, and of the values that these return."""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.spec import Spec
from pytest_rageval.scores.pipeline import ResolvedScore
from pytest_rageval.scores.plugin_objects import PluginComparator, PluginMeasure, PluginScore

EXAMPLES = [Example("q1", "one?"), Example("q2", "two?")]
UNUSABLE = [None, 7, -0.1, float("nan"), float("inf"), "yes", "0.5", [1.0], 1j]


def _comparing(loop: BackgroundEventLoop, compare: Callable[..., Any]) -> float:
    comparator = PluginComparator("house", type("House", (), {"compare": staticmethod(compare)})(), loop)
    return loop.run(comparator.compare("one?", ("a", "b"), "a"))


@pytest.mark.parametrize(("verdict", "value"), [(True, 1.0), (False, 0.0), (0.25, 0.25), (1, 1.0)])
def test_a_comparator_may_be_sync_or_async(loop: BackgroundEventLoop, verdict: float, value: float) -> None:
    async def compare(_question: str, references: Sequence[str], prediction: str) -> float:
        return verdict if prediction in references else 0.5

    for function in (compare, lambda *_: verdict):
        assert _comparing(loop, function) == value


def test_a_comparator_may_have_no_verdict(loop: BackgroundEventLoop) -> None:
    with pytest.raises(Unscored, match="comparator 'house' gave no verdict"):
        _comparing(loop, lambda *_: None)


@pytest.mark.parametrize("verdict", UNUSABLE[1:])
def test_an_unusable_verdict_names_comparator_and_question(loop, verdict):
    with pytest.raises(CallableError) as caught:
        _comparing(loop, lambda *_: verdict)
    assert str(caught.value).startswith(f"comparator 'house' returned {verdict!r} for 'one?'.")


def test_an_exception_of_a_comparator_is_reported(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match=r"comparator 'house' raised for 'one\?': ZeroDivisionError: "):
        _comparing(loop, lambda *_: 1 / 0)


@pytest.mark.parametrize("given", UNUSABLE)
def test_an_unusable_value_names_the_measure(given: Any) -> None:
    with pytest.raises(CallableError) as caught:
        PluginMeasure("house", lambda _p, _r: given)("a", ["a"])
    assert str(caught.value).startswith(f"answer measure 'house' returned {given!r}.\n")


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        *(
            (error, CallableError, rf"answer measure 'house' raised: {type(error).__name__}: x\n")
            for error in (ZeroDivisionError("x"), SystemExit("x"), GeneratorExit("x"))
        ),
        (Unscored("too long"), Unscored, "too long"),
    ],
)
def test_an_exception_of_a_measure_is_reported_unless_it_says_that_there_is_no_score(error, raised, message):
    def measure(_prediction: str, _references: Sequence[str]) -> float:
        raise error

    with pytest.raises(raised, match=message):
        PluginMeasure("house", measure)("a", ["a"])


def _scoring(loop: BackgroundEventLoop, evaluate: Callable[..., Any]) -> list[Outcome]:
    return loop.run(PluginScore("house", evaluate)(None, EXAMPLES, ResolvedScore(Spec("house", k=1), 1)))


def _giving(given: object) -> Callable[..., Any]:
    async def evaluate(*_: object) -> object:
        return given

    return evaluate


def test_a_score_gives_an_outcome_an_example(loop: BackgroundEventLoop) -> None:
    first, second = _scoring(loop, _giving((Outcome(EXAMPLES[0], 1), Outcome(EXAMPLES[1], None, "why"))))
    assert (type(first.value), first.value) == (float, 1.0)
    assert (second.value, second.unscored) == (None, "why")


ONE, TWO = (Outcome(example, 0.5) for example in EXAMPLES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([ONE], "returned 1 outcome for 2 examples, or not in their order"),
        ([TWO, ONE], "returned 2 outcomes for 2 examples, or not in their order"),
        ([ONE, 0.5], "returned a list with float in it, and not a list of Outcome"),
        (None, "returned NoneType, and not a list of Outcome"),
        ([ONE, Outcome(EXAMPLES[1], float("nan"))], "returned nan for example q2"),
        ([ONE, Outcome(EXAMPLES[1], float("inf"))], "returned inf for example q2"),
        ([Outcome(EXAMPLES[0], None), TWO], "returned None for example q1"),
        ([Outcome(EXAMPLES[0], "high"), TWO], "returned 'high' for example q1"),
    ],
)
def test_anything_else_is_an_error_that_names_the_score(loop, given, message):
    with pytest.raises(CallableError) as caught:
        _scoring(loop, _giving(given))
    assert str(caught.value).startswith(f"score 'house' {message}.\n")


def test_a_score_is_async(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError, match="score 'house' is not async: it returned list"):
        _scoring(loop, lambda *_: [ONE, TWO])


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        # Unscored too: no single reason applies to all examples.
        *(
            (error, CallableError, rf"score 'house' raised: {type(error).__name__}: ")
            for error in (KeyError("x"), Unscored("x"), CancelledError("x"), GeneratorExit("x"))
        ),
        (InputError("no model"), InputError, "no model"),
    ],
)
def test_an_exception_of_a_score_is_reported_unless_it_is_an_error_of_the_package(
    loop, error, raised, message
):
    async def evaluate(*_: object) -> None:
        raise error

    with pytest.raises(raised, match=message):
        _scoring(loop, evaluate)


def test_a_value_beyond_the_stated_scale_is_an_error(loop: BackgroundEventLoop) -> None:
    score = PluginScore("house", _giving([ONE, Outcome(EXAMPLES[1], 5)]), scale=(0, 5))
    assert [
        outcome.value for outcome in loop.run(score(None, EXAMPLES, ResolvedScore(Spec("house", k=1), 1)))
    ] == [0.5, 5.0]
    beyond = PluginScore("house", _giving([ONE, Outcome(EXAMPLES[1], 5.5)]), scale=(0, 5))
    with pytest.raises(
        CallableError, match=r"returned 5\.5 for example q2(.|\n)*a finite value from 0 to 5, or with None"
    ):
        loop.run(beyond(None, EXAMPLES, ResolvedScore(Spec("house", k=1), 1)))
