"""The user's judge: an object whose methods are sync or async, with checks of what they return."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Any, Final, cast

from pytest_rageval.answers.judge_protocol import HIGHEST, LOWEST, Judge, Rating
from pytest_rageval.errors import CallableError, Unscored
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.user_code import Unusable, UserCallable, as_number, as_share, is_ours

__all__ = ["UserJudge", "adapt_judge"]

PAIR: Final = 2
"""A grade and its explanation."""


class UserJudge:
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
        """See `pytest_rageval.answers.judge_protocol.Comparator`.

        Raises:
            QueryError: the method raised, or returned something else.
        """
        return cast("float", await self.user.call(question, list(references), prediction))

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            CallableError: the method is missing.
            QueryError: it raised, or returned something else.
        """
        if self._grade is None:
            raise _lacking(
                'grade(question, references, prediction), which the comparator "graded" needs',
                "a number between 0 and 1",
            )
        return cast("float", await self._grade.call(question, list(references), prediction))

    async def relevant(self, question: str, passage: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            CallableError: the method is missing.
            QueryError: it raised, or returned something else.
        """
        if self._relevant is None:
            raise _lacking("relevant(question, passage), which the scores relevance.* need", "True or False")
        return cast("float", await self._relevant.call(question, passage))

    async def prefer(self, question: str, first: str, second: str) -> int:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            CallableError: the method is missing.
            QueryError: it raised, or returned something else.
        """
        if self._prefer is None:
            raise _lacking(
                "prefer(question, first, second), which the scores arena.* need",
                "1 or 2 for the better answer, 0 for neither",
            )
        return cast("int", await self._prefer.call(question, first, second))

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """See `pytest_rageval.answers.judge_protocol.Judge`.

        Raises:
            CallableError: the method is missing.
            QueryError: it raised, or returned something else.
        """
        if self._rate is None:
            raise _lacking(
                "rate(criterion, question, rated, against), which the scores judged.* need",
                "a grade from 1 to 5, and why",
            )
        return cast("Rating", await self._rate.call(criterion, question, list(rated), list(against)))

    def again(self, n: int) -> "UserJudge":  # noqa: ARG002 - it is simply called again
        """See `pytest_rageval.answers.judge_protocol.Judge`."""
        return self

    def identity(self, method: str) -> Mapping[str, Any]:
        """See `pytest_rageval.answers.judge_protocol.Judge`: the method's name; what it says is up to the user."""
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


def _verdict(verdict: object, allowed: str) -> float:
    """What a judge returned, as a number in [0, 1]."""
    if verdict is None:
        raise Unscored(NO_VERDICT)
    score = as_share(verdict)
    if score is None:
        raise _unusable(verdict, allowed)
    return score


def _preference(preference: object) -> int:
    """What a judge of two answers returned, as 1, 2 or 0."""
    if preference is None:
        raise Unscored(NO_VERDICT)
    # True is equal to 1, but nobody can say what is meant by it.
    if (
        isinstance(preference, bool)
        or not hasattr(preference, "__index__")
        or index(preference) not in {0, 1, 2}
    ):
        raise _unusable(
            preference, "Return 1 or 2 for the better answer, 0 for neither, or None for no verdict."
        )
    return index(preference)


def _rating(given: object) -> Rating:
    """What a judge returned, as a rating."""
    if given is None:
        raise Unscored("the judge gave no rating")
    grade, explanation = given if isinstance(given, tuple | list) and len(given) == PAIR else (given, "")
    # True is a number, but no grade: it would be the worst.
    score = None if isinstance(grade, bool) else as_number(grade)
    if score is None or not LOWEST <= score <= HIGHEST or not isinstance(explanation, str):
        raise _unusable(
            given,
            f"Return a grade from {LOWEST} to {HIGHEST}, or (grade, explanation), or None for no rating.",
        )
    return Rating(score, explanation)


def _unusable(given: object, allowed: str) -> Unusable:
    shown = repr(given)
    return Unusable(f"returned {shown:.60}", f"returned {shown} for {{question}}.\n{allowed}")


def adapt_judge(judge: object, loop: PrivateLoop) -> Judge:
    """What `rageval_judge` gave, as a `Judge`; one of ours is one already.

    Raises:
        CallableError: the method `compare` is missing.
    """
    if is_ours(judge):
        return cast("Judge", judge)

    def method(name: str, read: Callable[[Any], Any], question: int = 0) -> UserCallable | None:
        found = getattr(judge, name, None)
        named = f"rageval_judge.{name}"
        return UserCallable(named, found, loop, question, read=read) if callable(found) else None

    yes_or_number = partial(_verdict, allowed=YES_OR_NUMBER)
    compare = method("compare", yes_or_number)
    if compare is None:
        raise CallableError(
            f"rageval_judge is {type(judge).__name__}, which lacks the method "
            "compare(question, references, prediction).\n"
            "Add it (sync or async; True, False, a number between 0 and 1, or None), "
            "or leave the fixture out for the default judge."
        )
    return UserJudge(
        compare,
        method("grade", partial(_verdict, allowed=SHARE)),
        method("relevant", yes_or_number),
        method("prefer", _preference),
        method("rate", _rating, 1),
    )
