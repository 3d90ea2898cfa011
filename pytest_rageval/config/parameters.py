"""Parameters that the user adds to the requests of the generator or the judge."""

import json
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["REFUSED", "combined", "parse_parameters", "read_parameters"]

_CONNECTION: Final = (
    *("organization", "project", "base_url", "http_client", "default_headers", "default_query"),
    *("extra_headers", "extra_query"),
)

REFUSED: Final = {
    "n": "one reply is used of each request",
    "stream": "a reply is kept whole",
    "timeout": "it is an option: --rageval-timeout, or the key timeout of the table of a model",
    "max_retries": "it is an option: --rageval-retries",
    "api_key": "it is read from the environment, and written nowhere",
    **dict.fromkeys(_CONNECTION, "it belongs to a connection, not to what is asked"),
}
"""Arguments that clients accept and no request takes, and why."""

_FIXED: Final = {
    "model": "it is an option: --rageval-model, --rageval-judge-model",
    "messages": "the prompts are the package's own, or those of --rageval-prompts",
    "input": "the prompts are the package's own, or those of --rageval-prompts",
    "response_format": "the prompts say the form of each reply",
}

_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def parse_parameters(text: str) -> dict[str, Any]:
    """Read a JSON object of parameters, or raise ValueError with what is allowed.

    >>> parse_parameters('{"reasoning_effort": "low"}')
    {'reasoning_effort': 'low'}
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return read_parameters(found)


def read_parameters(found: object) -> dict[str, Any]:
    """Return an object of parameters, or raise ValueError with what is allowed."""
    if not isinstance(found, dict):
        message = 'expected an object of parameters, such as {"reasoning_effort": "low"}'
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    for name in found:
        if why := {**REFUSED, **_FIXED}.get(name):
            raise ValueError(f"expected parameters of a request, without {name!r}: {why}")
    try:
        json.dumps(found, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "expected values that JSON has: texts, numbers, booleans, lists and objects"
        ) from None
    return found


def combined(ours: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request: the user's replace ours; a limit of the length does by any of its names.

    >>> combined({"temperature": 0.5, "max_tokens": 20}, {"max_completion_tokens": 500})
    {'temperature': 0.5, 'max_completion_tokens': 500}
    """
    limited = not given.keys().isdisjoint(_LENGTHS)
    kept = {name: value for name, value in ours.items() if not (limited and name in _LENGTHS)}
    return {**kept, **given}
