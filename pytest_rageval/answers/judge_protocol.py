"""The protocols of comparators and judges, and ratings from 1 to 5 with their JSON form."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from pytest_rageval.errors import Unscored

__all__ = [
    "HIGHEST",
    "LOWEST",
    "RATING_FORMAT",
    "CanonicalComparator",
    "Comparator",
    "GradedComparator",
    "Judge",
    "Rating",
    "json_object",
    "parse_rating",
]

LOWEST: Final = 1
HIGHEST: Final = 5

RATING_FORMAT: Final[Mapping[str, Any]] = {
    "type": "json_schema",
    "json_schema": {
        "name": "rating",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "explanation": {"type": "string"},
                "grade": {"type": "integer", "enum": list(range(LOWEST, HIGHEST + 1))},
            },
            "required": ["explanation", "grade"],
            "additionalProperties": False,
        },
    },
}
"""The parameter `response_format`: a server that supports it constrains a model to write a rating."""

FENCE: Final = "```"


class Rating(NamedTuple):
    """A judge's rating.

    Attributes:
        grade: from 1, the worst, to 5.
        explanation: a sentence or two; empty where the judge gives none.
    """

    grade: float
    explanation: str = ""


def parse_rating(reply: str) -> Rating:
    """Read a reply that is a JSON object (`json_object`) with `grade` and `explanation`.

    Raises:
        ValueError: it is anything else. A grade is never searched for in a text. The message is sent to the model
            (`repair_prompt`), so it is part of request keys.

    >>> parse_rating('{"explanation": "The year is missing.", "grade": 4}')
    Rating(grade=4.0, explanation='The year is missing.')
    """
    found = json_object(reply)
    if found is None:
        raise ValueError("it is no JSON object")
    grade, explanation = found.get("grade"), found.get("explanation")
    # Exactly: True is an int to isinstance.
    if type(grade) is not int or not LOWEST <= grade <= HIGHEST:
        raise ValueError(
            f'"grade" is {_as_json(grade)[:20]}, and not a whole number from {LOWEST} to {HIGHEST}'
        )
    if not isinstance(explanation, str) or not explanation.strip():
        raise ValueError('"explanation" is no text')
    return Rating(float(grade), " ".join(explanation.split()))


def json_object(reply: str) -> dict[str, Any] | None:
    r"""Return the JSON object that a reply is, or that its only code block holds; None where there is none.

    >>> json_object('It is right.\n```json\n{"grade": 5}\n```')
    {'grade': 5}
    """
    begin, end = reply.find(FENCE), reply.rfind(FENCE)
    language, newline, block = reply[begin + len(FENCE) : end].partition("\n")
    fenced = 0 <= begin < end and newline and language.strip().lower() in {"", "json"}
    try:
        found = json.loads(block if fenced else reply, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice, so its value is ambiguous")
    return found


def _as_json(value: object) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "nested too deeply"


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
    """A comparator that also grades, rates, prefers, and decides whether a passage is relevant.

    Each method raises Unscored where there is no verdict, and CallableError where the judge does not support it.
    """

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return how much of what one of the references says is in the prediction: none 0.0, all 1.0."""

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 where the passage helps to answer the question, 0.0 where not."""

    async def prefer(self, question: str, first: str, second: str) -> int:
        """Return which of two long answers is better: 1 the first, 2 the second, 0 neither."""

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

    def repetition(self, n: int) -> "Judge":
        """Return this judge for the n-th repetition, n ≥ 1, with new replies."""

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return what a method's verdicts depend on, by name; the judge itself is under the empty name."""


@dataclass(frozen=True, slots=True)
class CanonicalComparator:
    """Compares in canonical form: numbers, units, dates and names by rule, without a model."""

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Compare by rule; unscored where a reference is too long for the rules."""
        from pytest_rageval.answers.canonical import is_long, states  # noqa: PLC0415 - compiles many rules

        if any(states(prediction, reference, question=question) for reference in references):
            return 1.0
        if any(map(is_long, references)):
            raise Unscored("a reference is longer than 300 words, which canonical comparison does not read")
        return 0.0


@dataclass(frozen=True, slots=True)
class GradedComparator:
    """Compares by the grade that a judge gives."""

    judge: Judge

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return the judge's grade."""
        return await self.judge.grade(question, references, prediction)
