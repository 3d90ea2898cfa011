"""A rating: a grade from 1 to 5 with its explanation, and how a model's reply is read as one."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["HIGHEST", "LOWEST", "RATING_FORMAT", "Rating", "json_object", "parse_rating"]

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
"""The parameter `response_format`, by which a server that knows it lets a model write nothing but a rating."""

FENCE: Final = "```"


class Rating(NamedTuple):
    """What a judge thinks of something.

    Attributes:
        grade: from 1, the worst, to 5.
        explanation: why, in a sentence or two; empty where the judge gives none.
    """

    grade: float
    explanation: str = ""


def parse_rating(reply: str) -> Rating:
    """Read a reply that is a JSON object with `grade` and `explanation`; see `json_object`.

    Raises:
        ValueError: it is anything else; why. A grade is never looked for in a text.

    >>> parse_rating('{"explanation": "The year is missing.", "grade": 4}')
    Rating(grade=4.0, explanation='The year is missing.')
    """
    found = json_object(reply)
    if found is None:
        message = "it is no JSON object"
        raise ValueError(message)
    grade, explanation = found.get("grade"), found.get("explanation")
    # Exactly: True is an int to isinstance.
    if type(grade) is not int or not LOWEST <= grade <= HIGHEST:
        message = f'"grade" is {_as_json(grade)[:20]}, and not a whole number from {LOWEST} to {HIGHEST}'
        raise ValueError(message)
    if not isinstance(explanation, str) or not explanation.strip():
        message = '"explanation" is no text'
        raise ValueError(message)
    return Rating(float(grade), " ".join(explanation.split()))


def json_object(reply: str) -> dict[str, Any] | None:
    r"""The JSON object that a reply is, or that is in its only code block; None where there is no such object.

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
    """An object of these pairs.

    Raises:
        ValueError: a name comes twice; which value is meant cannot be said.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice")
    return found


def _as_json(value: object) -> str:
    try:
        return json.dumps(value)
    except RecursionError:
        return "nested too deeply"
