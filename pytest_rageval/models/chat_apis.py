"""The two APIs for chats: chat completions, and the Responses API, for models without chat completions.

Of each: the body of a request, and the reply in the server's answer.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.models.messages import MAX_TOKEN_COUNT, Message, Reply, Request
from pytest_rageval.options.settings import Api

T = TypeVar("T")

MAX_ERROR_DEPTH: Final = 32  # levels of nesting of an error that is searched for words; real errors have six

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


def completion_reply(completion: Any) -> Reply:
    """Return the reply in a parsed completion; ValueError says why it is none."""
    if not isinstance(completion, Mapping):
        raise ValueError("it is not an object")  # noqa: TRY004 - the text is at fault, not an argument's type
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise ValueError("its choice has no message")  # noqa: TRY004 - the text is at fault, not an argument's type
    text, calls = _text_of(message.get("content")), typed_field(message, "tool_calls", list)
    reason = typed_field(choice, "finish_reason", str)
    if reason == "error" or not (reason or text or calls):
        # Some proxies report an error with status 200.
        raise ValueError("it broke off")
    return replace(
        usage_reply(completion, "prompt_tokens", "completion_tokens"),
        text=text,
        finish_reason=reason or "stop",
        refusal=typed_field(message, "refusal", str),
        tool_calls=json.dumps(calls) if calls else "",
        apart=_has_separate_reasoning(message),
    )


def typed_field(mapping: Mapping[str, object], name: str, kind: type[T]) -> T:
    """Return a field of this type; the empty value of the type if it is missing or null; ValueError for other types."""
    value = mapping.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        found = JSON_TYPES.get(type(value), "an object")
        raise ValueError(f"its {name} is {found}")  # noqa: TRY004 - the text is at fault, not an argument's type
    return value


def usage_reply(answer: Mapping[str, object], tokens_in: str, tokens_out: str) -> Reply:
    """Return a reply with the model, the tier and the tokens alone; "" and 0 if the server does not report them."""
    usage, model, tier = answer.get("usage"), answer.get("model"), answer.get("service_tier")
    counts = usage if isinstance(usage, Mapping) else {}
    return Reply(
        "",
        model if isinstance(model, str) else "",
        tokens_in=_count(counts.get(tokens_in)),
        tokens_out=_count(counts.get(tokens_out)),
        tier=tier if isinstance(tier, str) else "",
    )


def _count(value: Any) -> int:
    return int(value) if type(value) in {int, float} and 0 <= value < MAX_TOKEN_COUNT else 0


def _text_of(content: object) -> str:
    if not isinstance(content, list):
        return typed_field({"content": content}, "content", str)
    if not all(isinstance(part, Mapping) for part in content):
        raise ValueError("a part of its content is not an object")
    return "".join(
        typed_field(part, "text", str) for part in content if part.get("type") not in REASONING_TYPES
    )


def _has_separate_reasoning(message: Mapping[str, object]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(message.get(name) for name in REASONING_FIELDS) or any(
        part.get("type") in REASONING_TYPES for part in parts
    )


INSTRUCTION_ROLES: Final = ("system", "developer")
"""Roles of messages that become the instructions of a request."""

FINISH_REASONS: Final = {"max_output_tokens": "length"}
"""Reasons of an incomplete response that chat completions name differently, and those names."""


class ReportedError(Exception):
    """The server sent an error in place of a response."""


def _response_body(messages: Sequence[Message], parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the body of a request without the model, from the messages and parameters of a chat completion.

    A parameter that the API does not have, such as `stop`, is sent unchanged: the server refuses it, and the sender
    then omits it.
    """
    leading = 0
    while leading < len(messages) - 1 and _is_instruction(messages[leading]):
        leading += 1
    instructions = "\n\n".join(message["content"] for message in messages[:leading])
    sent: dict[str, object] = {"input": [_input_item(message) for message in messages[leading:]]}
    if instructions:
        sent["instructions"] = instructions
    # By default the server stores the prompt and its reply for a month.
    return sent | {"store": False} | _rename_parameters(parameters)


