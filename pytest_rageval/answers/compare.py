"""Whether an answer says what one of several references says, and what else a judge is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_rageval.answers.rating import Rating
from pytest_rageval.errors import Unscored

__all__ = ["CanonicalComparator", "Comparator", "GradedComparator", "Judge"]


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


class Judge(Comparator, Protocol):
    """A comparator that also grades, rates and prefers, and says whether a passage is relevant to a question."""

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """How much of what one of the references says is in the prediction, in [0, 1]: none 0.0, all 1.0.

        Raises:
            Unscored: no grade could be had for this one.
            CallableError: this judge does not grade.
        """

    async def relevant(self, question: str, passage: str) -> float:
        """1.0 where the passage helps to answer the question, 0.0 where not.

        Raises:
            Unscored: no verdict could be had on this one.
            CallableError: this judge cannot say.
        """

    async def prefer(self, question: str, first: str, second: str) -> int:
        """Which of two long answers is better: 1 the first, 2 the second, 0 neither.

        Raises:
            Unscored: no verdict could be had on these two.
            CallableError: this judge cannot say.
        """

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """A grade in [1, 5], from the worst to the best, and why.

        Args:
            criterion: "correctness", "faithfulness" or "context_quality".
            question: that was asked.
            rated: the answer, alone; for context quality the retrieved passages, best first.
            against: the references; for faithfulness the retrieved, for context quality the gold passages.

        Raises:
            Unscored: no rating could be had for this one.
            CallableError: this judge does not rate.
        """

    def again(self, n: int) -> "Judge":
        """This judge for the n-th further time, n ≥ 1, in which replies are not those of before."""

    def identity(self, method: str) -> Mapping[str, Any]:
        """What a method's verdicts depend on, by name; the judge itself is under the empty name."""


@dataclass(frozen=True, slots=True)
class CanonicalComparator:
    """Compares in canonical form: numbers, units, dates and names by rule, without a model."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Comparator`; nothing is said of a reference too long for the rules."""
        from pytest_rageval.answers.canonical import is_long, states  # noqa: PLC0415 - many rules to compile

        if any(states(prediction, reference, question=question) for reference in references):
            return 1.0
        if any(map(is_long, references)):
            reason = "a reference is longer than 300 words, which canonical comparison does not read"
            raise Unscored(reason)
        return 0.0


@dataclass(frozen=True, slots=True)
class GradedComparator:
    """Compares by the grade that a judge gives."""

    judge: Judge

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Comparator`."""
        return await self.judge.grade(question, references, prediction)
