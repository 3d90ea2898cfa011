"""A call of a function in the form of a request, and its result in that of a reply: what can be kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from pytest_rageval.errors import CallableError
from pytest_rageval.llm.reply import Reply
from pytest_rageval.llm.request import Request

__all__ = ["reply_of", "request_of"]

SERVER: Final = "function"
"""Stands where a model's server does: a function is asked like one."""


def request_of(name: str, version: str, args: Sequence[Any], named: Mapping[str, Any]) -> Request:
    """What is asked when a function of this name and version is called with these arguments.

    Raises:
        CallableError: an argument has no lasting form.
    """
    arguments = {str(place): argument for place, argument in enumerate(args, 1)} | dict(named)
    try:
        plain = {place: _plain(argument) for place, argument in arguments.items()}
        request = Request(SERVER, f"{name}@{version}", (plain,))
        parts = {f"argument {place}": json.dumps(value, sort_keys=True) for place, value in plain.items()}
        _ = request.key
    except (TypeError, ValueError) as error:
        message = (
            f"{name} is cached, and was called with an argument that has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these, documents and dataclasses have one."
        )
        raise CallableError(message) from None
    return Request(SERVER, f"{name}@{version}", (plain,), parts=parts)


def _plain(value: Any) -> Any:
    """An argument in JSON's kinds; different arguments have different forms."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        inner = {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
        return {"__class__": f"{kind.__module__}.{kind.__qualname__}", **inner}
    if isinstance(value, Mapping):
        # Where "__class__" is a key it could be taken for a dataclass.
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"__items__": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def reply_of(name: str, result: Any) -> Reply:
    """What a function of this name returned.

    Raises:
        CallableError: it has no lasting form.
    """
    try:
        text = json.dumps(result, allow_nan=False)
        _refuse_other_keys(result)
    except (TypeError, ValueError) as error:
        message = (
            f"{name} is cached, and returned what has no lasting form: {error}.\n"
            "Text, numbers, booleans, None, lists and dicts of these have one; keys are text."
        )
        raise CallableError(message) from None
    return Reply(text, name)


def _refuse_other_keys(result: Any) -> None:
    """Raise TypeError where a dict has keys that are no text: JSON would make them other keys."""
    if isinstance(result, Mapping):
        for key in result:
            if not isinstance(key, str):
                message = f"a dict has the key {key!r:.60}, which is no text"
                raise TypeError(message)
        result = list(result.values())
    if isinstance(result, list | tuple):
        for item in result:
            _refuse_other_keys(item)