def response_reply(response: Any) -> Reply:
    """Return the reply in a parsed response; ReportedError, or ValueError that says why it is none."""
    if not isinstance(response, Mapping):
        raise ValueError("it is not an object")  # noqa: TRY004 - the text is at fault, not an argument's type
    status, failure = response.get("status"), response.get("error")
    if status == "failed" or (failure and status != "completed"):
        raise ReportedError(str(failure.get("message") if isinstance(failure, Mapping) else failure))
    if status not in {None, "completed", "incomplete"}:
        raise ValueError(f"its status is {status}")
    output = response.get("output")
    if not isinstance(output, list):
        raise ValueError("it has no output")  # noqa: TRY004 - the text is at fault, not an argument's type
    items = [item for item in output if isinstance(item, Mapping)]
    messages = [item for item in items if item.get("type") == "message"]
    # Without commentary that the model writes while it works.
    final = [message for message in messages if message.get("phase") != "commentary"]
    parts = [
        part
        for item in final or messages
        for part in typed_field(item, "content", list)
        if isinstance(part, Mapping)
    ]
    calls = [_tool_call(item) for item in items if item.get("type") == "function_call"]
    details = response.get("incomplete_details")
    reason = str(details.get("reason")) if isinstance(details, Mapping) else ""
    return replace(
        usage_reply(response, "input_tokens", "output_tokens"),
        text="".join(typed_field(part, "text", str) for part in parts),
        finish_reason=FINISH_REASONS.get(reason, reason or "length") if status == "incomplete" else "stop",
        refusal="".join(typed_field(part, "refusal", str) for part in parts),
        tool_calls=json.dumps(calls) if calls else "",
        apart=any(
            item.get("type") == "reasoning" and (item.get("summary") or item.get("content")) for item in items
        ),
    )


def _is_instruction(message: Message) -> bool:
    return message.get("role") in INSTRUCTION_ROLES and isinstance(message.get("content"), str)


def _input_item(message: Message) -> dict[str, object]:
    content, role = message.get("content"), message.get("role")
    if not isinstance(content, list):
        return {"role": role, "content": content}
    return {"role": role, "content": [_content_part(part, role) for part in content]}


def _content_part(part: Mapping[str, object], role: object) -> Mapping[str, object]:
    if part.get("type") == "text":
        return {**part, "type": "output_text" if role == "assistant" else "input_text"}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        return {"type": "input_image", "image_url": image.get("url") if isinstance(image, Mapping) else image}
    return part


def _rename_parameters(parameters: JsonObject) -> dict[str, object]:
    """Return the parameters of a chat completion under their names in this API."""
    sent = dict(parameters)
    reasoning, text = dict(sent.pop("reasoning", None) or {}), dict(sent.pop("text", None) or {})
    for name in ("max_tokens", "max_completion_tokens"):
        if name in sent:
            sent["max_output_tokens"] = sent.pop(name)
    if "reasoning_effort" in sent:
        reasoning["effort"] = sent.pop("reasoning_effort")
    if "verbosity" in sent:
        text["verbosity"] = sent.pop("verbosity")
    if "response_format" in sent:
        response_format = dict(sent.pop("response_format"))
        text["format"] = response_format | response_format.pop("json_schema", {})
    if isinstance(sent.get("tools"), list):
        sent["tools"] = [_flatten_function(tool) for tool in sent["tools"]]
    if isinstance(sent.get("tool_choice"), Mapping):
        sent["tool_choice"] = _flatten_function(sent["tool_choice"])
    return sent | ({"reasoning": reasoning} if reasoning else {}) | ({"text": text} if text else {})


def _flatten_function(tool: Any) -> Any:
    """Return a tool, or the choice of a tool, without the level `function` that chat completions have."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    return {**{name: value for name, value in tool.items() if name != "function"}, **function}


def _tool_call(item: Mapping[str, object]) -> dict[str, object]:
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}


class ChatApi(NamedTuple):
    path: str  # appended to the base URL
    body: Callable[[Sequence[Message], JsonObject], dict[str, Any]]  # of a request, without the model
    reply: Callable[[Any], Reply]  # in a parsed answer


CHAT_APIS: Final[Mapping[Api, ChatApi]] = {
    "chat": ChatApi(
        "/chat/completions",
        lambda messages, parameters: {"messages": messages, **parameters},
        completion_reply,
    ),
    "responses": ChatApi("/responses", _response_body, response_reply),
}


def request_body(api: Api, request: Request, parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the JSON body of a request, with the entries of the parameter `extra_body` as fields."""
    messages = request.well_formed_messages()
    arguments = CHAT_APIS[api].body(messages, parameters)
    body = {"model": request.model, **arguments, **(arguments.get("extra_body") or {})}
    body.pop("extra_body", None)
    return body


def parse_json_body(body: bytes) -> Any:
    reasons = {UnicodeDecodeError: "it is not UTF-8", json.JSONDecodeError: "it is not JSON"}
    try:
        return json.loads(body)
    except ValueError as error:
        why = reasons.get(type(error), "a number in it is too long") if body.strip() else "it is empty"
        raise ValueError(why) from None


def error_body(body: object) -> Mapping[str, object] | None:
    """Return the error object in a body; None if there is none, or if it is nested too deeply."""
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], Mapping):
        # Google's servers put the object into a list.
        body = body[0].get("error", body[0])
    return body if isinstance(body, Mapping) and _is_nested_within(body, MAX_ERROR_DEPTH) else None


def _is_nested_within(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_nested_within(item, levels - 1) for item in inner)
