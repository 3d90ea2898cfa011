"""The parameters of a request to a model that a user may set, such as `reasoning_effort`."""

import json
from collections.abc import Mapping
from typing import Any, Final

_CONNECTION_ARGUMENTS: Final = (
    *("organization", "project", "base_url", "http_client", "default_headers", "default_query"),
    *("extra_headers", "extra_query"),
)

REJECTED_ARGUMENTS: Final = {
    "n": "one reply is used of each request",
    "stream": "a reply is kept whole",
    "timeout": "it is an option: --rageval timeout=SECONDS, or the key timeout of the table of a model",
    "max_retries": "it is an option: --rageval retries=N",
    "api_key": "it is read from the environment, and written nowhere",
    **dict.fromkeys(_CONNECTION_ARGUMENTS, "it belongs to the connection, not to a request"),
}
"""Arguments that client libraries accept and that requests of this package must not have, with the reason."""

_FIXED_PARAMETERS: Final = {
    "model": "it is an option: --rageval-model, --rageval-judge-model",
    "messages": "the prompts are the package's own, or those of --rageval prompts=FILE",
    "input": "the prompts are the package's own, or those of --rageval prompts=FILE",
    "response_format": "the prompts say the form of each reply",
}

LENGTH_PARAMETERS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Names of the parameter that limits the number of tokens of a reply."""


def parse_parameters(text: str) -> dict[str, Any]:
    """Parse a JSON object of request parameters. ValueError says what is allowed.

    >>> parse_parameters('{"reasoning_effort": "low"}')
    {'reasoning_effort': 'low'}
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return check_parameters(value)


def check_parameters(value: object) -> dict[str, Any]:
    """Return an object of request parameters unchanged. ValueError says what is allowed."""
    if not isinstance(value, dict):
        message = 'expected an object of parameters, such as {"reasoning_effort": "low"}'
        raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
    for name in value:
        if why := {**REJECTED_ARGUMENTS, **_FIXED_PARAMETERS}.get(name):
            raise ValueError(f"expected parameters of a request, without {name!r}: {why}")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            "expected values that JSON has: texts, numbers, booleans, lists and objects"
        ) from None
    return value


def merge_parameters(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the package's default parameters of a request, replaced by those of the user.

    A length limit of the user replaces every length limit of the package, whatever its name is.

    >>> merge_parameters({"temperature": 0.5, "max_tokens": 20}, {"max_completion_tokens": 500})
    {'temperature': 0.5, 'max_completion_tokens': 500}
    """
    limited = not own.keys().isdisjoint(LENGTH_PARAMETERS)
    kept = {name: value for name, value in defaults.items() if not (limited and name in LENGTH_PARAMETERS)}
    return {**kept, **own}
