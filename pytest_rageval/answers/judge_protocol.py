"""The interfaces of comparators and judges, `Rating`, and the tally of a judge's votes.

Verdicts are plain numbers, so tallies are passed separately: `with_tally` collects the votes of what it awaits, and
`add_tally` adds those of a part that was computed for another result.
"""

from collections.abc import Awaitable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pytest_rageval.stats.agreement import Tally

__all__ = [
    "HIGHEST",
    "LOWEST",
    "PART",
    "Comparator",
    "Judge",
    "Preference",
    "Rating",
    "Verdict",
    "add_tally",
    "with_tally",
]

T = TypeVar("T")

NO_VOTES: Final = Tally()

LOWEST: Final = 1
HIGHEST: Final = 5

PART: Final = 0.5
"""The label of a nugget of which a text supports a part."""


class Rating(NamedTuple):
    """A judge's rating.

    Attributes:
        grade: from 1, the worst, to 5.
        explanation: a sentence or two; empty where the judge gives none.
    """

    grade: float
    explanation: str = ""


class Verdict(NamedTuple):
    """A judge's verdict with its reasons.

    Attributes:
        value: 1.0 for yes, 0.0 for no; another number in [0, 1] where the user's judge grades.
        explanation: empty where the judge gives none.
    """

    value: float
    explanation: str = ""


class Preference(NamedTuple):
    """A judge's preference between two answers.

    Attributes:
        better: 1 for the first answer, 2 for the second, 0 for neither.
        explanation: in which the two are answer 1 and answer 2; empty where the judge gives none.
    """

    better: int
    explanation: str = ""


class Comparator(Protocol):
    """Compares two answers."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 where the prediction says what at least one reference says, 0.0 where not.

        Args:
            question: that all of them answer.
            references: one or more.
            prediction: the answer to check.

        Returns:
            A number in [0, 1]; other than 0 and 1 where the comparator grades.

        Raises:
            Unscored: there is no verdict on this prediction.
        """


class Judge(Comparator, Protocol):
    """A comparator that also grades, rates and prefers answers, and labels passages and nuggets.

    Each method raises Unscored where there is no verdict, and CallableError where the judge does not support it.
    """

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return how much of what one of the references says is in the prediction: none 0.0, all 1.0."""

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 where the passage helps to answer the question, 0.0 where not."""

    async def sufficient(self, question: str, passages: Sequence[str]) -> Verdict:
        """Return 1.0 where the passages together, best first, are enough to answer the question, 0.0 where not.

        With the reasons.
        """

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Return which of two long answers is better: 1 the first, 2 the second, 0 neither; with the reasons."""

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Return a grade in [1, 5], from the worst to the best, with an explanation.

        Args:
            criterion: "correctness", "faithfulness" or "context_quality".
            question: that was asked.
            rated: the answer as the only item; for context quality the retrieved passages, best first.
            against: the references; for faithfulness the retrieved, for context quality the gold passages.
        """

    @property
    def model_names(self) -> AbstractSet[str]:
        """The models that give its verdicts; for the user's own judge, those that it has asked so far."""

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        """Return for each nugget, in their order, how much of it a passage or an answer supports.

        1.0 is all of it, 0.5 a part, and 0.0 nothing, or a contradiction.
        """

    def repetition(self, n: int) -> "Judge":
        """Return this judge for the n-th repetition, n ≥ 1, with new replies."""

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return what a method's verdicts depend on, by name; the judge itself is under the empty name."""

    def template(self, method: str) -> str:
        """Return the template of a method's prompt, with placeholders in braces; empty where there is none."""


_COLLECTED: ContextVar[dict[Hashable, Tally] | None] = ContextVar("_COLLECTED", default=None)
"""The votes behind what is being computed, by verdict."""


async def with_tally(work: Awaitable[T]) -> tuple[T, Tally]:
    """Await some work; return its result and the votes behind it. Each verdict counts once."""
    collected: dict[Hashable, Tally] = {}
    outer = _COLLECTED.set(collected)
    try:
        result = await work
    finally:
        _COLLECTED.reset(outer)
    return result, sum(collected.values(), NO_VOTES) if collected else NO_VOTES


def add_tally(about: Hashable, tally: Tally) -> None:
    """Count votes for the result that is being computed, once for each `about`."""
    collected = _COLLECTED.get()
    if collected is not None and tally.verdicts:
        collected[about] = tally
