"""The Responses API, for models without chat completions: the body of a request, and the fields of a `Reply`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_rageval.models.completions import typed_field, usage_fields
from pytest_rageval.models.messages import Message

PATH: Final = "/responses"  # appended to the base URL
INSTRUCTION_ROLES: Final = ("system", "developer")
"""Roles of messages that become the instructions of a request."""

FINISH_REASONS: Final = {"max_output_tokens": "length"}
"""Reasons of an incomplete response that chat completions name differently, and those names."""


class ReportedError(Exception):
    """The server sent an error in place of a response."""


def request_body(messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request without the model, from the messages and parameters of a chat completion.

    A parameter that the API does not have, such as `stop`, is sent unchanged. The server refuses it, and the sender
    then omits it.
    """
    leading = 0
    while leading < len(messages) - 1 and _is_instruction(messages[leading]):
        leading += 1
    instructions = "\n\n".join(message["content"] for message in messages[:leading])
    sent: dict[str, Any] = {"input": [_input_item(message) for message in messages[leading:]]}
    if instructions:
        sent["instructions"] = instructions
    # By default the server stores the prompt and its reply for a month.
    return sent | {"store": False} | _rename_parameters(parameters)


def reply_fields(response: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed response; ReportedError, or ValueError that says why it is none."""
    if not isinstance(response, Mapping):
        raise ValueError("it is not an object")  # noqa: TRY004 - the text is at fault, not an argument's type
    status, failure = response.get("status"), response.get("error")
    if status == "failed" or (failure and status != "completed"):
        raise ReportedError(str(failure.get("message") if isinstance(failure, Mapping) else failure))
    output = response.get("output")
    if not isinstance(output, list) or status not in {None, "completed", "incomplete"}:
        raise ValueError(
            "it has no output" if status in {None, "completed", "incomplete"} else f"its status is {status}"
        )
    items = [item for item in output if isinstance(item, Mapping)]
    parts = [
        part
        for item in _final_messages(items)
        for part in typed_field(item, "content", list)
        if isinstance(part, Mapping)
    ]
    calls = [_tool_call(item) for item in items if item.get("type") == "function_call"]
    details = response.get("incomplete_details")
    reason = str(details.get("reason")) if isinstance(details, Mapping) else ""
    return {
        **usage_fields(response, "input_tokens", "output_tokens"),
        "text": "".join(typed_field(part, "text", str) for part in parts),
        "finish_reason": FINISH_REASONS.get(reason, reason or "length") if status == "incomplete" else "stop",
        "refusal": "".join(typed_field(part, "refusal", str) for part in parts),
        "tool_calls": json.dumps(calls) if calls else "",
        "apart": any(
            item.get("type") == "reasoning" and (item.get("summary") or item.get("content")) for item in items
        ),
    }


def _final_messages(items: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the messages of a response, without commentary that the model writes while it works."""
    messages = [item for item in items if item.get("type") == "message"]
    final = [message for message in messages if message.get("phase") != "commentary"]
    return final or messages


def _is_instruction(message: Message) -> bool:
    return message.get("role") in INSTRUCTION_ROLES and isinstance(message.get("content"), str)


def _input_item(message: Message) -> dict[str, Any]:
    content, role = message.get("content"), message.get("role")
    if not isinstance(content, list):
        return {"role": role, "content": content}
    return {"role": role, "content": [_content_part(part, role) for part in content]}


def _content_part(part: Mapping[str, Any], role: object) -> Mapping[str, Any]:
    if part.get("type") == "text":
        return {**part, "type": "output_text" if role == "assistant" else "input_text"}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        return {"type": "input_image", "image_url": image.get("url") if isinstance(image, Mapping) else image}
    return part


def _rename_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
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


def _tool_call(item: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}
