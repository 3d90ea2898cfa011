"""The user's judge: a function, or an object with methods, sync or async, with checks of their results."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pytest_rageval.answers.judge import Judge, JudgeTask, Text
from pytest_rageval.answers.judge.tasks import COMPARE
from pytest_rageval.calls import identity_of
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import UserCallable
from pytest_rageval.core.errors import CallableError, Unscored
from pytest_rageval.lib.foreign_values import accepts_arguments, format_signature, has_parameter

V = TypeVar("V")


def adapt_judge(judge: object, loop: BackgroundEventLoop) -> Judge:
    """Return the object from the fixture `rageval_judge` as a `Judge`; a function becomes the method `compare`."""
    adapted = UserJudge(judge, loop)
    if adapted.user is None:
        raise CallableError(
            f"rageval_judge is {type(judge).__name__}, which is not a function, "
            f"and lacks the method {COMPARE.call}.\n"
            "Return such a function, or an object with it as a method, from the fixture (sync or async; True, False, "
            "a number between 0 and 1, or None), or leave the fixture out for the default judge."
        )
    compare: Any = getattr(judge, "compare", judge)
    history: dict[str, object] = {"history": []} if has_parameter(compare, "history") else {}
    if not accepts_arguments(compare, "question", [], "prediction", **history):
        remedy = "Give it these parameters."
        if isinstance(judge, type):
            remedy = f"Return {judge.__name__}(), not the class."
        raise CallableError(
            f"{adapted.user.name} is {format_signature(compare)}, and is called with three arguments: {COMPARE.call}.\n"
            f"{remedy}"
        )
    return adapted


class UserJudge:
    """A judge that calls the user's methods; `compare` is required, and the others are optional.

    Each method is sync or async and takes the arguments of `Judge`. If it has a parameter `history`, it also gets
    the messages before the question. It returns None for "no verdict", otherwise

    - `compare` and `relevant`: a bool, or a number in [0, 1];
    - `sufficient`: the same, or (verdict, explanation);
    - `grade`: a number in [0, 1], from nothing of a reference to all of it. Numbers from 2 to 5 are errors, because a 1
      could then be the best or the worst grade;
    - `prefer`: 1 or 2 for the better answer, 0 for neither, or (preference, explanation);
    - `rate`: a grade in [1, 5], or (grade, explanation), but no bool;
    - `support`: a list of "support", "partial_support" or "not_support", one for each nugget; or of 1, 0.5 and 0.

    Any other result raises a QueryError with the method, the result, the question and the allowed results. So does an
    exception of the method. A missing method raises a CallableError when it is needed.
    """

    def __init__(self, judge: object, loop: BackgroundEventLoop) -> None:
        self._judge = judge
        self._loop = loop
        self._methods: dict[str, UserCallable | None] = {}
        self.user: UserCallable | None = self._method(COMPARE)

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        return await self.ask(COMPARE, question, references, prediction)

    async def ask(self, task: JudgeTask[V], question: str, *texts: Text) -> V:
        method = self.require(task)
        lists = (text if isinstance(text, str) else list(text) for text in texts)
        verdict: V = await method.call(*task.criterion, question, *lists)
        if problem := task.problem(verdict, *texts):
            raise Unscored(f"rageval_judge.{task.method} gave {problem}")
        return verdict

    def require(self, task: JudgeTask[Any]) -> UserCallable:
        method = self._method(task)
        if method is None:
            raise CallableError(
                f"rageval_judge lacks the method {task.call}.\n"
                f"Add it (sync or async; {task.returns}), or leave the fixture out and name a model with "
                "--rageval-judge-model."
            )
        return method

    def _method(self, task: JudgeTask[Any]) -> UserCallable | None:
        name = task.method
        if name not in self._methods:
            function, label = getattr(self._judge, name, None), f"rageval_judge.{name}"
            if task is COMPARE and not callable(function) and callable(self._judge):
                function, label = self._judge, "rageval_judge"
            self._methods[name] = None
            if callable(function):
                method = UserCallable(label, function, self._loop, len(task.criterion), read=task.read)
                self._methods[name] = method
        return self._methods[name]

    @property
    def model_names(self) -> frozenset[str]:
        """The names of the models that the judge has called so far through this package."""
        methods = filter(None, self._methods.values())
        return frozenset[str]().union(*(method.completion_counts for method in methods))

    def repetition(self, n: int) -> "UserJudge":  # noqa: ARG002 - a repeated call needs no other judge
        return self

    def identity(self, task: JudgeTask[Any]) -> Mapping[str, object]:
        """Return the identity of the user's method; its verdicts depend on nothing else that is known."""
        method = self._method(task)
        return {"": "none" if method is None else identity_of(method.function)}

    def template(self, task: JudgeTask[Any]) -> str:  # noqa: ARG002 - the same for all tasks
        return ""
