"""Chat completions: the arguments of a request, and the fields of a `Reply` in the server's answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from pytest_rageval.llm.messages import MAX_TOKEN_COUNT, Message

__all__ = ["PATH", "arguments", "field", "record", "reported"]

T = TypeVar("T")

PATH: Final = "/chat/completions"  # what the library appends to the base URL
REASONING: Final = ("reasoning", "thinking")  # types of message parts that are not part of the answer
APART: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
"""Fields of a message in which servers put the model's reasoning."""

JSON_TYPES: Final = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}


def arguments(messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request, besides the model."""
    return {"messages": messages, **parameters}


def record(completion: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed completion; ValueError says why there is none."""
    if not isinstance(completion, Mapping):
        raise ValueError("it is not an object")  # noqa: TRY004 - the text is at fault, not an argument's type
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise ValueError("its choice has no message")  # noqa: TRY004 - likewise
    text, calls = _text(message.get("content")), field(message, "tool_calls", list)
    reason = field(choice, "finish_reason", str)
    if reason == "error" or not (reason or text or calls):
        # Some proxies report an error with status 200.
        raise ValueError("it broke off")
    return {
        **reported(completion, "prompt_tokens", "completion_tokens"),
        "text": text,
        "finish_reason": reason or "stop",
        "refusal": field(message, "refusal", str),
        "tool_calls": json.dumps(calls) if calls else "",
        "apart": _reasoning_apart(message),
    }


def field(of: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of this type; empty where it is missing or null."""
    value = of.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        found = JSON_TYPES.get(type(value), "an object")
        raise ValueError(f"its {name} is {found}")  # noqa: TRY004 - likewise
    return value


def reported(answer: Mapping[str, Any], tokens_in: str, tokens_out: str) -> dict[str, Any]:
    """Return the model and the tier that a server reports, and the tokens under these names; 0 for none."""
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
    """Return a message's content as one text; some servers send it in parts."""
    if not isinstance(content, list):
        return field({"content": content}, "content", str)
    if not all(isinstance(part, Mapping) for part in content):
        raise ValueError("a part of its content is not an object")
    return "".join(field(part, "text", str) for part in content if part.get("type") not in REASONING)


def _reasoning_apart(message: Mapping[str, Any]) -> bool:
    """Whether a message has the model's reasoning in a field or a part of its own."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(message.get(name) for name in APART) or any(part.get("type") in REASONING for part in parts)
