"""The interfaces of comparators and judges, their results, and the tally of a judge's votes.

A verdict does not contain its votes. `record_tally` records the tally of a verdict while a result is computed, and
`collect_tallies` returns a result with the sum of the tallies that were recorded for it.
"""

from collections.abc import Awaitable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pytest_rageval.stats.agreement import Tally

T = TypeVar("T")

NO_VOTES: Final = Tally()

MIN_GRADE: Final = 1
MAX_GRADE: Final = 5

PARTIAL_SUPPORT: Final = 0.5
"""The label of a nugget that a text supports in part."""


class Rating(NamedTuple):
    """A judge's rating.

    Attributes:
        grade: the grade, from 1 (worst) to 5 (best).
        explanation: the reasons in a sentence or two; empty if the judge returns none.
    """

    grade: float
    explanation: str = ""


class JudgeVerdict(NamedTuple):
    """A judge's verdict with its reasons.

    Attributes:
        value: 1.0 for yes, 0.0 for no; a user's judge may also return another number in [0, 1].
        explanation: the reasons; empty if the judge returns none.
    """

    value: float
    explanation: str = ""


class Preference(NamedTuple):
    """A judge's preference between two answers.

    Attributes:
        better: 1 for the first answer, 2 for the second, 0 for neither.
        explanation: the reasons, which call the two "answer 1" and "answer 2"; empty if the judge returns none.
    """

    better: int
    explanation: str = ""


class Comparator(Protocol):
    """Compares an answer with its references."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 if the prediction states what at least one reference states, otherwise 0.0.

        Args:
            question: the question that the texts answer.
            references: one or more reference answers.
            prediction: the answer to check.

        Returns:
            A number in [0, 1]; a comparator that grades also returns numbers between 0 and 1.

        Raises:
            Unscored: the comparator has no verdict on this prediction.
        """


class Judge(Comparator, Protocol):
    """A comparator that also grades, rates and prefers answers, and labels passages and nuggets.

    Each method raises Unscored if the judge has no verdict, and CallableError if it does not support the method.
    """

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return the share of one reference that the prediction states, from 0.0 (nothing) to 1.0 (all)."""

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 if the passage helps to answer the question, otherwise 0.0."""

    async def sufficient(self, question: str, passages: Sequence[str]) -> JudgeVerdict:
        """Return 1.0 if the passages together are enough to answer the question, otherwise 0.0; with the reasons.

        Passages are in the order of the ranking, best first.
        """

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Return which of two long answers is better: 1 the first, 2 the second, 0 neither; with the reasons."""

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Return a grade from 1 (worst) to 5 (best) with an explanation.

        Args:
            criterion: "correctness", "faithfulness" or "context_quality".
            question: the question.
            rated: the answer as the only item; for context quality, the retrieved passages, best first.
            against: the reference answers; for faithfulness, the retrieved passages; for context quality, the gold
                passages.
        """

    @property
    def model_names(self) -> AbstractSet[str]:
        """The names of the models that the judge uses; of a user's judge, the models that it has called so far."""

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        """Return how far a passage or an answer supports each nugget, in the order of the nuggets.

        1.0 means entirely, 0.5 in part, and 0.0 not at all or contradicted.
        """

    def repetition(self, n: int) -> "Judge":
        """Return this judge for the n-th repetition, n ≥ 1, with new replies."""

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the facts that a method's verdicts depend on, by name; the judge itself has the empty name."""

    def template(self, method: str) -> str:
        """Return the template of a method's prompt, with placeholders in braces; empty if there is no prompt."""


_TALLIES: ContextVar[dict[Hashable, Tally] | None] = ContextVar("_TALLIES", default=None)
"""The tallies that were recorded for the result that is being computed, by the subject of the verdict."""


async def collect_tallies(work: Awaitable[T]) -> tuple[T, Tally]:
    """Await a computation; return its result and the sum of the tallies recorded in it, one for each subject."""
    tallies: dict[Hashable, Tally] = {}
    token = _TALLIES.set(tallies)
    try:
        result = await work
    finally:
        _TALLIES.reset(token)
    return result, sum(tallies.values(), NO_VOTES) if tallies else NO_VOTES


def record_tally(subject: Hashable, tally: Tally) -> None:
    """Record the tally of a verdict for the result that is being computed; `subject` identifies the verdict."""
    tallies = _TALLIES.get()
    if tallies is not None and tally.verdicts:
        tallies[subject] = tally
