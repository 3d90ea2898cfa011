"""Whether an answer says what one of several references says: by rules, or by the user's judge."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_rageval.errors import CallableError, RagevalError, Unscored
from pytest_rageval.loop import PrivateLoop

__all__ = ["CanonicalComparator", "Comparator", "ObjectComparator", "adapt_judge"]


class Comparator(Protocol):
    """What the evaluations ask whether two answers are the same."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """1.0 where the prediction says what at least one reference says, 0.0 where not.

        Args:
            question: that all of them answer.
            references: one or more.
            prediction: the answer to check.

        Returns:
            A number in [0, 1]; between the ends where the comparator grades.

        Raises:
            Unscored: no verdict could be had on this one.
        """


@dataclass(frozen=True, slots=True)
class CanonicalComparator:
    """Compares in canonical form: numbers, units, dates and names by rule, without a model."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Comparator`."""
        from pytest_rageval.answers.canonical import states  # noqa: PLC0415 - many rules to compile

        return float(any(states(prediction, reference, question=question) for reference in references))


@dataclass(frozen=True, slots=True)
class ObjectComparator:
    """Any object with a method `compare(question, references, prediction)`, sync or async.

    The method returns a bool, or a number in [0, 1], or None for "no verdict".
    """

    judge: Any
    loop: PrivateLoop

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Comparator`.

        Raises:
            CallableError: the method raised, or returned something else.
        """
        method, arguments = self.judge.compare, (question, list(references), prediction)
        try:
            verdict = (
                method(*arguments)
                if inspect.iscoroutinefunction(method)
                else await self.loop.call(method, *arguments)
            )
            if inspect.isawaitable(verdict):
                verdict = await verdict
        except (RagevalError, Unscored):
            raise
        except Exception as error:
            message = f"rageval_judge raised for the question {question!r}"
            raise CallableError.raised(message, error) from error
        if verdict is None:
            reason = "the judge gave no verdict"
            raise Unscored(reason)
        if not isinstance(verdict, bool | int | float) or not 0 <= verdict <= 1:
            message = (
                f"rageval_judge returned {verdict!r} for the question {question!r}.\n"
                "Return True or False, a number between 0 and 1, or None for no verdict."
            )
            raise CallableError(message)
        return float(verdict)


def adapt_judge(judge: object, loop: PrivateLoop) -> Comparator:
    """What `rageval_judge` gave, as a `Comparator`.

    Raises:
        CallableError: the method `compare` is missing.
    """
    method = getattr(judge, "compare", None)
    if not callable(method):
        message = (
            f"rageval_judge is {type(judge).__name__}, which lacks the method "
            "compare(question, references, prediction).\n"
            "Add it (sync or async; True, False, a number between 0 and 1, or None), "
            "or leave the fixture out for the default judge."
        )
        raise CallableError(message)
    return ObjectComparator(judge, loop)
