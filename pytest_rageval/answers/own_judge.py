"""The user's judge: an object whose methods are sync or async, and what they may return."""

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, Final, cast

from pytest_rageval.answers.compare import Judge
from pytest_rageval.answers.rating import HIGHEST, LOWEST, Rating
from pytest_rageval.errors import CallableError, Unscored
from pytest_rageval.given import as_number, as_share
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.usercode import UserCallable, is_ours

__all__ = ["ObjectJudge", "adapt_judge"]

PAIR: Final = 2
"""A grade and its explanation."""


class ObjectJudge:
    """An object with `compare(question, references, prediction)`, and perhaps further methods of a judge.

    Each method is sync or async, and returns None for "no verdict":

    - `compare(question, references, prediction)`: a bool, or a number in [0, 1];
    - `grade(question, references, prediction)`: a number in [0, 1], from nothing of a reference to all of
      it. 1 is the best here, and nobody can tell it from the worst of 1 to 5: 2 … 5 are errors;
    - `relevant(question, passage)`: a bool, or a number in [0, 1];
    - `prefer(question, first, second)`: 1 or 2 for the better answer, 0 for neither;
    - `rate(criterion, question, rated, against)`: a grade in [1, 5], or (grade, explanation); no bool. What the
      arguments are, see `Judge.rate`.

    Anything else is an error that names the method, what it returned, the question and what is allowed.

    Args:
        compare: the method that every judge has, as `UserCallable` calls it.
        grade: another, or None.
        relevant: another, or None.
        prefer: another, or None.
        rate: another, or None.
    """

    def __init__(
        self,
        compare: UserCallable,
        grade: UserCallable | None = None,
        relevant: UserCallable | None = None,
        prefer: UserCallable | None = None,
        rate: UserCallable | None = None,
    ) -> None:
        self.user = compare
        self._grade = grade
        self._relevant = relevant
        self._prefer = prefer
        self._rate = rate

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.compare.Comparator`.

        Raises:
            CallableError: the method raised, or returned something else.
        """
        given = await self.user.call(question, list(references), prediction)
        return _verdict(self.user, question, given, YES_OR_NUMBER)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.compare.Judge`.

        Raises:
            CallableError: the method is missing, raised, or returned something else.
        """
        if self._grade is None:
            raise _lacking(
                'grade(question, references, prediction), which the comparator "graded" needs',
                "a number between 0 and 1",
            )
        given = await self._grade.call(question, list(references), prediction)
        return _verdict(self._grade, question, given, SHARE)

    async def relevant(self, question: str, passage: str) -> float:
        """See `pytest_rageval.answers.compare.Judge`.

        Raises:
            CallableError: the method is missing, raised, or returned something else.
        """
        if self._relevant is None:
            raise _lacking("relevant(question, passage), which the scores relevance.* need", "True or False")
        given = await self._relevant.call(question, passage)
        return _verdict(self._relevant, question, given, YES_OR_NUMBER)

    async def prefer(self, question: str, first: str, second: str) -> int:
        """See `pytest_rageval.answers.compare.Judge`.

        Raises:
            CallableError: the method is missing, raised, or returned something else.
        """
        if self._prefer is None:
            raise _lacking(
                "prefer(question, first, second), which the scores arena.* need",
                "1 or 2 for the better answer, 0 for neither",
            )
        return _preference(self._prefer, question, await self._prefer.call(question, first, second))

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """See `pytest_rageval.answers.compare.Judge`.

        Raises:
            CallableError: the method is missing, raised, or returned something else.
        """
        if self._rate is None:
            raise _lacking(
                "rate(criterion, question, rated, against), which the scores judged.* need",
                "a grade from 1 to 5, and why",
            )
        given = await self._rate.call(criterion, question, list(rated), list(against))
        return _rating(self._rate, question, given)

    def again(self, n: int) -> "ObjectJudge":  # noqa: ARG002 - it is simply called again
        """See `pytest_rageval.answers.compare.Judge`."""
        return self

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.answers.compare.Judge`: the method's name; what it says is up to the user."""
        methods = {
            "compare": self.user,
            "grade": self._grade,
            "relevant": self._relevant,
            "prefer": self._prefer,
            "rate": self._rate,
        }
        asked = methods[method.partition(" ")[0]]
        return {"": "none" if asked is None else asked.identity}


NO_VERDICT: Final = "the judge gave no verdict"

YES_OR_NUMBER: Final = "Return True or False, a number between 0 and 1, or None for no verdict."
SHARE: Final = (
    "Return a number between 0 (nothing of a reference) and 1 (all of it), or None for no verdict. "
    f"A grade from {LOWEST} to {HIGHEST} is (grade - {LOWEST}) / {HIGHEST - LOWEST} of it."
)


def _lacking(method: str, returns: str) -> CallableError:
    return CallableError(
        f"rageval_judge lacks the method {method}.\n"
        f"Add it (sync or async; {returns}), or leave the fixture out and name a model with "
        "--rageval-judge-model."
    )


def _verdict(asked: UserCallable, question: str, verdict: object, allowed: str) -> float:
    """What a judge returned, as a number in [0, 1]."""
    if verdict is None:
        raise Unscored(NO_VERDICT)
    score = as_share(verdict)
    if score is None:
        raise asked.fail(f"returned {verdict!r} for {question!r}.\n{allowed}")
    return score


def _preference(asked: UserCallable, question: str, preference: object) -> int:
    """What a judge of two answers returned, as 1, 2 or 0."""
    if preference is None:
        raise Unscored(NO_VERDICT)
    # True is equal to 1, but nobody can say what is meant by it.
    if (
        isinstance(preference, bool)
        or not hasattr(preference, "__index__")
        or index(preference) not in {0, 1, 2}
    ):
        message = (
            f"returned {preference!r} for {question!r}.\n"
            "Return 1 or 2 for the better answer, 0 for neither, or None for no verdict."
        )
        raise asked.fail(message)
    return index(preference)


def _rating(asked: UserCallable, question: str, given: object) -> Rating:
    """What a judge returned, as a rating."""
    if given is None:
        reason = "the judge gave no rating"
        raise Unscored(reason)
    grade, explanation = given if isinstance(given, tuple | list) and len(given) == PAIR else (given, "")
    # True is a number, but no grade: it would be the worst.
    score = None if isinstance(grade, bool) else as_number(grade)
    if score is None or not LOWEST <= score <= HIGHEST or not isinstance(explanation, str):
        message = (
            f"returned {given!r} for {question!r}.\n"
            f"Return a grade from {LOWEST} to {HIGHEST}, or (grade, explanation), or None for no rating."
        )
        raise asked.fail(message)
    return Rating(score, explanation)


def adapt_judge(judge: object, loop: PrivateLoop) -> Judge:
    """What `rageval_judge` gave, as a `Judge`; one of ours is one already.

    Raises:
        CallableError: the method `compare` is missing.
    """
    if is_ours(judge):
        return cast("Judge", judge)

    def method(name: str, question: int = 0) -> UserCallable | None:
        found = getattr(judge, name, None)
        return UserCallable(f"rageval_judge.{name}", found, loop, question) if callable(found) else None

    compare = method("compare")
    if compare is None:
        message = (
            f"rageval_judge is {type(judge).__name__}, which lacks the method "
            "compare(question, references, prediction).\n"
            "Add it (sync or async; True, False, a number between 0 and 1, or None), "
            "or leave the fixture out for the default judge."
        )
        raise CallableError(message)
    return ObjectJudge(compare, method("grade"), method("relevant"), method("prefer"), method("rate", 1))
