"""The API of chat completions: the body of a request, and the fields of a `Reply` in the server's answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pytest_rageval.models.messages import MAX_TOKEN_COUNT, Message

T = TypeVar("T")

PATH: Final = "/chat/completions"  # appended to the base URL
REASONING_TYPES: Final = ("reasoning", "thinking")
"""Types of message parts that contain reasoning, not the answer."""

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
"""Fields of a message in which servers put the model's reasoning."""

JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
}


def request_body(messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"messages": messages, **parameters}


def reply_fields(completion: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed completion; ValueError says why it is not a completion."""
    if not isinstance(completion, Mapping):
        raise ValueError("it is not an object")  # noqa: TRY004 - the text is at fault, not an argument's type
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise ValueError("its choice has no message")  # noqa: TRY004 - the text is at fault, not an argument's type
    text, calls = _text(message.get("content")), typed_field(message, "tool_calls", list)
    reason = typed_field(choice, "finish_reason", str)
    if reason == "error" or not (reason or text or calls):
        # Some proxies report an error with status 200.
        raise ValueError("it broke off")
    return {
        **usage_fields(completion, "prompt_tokens", "completion_tokens"),
        "text": text,
        "finish_reason": reason or "stop",
        "refusal": typed_field(message, "refusal", str),
        "tool_calls": json.dumps(calls) if calls else "",
        "apart": _has_separate_reasoning(message),
    }


def typed_field(mapping: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of this type; the empty value of the type if it is missing or null; ValueError for other types."""
    value = mapping.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        found = JSON_TYPES.get(type(value), "an object")
        raise ValueError(f"its {name} is {found}")  # noqa: TRY004 - the text is at fault, not an argument's type
    return value


def usage_fields(answer: Mapping[str, Any], tokens_in: str, tokens_out: str) -> dict[str, Any]:
    """Return model, tier and the counts of tokens under these names; "" and 0 for what is not reported."""
    usage, model, tier = answer.get("usage"), answer.get("model"), answer.get("service_tier")
    counts = usage if isinstance(usage, Mapping) else {}
    return {
        "model": model if isinstance(model, str) else "",
        "tier": tier if isinstance(tier, str) else "",
        "tokens_in": _count(counts.get(tokens_in)),
        "tokens_out": _count(counts.get(tokens_out)),
    }


def _count(value: Any) -> int:
    return int(value) if type(value) in {int, float} and 0 <= value < MAX_TOKEN_COUNT else 0


def _text(content: object) -> str:
    """Return the content of a message as one text, without the parts that contain reasoning."""
    if not isinstance(content, list):
        return typed_field({"content": content}, "content", str)
    if not all(isinstance(part, Mapping) for part in content):
        raise ValueError("a part of its content is not an object")
    return "".join(
        typed_field(part, "text", str) for part in content if part.get("type") not in REASONING_TYPES
    )


def _has_separate_reasoning(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(message.get(name) for name in REASONING_FIELDS) or any(
        part.get("type") in REASONING_TYPES for part in parts
    )
