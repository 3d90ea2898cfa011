"""The user's own judge: the fixture rageval_judge."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_rageval.answers.comparators import GradedComparator
from pytest_rageval.answers.judge import Verdict
from pytest_rageval.answers.judge.tasks import COMPARE, GRADE
from pytest_rageval.answers.judge.user_judge import adapt_judge
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, Unscored
from pytest_rageval.scores.arena import PREFER
from pytest_rageval.scores.sufficiency import ENOUGH


def _compare(loop: BackgroundEventLoop, method: Any, *references: str) -> float:
    judge = adapt_judge(SimpleNamespace(compare=method), loop)
    return loop.run(judge.compare("How far?", references or ("5 km",), "five kilometres"))


@pytest.mark.parametrize(("returned", "score"), [(True, 1.0), (False, 0.0), (1, 1.0), (0, 0.0), (0.25, 0.25)])
def test_a_verdict_is_a_bool_or_a_number(loop: BackgroundEventLoop, returned: float, score: float) -> None:
    async def judge(*_: object) -> float:
        return returned

    for method in (lambda *_: returned, judge):
        verdict = _compare(loop, method)
        assert (verdict, type(verdict)) == (score, float)


def test_question_references_and_prediction_are_handed_over(loop: BackgroundEventLoop) -> None:
    seen: list[object] = []

    def judge(*arguments: object) -> bool:
        seen.extend([*arguments, threading.get_ident()])
        return True

    _compare(loop, judge, "5 km", "5000 m")
    assert seen == ["How far?", ["5 km", "5000 m"], "five kilometres", threading.get_ident()]


def test_none_means_no_verdict(loop: BackgroundEventLoop) -> None:
    with pytest.raises(Unscored, match="the judge gave no verdict"):
        _compare(loop, lambda *_: None)


@pytest.mark.parametrize("returned", ["yes", 1.5, -0.1, float("nan"), [True]])
def test_anything_else_is_an_error(loop: BackgroundEventLoop, returned: object) -> None:
    with pytest.raises(CallableError) as caught:
        _compare(loop, lambda *_: returned)
    assert f"rageval_judge.compare returned {returned!r} for 'How far?'" in str(caught.value)
    assert "Return True or False, a number between 0 and 1, or None" in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "verdict"),
    [(False, (0.0, "")), ((True, "All is there."), (1.0, "All is there.")), ([0.5, "Half."], (0.5, "Half."))],
)
def test_a_verdict_on_a_context_may_be_explained(loop, returned, verdict):
    judge = adapt_judge(SimpleNamespace(compare=print, sufficient=lambda *_: returned), loop)
    assert loop.run(judge.ask(ENOUGH, "How far?", ["5 km"])) == verdict


@pytest.mark.parametrize("returned", ["yes", (True, 1), (2, "why"), ("why", True), (True, "why", "more")])
def test_any_other_verdict_on_a_context_is_an_error(loop: BackgroundEventLoop, returned: object) -> None:
    judge = adapt_judge(SimpleNamespace(compare=print, sufficient=lambda *_: returned), loop)
    with pytest.raises(CallableError) as caught:
        loop.run(judge.ask(ENOUGH, "How far?", ["5 km"]))
    assert f"rageval_judge.sufficient returned {returned!r} for 'How far?'" in str(caught.value)
    assert "(one of these, explanation), or None" in str(caught.value)


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


@pytest.mark.parametrize("returned", [2, 3, 4, 5, -0.25, 1.01])
def test_a_grade_out_of_range_is_reported_with_the_method_and_the_range(loop, returned):
    judge = adapt_judge(SimpleNamespace(compare=print, grade=lambda *_: returned), loop)
    with pytest.raises(CallableError) as caught:
        loop.run(judge.ask(GRADE, "How far?", ["5 km"], "five"))
    assert str(caught.value) == (
        f"rageval_judge.grade returned {returned!r} for 'How far?'.\n"
        "Return a number between 0 (nothing of a reference) and 1 (all of it), or None for no verdict. "
        "A grade from 1 to 5 is (grade - 1) / 4 of it."
    )


def test_a_judge_without_grade_is_an_error_that_names_the_method(loop: BackgroundEventLoop) -> None:
    judge = adapt_judge(SimpleNamespace(compare=print), loop)
    with pytest.raises(CallableError) as caught:
        loop.run(GradedComparator(judge).compare("How far?", ("5 km",), "five"))
    assert str(caught.value) == (
        'rageval_judge lacks the method grade(question, references, prediction), which the comparator "graded" '
        "needs.\nAdd it (sync or async; a number between 0 and 1), or leave the fixture out and name a model with "
        "--rageval-judge-model."
    )


def _prefer(loop: BackgroundEventLoop, method: Any) -> Verdict:
    judge = adapt_judge(SimpleNamespace(compare=print, prefer=method), loop)
    return loop.run(judge.ask(PREFER, "How far?", "5 km", "6 km"))


@pytest.mark.parametrize("returned", [0, 1, 2, np.int64(2)])
def test_a_preference_is_a_whole_number(loop: BackgroundEventLoop, returned: int) -> None:
    """`prefer`, sync or async, gets the answers in order and returns 1 or 2 for the better one, 0 for neither."""
    seen: list[object] = []

    async def prefer(*arguments: object) -> int:
        seen.append(arguments)
        return returned

    for method in (prefer, lambda *_: returned):
        preference = _prefer(loop, method)
        assert (preference, type(preference.value)) == ((int(returned), ""), int)
    assert seen == [("How far?", "5 km", "6 km")]


def test_a_preference_may_be_explained(loop: BackgroundEventLoop) -> None:
    assert _prefer(loop, lambda *_: (2, "It is 6 km.")) == (2, "It is 6 km.")


def test_no_preference_at_all_is_unscored(loop: BackgroundEventLoop) -> None:
    with pytest.raises(Unscored, match="the judge gave no verdict"):
        _prefer(loop, lambda *_: None)


@pytest.mark.parametrize("returned", [3, -1, True, False, 1.0, "1", [1]])
def test_anything_but_1_2_or_0_is_not_a_preference(loop: BackgroundEventLoop, returned: object) -> None:
    with pytest.raises(CallableError) as caught:
        _prefer(loop, lambda *_: returned)
    assert str(caught.value) == (
        f"rageval_judge.prefer returned {returned!r} for 'How far?'.\n"
        "Return 1 or 2 for the better answer, 0 for neither, (one of these, explanation), or None for no verdict."
    )


def test_a_judge_without_prefer_is_an_error_that_names_the_method(loop: BackgroundEventLoop) -> None:
    with pytest.raises(CallableError) as caught:
        _prefer(loop, None)
    assert str(caught.value) == (
        "rageval_judge lacks the method prefer(question, first, second), which the scores arena.* need.\n"
        "Add it (sync or async; 1 or 2 for the better answer, 0 for neither, and perhaps why), or leave the fixture "
        "out and name a model with --rageval-judge-model."
    )
