"""A rating: a grade from 1 to 5 with its explanation, and how a model's reply is read as one."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["HIGHEST", "LOWEST", "RATING_FORMAT", "Rating", "parse_rating"]

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
    """Read a reply that is a JSON object with `grade` and `explanation`, perhaps in a code block, and nothing else.

    Raises:
        ValueError: it is anything else; why. A grade is never looked for in a text.

    >>> parse_rating('{"explanation": "The year is missing.", "grade": 4}')
    Rating(grade=4.0, explanation='The year is missing.')
    """
    try:
        found = json.loads(_unfenced(reply.strip()))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        message = "it is no JSON object"
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    grade, explanation = found.get("grade"), found.get("explanation")
    # Exactly: True is an int to isinstance.
    if type(grade) is not int or not LOWEST <= grade <= HIGHEST:
        message = f'"grade" is {json.dumps(grade)[:20]}, and not a whole number from {LOWEST} to {HIGHEST}'
        raise ValueError(message)
    if not isinstance(explanation, str) or not explanation.strip():
        message = '"explanation" is no text'
        raise ValueError(message)
    return Rating(float(grade), " ".join(explanation.split()))


def _unfenced(text: str) -> str:
    """What stands in a code block, where the text is one: between lines of their own."""
    opened, _, rest = text.partition("\n")
    block = rest.removesuffix(FENCE)
    closed = block != rest and "\n" in block[len(block.rstrip()) :]
    return block if closed and opened.strip().lower() in {FENCE, f"{FENCE}json"} else text
