"""The user's own judge: the fixture rageval_judge."""

import math
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_rageval.answers.comparators import GradedComparator
from pytest_rageval.answers.judge import JudgeTask, Verdict
from pytest_rageval.answers.judge.tasks import COMPARE, GRADE
from pytest_rageval.answers.judge.user_judge import adapt_judge
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, Unscored
from pytest_rageval.scores.arena import PREFER
from pytest_rageval.scores.judged import RATE
from pytest_rageval.scores.nuggets import SUPPORT
from pytest_rageval.scores.relevance import RELEVANT
from pytest_rageval.scores.sufficiency import ENOUGH

QUESTION = "How far?"
TASKS: dict[str, tuple[JudgeTask[Any], *tuple[Any, ...]]] = {
    "compare": (COMPARE, ("5 km", "5000 m"), "five kilometres"),
    "grade": (GRADE, ("5 km",), "five"),
    "sufficient": (ENOUGH, ("5 km",)),
    "prefer": (PREFER, "5 km", "6 km"),
    "rate": (RATE["correctness"], ("five",), ("5 km",)),
    "support": (SUPPORT, ("5 km", "by bus"), "It is 5 km."),
    "relevant": (RELEVANT, "It is 5 km."),
}
"""The tasks, each with texts to judge, by the judge's method."""


def _ask(loop: BackgroundEventLoop, name: str, method: Any) -> Any:
    task, *texts = TASKS[name]
    judge = adapt_judge(SimpleNamespace(**{"compare": print, name: method}), loop)
    return loop.run(judge.ask(task, QUESTION, *texts))


def _compare(loop: BackgroundEventLoop, method: Any) -> float:
    return _ask(loop, "compare", method)


@pytest.mark.parametrize(
    ("name", "returned", "verdict"),
    [
        ("compare", True, 1.0),
        ("compare", False, 0.0),
        ("compare", 1, 1.0),
        ("compare", 0, 0.0),
        ("compare", 0.25, 0.25),
        ("grade", 0.25, 0.25),
        ("sufficient", False, (0.0, "")),
        ("sufficient", (True, "All is there."), (1.0, "All is there.")),
        ("sufficient", [0.5, "Half."], (0.5, "Half.")),
        ("prefer", 0, (0, "")),
        ("prefer", 1, (1, "")),
        ("prefer", np.int64(2), (2, "")),
        ("prefer", (2, "It is 6 km."), (2, "It is 6 km.")),
        ("rate", (4, "The year is missing."), (4.0, "The year is missing.")),
        ("rate", [1, ""], (1.0, "")),
        ("rate", Verdict(3.5, "Between."), (3.5, "Between.")),
        ("rate", 5, (5.0, "")),
        ("support", ["support", "not_support"], (1.0, 0.0)),
        ("support", ("support", "partial_support"), (1.0, 0.5)),
        ("support", [True, False], (1.0, 0.0)),
        ("support", [1, 0.0], (1.0, 0.0)),
        ("relevant", 0.5, 0.5),
    ],
)
def test_what_a_method_may_return(loop: BackgroundEventLoop, name: str, returned: Any, verdict: Any) -> None:
    """Several texts are handed over as a list. A method that is not async is called in the test's thread."""
    seen: list[object] = []
    threads: list[int] = []

    def method(*arguments: object) -> object:
        seen.append([*arguments])
        threads.append(threading.get_ident())
        return returned

    async def coroutine(*arguments: object) -> object:
        return method(*arguments)

    for function in (method, coroutine):
        given = _ask(loop, name, function)
        assert given == verdict
        number = given.value if isinstance(given, Verdict) else given
        assert type(number) is {"prefer": int, "support": tuple}.get(name, float)
    task, *texts = TASKS[name]
    texts = [text if isinstance(text, str) else list(text) for text in texts]
    assert seen == [[*task.criterion, QUESTION, *texts]] * 2
    assert threads[0] == threading.get_ident()


@pytest.mark.parametrize(
    ("name", "returned", "reason"),
    [
        ("compare", None, "the judge gave no verdict"),
        ("prefer", None, "the judge gave no verdict"),
        ("rate", None, "the judge gave no rating"),
        ("support", None, "the judge gave no labels"),
        ("support", [1], "gave 1 label for 2 nuggets"),
    ],
)
def test_none_means_no_verdict(loop: BackgroundEventLoop, name: str, returned: object, reason: str) -> None:
    with pytest.raises(Unscored, match=reason):
        _ask(loop, name, lambda *_: returned)


INVALID: dict[str, tuple[list[Any], str]] = {
    "compare": (
        ["yes", 1.5, -0.1, math.nan, [True]],
        "Return True or False, a number between 0 and 1, or None",
    ),
    "grade": (
        [2, 3, 4, 5, -0.25, 1.01],
        (
            "Return a number between 0 (nothing of a reference) and 1 (all of it), or None for no verdict. "
            "A grade from 1 to 5 is (grade - 1) / 4 of it."
        ),
    ),
    "sufficient": (
        ["yes", (True, 1), (2, "why"), ("why", True), (True, "why", "more")],
        "Return True or False, a number between 0 and 1, (one of these, explanation), or None",
    ),
    "prefer": (
        [3, -1, True, False, 1.0, "1", [1]],
        "Return 1 or 2 for the better answer, 0 for neither, (one of these, explanation), or None for no verdict.",
    ),
    "rate": (
        [0, 0.5, 5.5, "5", True, (True, "why"), (4, 4), (4, "why", "more"), math.nan, [None, "why"]],
        "Return a grade from 1 to 5, or (grade, explanation), or None",
    ),
    "support": (
        ["support", ["support", "yes"], [1, 0.3], [None, 1], {"5 km": "support"}, 1.0],
        "Return a list with one of support, partial_support, not_support",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "returned", "advice"),
    [(name, value, advice) for name, (values, advice) in INVALID.items() for value in values],
)
def test_anything_else_is_an_error(loop: BackgroundEventLoop, name: str, returned: Any, advice: str) -> None:
    with pytest.raises(CallableError) as caught:
        _ask(loop, name, lambda *_: returned)
    found = f"rageval_judge.{name} returned {returned!r} for 'How far?'.\n"
    assert str(caught.value).startswith(found + advice)


MISSING = {
    "grade": 'grade(question, references, prediction), which the comparator "graded" needs.\n'
    "Add it (sync or async; a number between 0 and 1), or leave the fixture out and name a model with "
    "--rageval-judge-model.",
    "prefer": "prefer(question, first, second), which the scores arena.* need.\n"
    "Add it (sync or async; 1 or 2 for the better answer, 0 for neither, and perhaps why), or leave the fixture "
    "out and name a model with --rageval-judge-model.",
    "rate": "rate(criterion, question, rated, against), which the scores judged.* need.\n"
    "Add it (sync or async; a grade from 1 to 5, and why)",
    "support": "support(question, nuggets, passage), which the scores nuggets.* and answer.nuggets need.\n",
    "relevant": "relevant(question, passage)",
}


@pytest.mark.parametrize("name", MISSING)
def test_a_judge_without_a_method_is_an_error_that_names_it(loop: BackgroundEventLoop, name: str) -> None:
    with pytest.raises(CallableError) as caught:
        _ask(loop, name, None)
    assert str(caught.value).startswith(f"rageval_judge lacks the method {MISSING[name]}")
    assert adapt_judge(SimpleNamespace(compare=print), loop).identity(TASKS[name][0]) == {"": "none"}


def test_an_exception_of_the_judge_is_reported_with_the_question(loop: BackgroundEventLoop) -> None:
    def judge(*_: object) -> bool:
        raise LookupError("no model")

    with pytest.raises(CallableError, match=r"rageval_judge\.compare raised for 'How far\?': LookupError"):
        _compare(loop, judge)


@pytest.mark.parametrize("error", [Unscored("too long"), InputError("no key")])
def test_our_own_errors_pass(loop: BackgroundEventLoop, error: Exception) -> None:
    """Unscored and InputError of a judge are raised unchanged: a judge may say that there is no verdict."""

    async def judge(*_: object) -> bool:
        raise error

    with pytest.raises(type(error)) as caught:
        _compare(loop, judge)
    assert caught.value is error


class _Object:
    def compare(self, question: str, references: list[str], prediction: str) -> bool:
        return (question, references, prediction) == ("How far?", ["5 km"], "five kilometres")


class _Called:
    async def __call__(self, *arguments: object) -> bool:
        return arguments == ("How far?", ["5 km"], "five kilometres")


async def _function(question: str, references: list[str], prediction: str) -> bool:
    return _Object().compare(question, references, prediction)


@pytest.mark.parametrize("judge", [_function, _Object().compare, _Called()])
def test_a_function_compares(loop: BackgroundEventLoop, judge: Any) -> None:
    adapted = adapt_judge(judge, loop)
    assert loop.run(adapted.compare("How far?", ("5 km",), "five kilometres")) == 1.0
    assert adapted.identity(COMPARE)[""].startswith(f"{__name__}.")
    with pytest.raises(CallableError, match="rageval_judge lacks the method prefer"):
        loop.run(adapted.ask(PREFER, "How far?", "5 km", "6 km"))


@pytest.mark.parametrize(
    "judge", [lambda _q, _p: True, lambda: True, SimpleNamespace(compare=lambda _q: True), _Object]
)
def test_other_arguments_are_an_error_that_shows_them(loop: BackgroundEventLoop, judge: Any) -> None:
    """A judge with a wrong signature is an error before the first call."""
    with pytest.raises(CallableError) as caught:
        adapt_judge(judge, loop)
    assert "is called with three arguments: compare(question, references, prediction).\n" in str(caught.value)
    last = "Return _Object(), not the class." if judge is _Object else "Give it these parameters."
    assert str(caught.value).splitlines()[1] == last


def test_an_exception_of_a_function_is_reported_with_the_fixture(loop: BackgroundEventLoop) -> None:
    def judge(_question: str, _references: list[str], _prediction: str) -> bool:
        raise LookupError("no model")

    with pytest.raises(CallableError, match=r"rageval_judge raised for 'How far\?': LookupError"):
        loop.run(adapt_judge(judge, loop).compare("How far?", ["5 km"], "five"))


@pytest.mark.parametrize("judge", [None, object(), SimpleNamespace(compare="yes")])
def test_a_missing_method_is_named(loop: BackgroundEventLoop, judge: object) -> None:
    with pytest.raises(CallableError, match=r"lacks the method compare\(question, references, prediction\)"):
        adapt_judge(judge, loop)


def test_a_judge_that_grades_is_a_comparator(loop: BackgroundEventLoop) -> None:
    """The comparator "graded" calls `grade`, sync or async, and checks its return value like a verdict."""

    async def grade(_question: str, references: list[str], prediction: str) -> float:
        return 0.25 if references == ["5 km"] and prediction == "five" else 1.5

    judge = adapt_judge(SimpleNamespace(compare=print, grade=grade), loop)
    comparator = GradedComparator(judge)
    assert loop.run(comparator.compare("How far?", ("5 km",), "five")) == 0.25
    with pytest.raises(CallableError, match=r"returned 1\.5 for 'How far\?'"):
        loop.run(comparator.compare("How far?", ("5 km",), "six"))
