"""The Responses API, for models that have no chat completions: its requests, and how answers are read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_rageval.llm.messages import Message
from pytest_rageval.llm.servers.completions import field, reported

__all__ = ["PATH", "ReportedError", "arguments", "record"]

PATH: Final = "/responses"  # what the library appends to the base URL
INSTRUCTING: Final = ("system", "developer")  # roles of messages that are the request's instructions
CUT: Final = {
    "max_output_tokens": "length"
}  # reasons of an incomplete response that a chat completion calls otherwise


class ReportedError(Exception):
    """The server reports an error in place of a response."""


def arguments(messages: Sequence[Message], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request, besides the model, for the messages and parameters of a chat completion.

    A parameter that the API does not have, such as `stop`, is sent as it is: the server refuses it, and the sender then
    leaves it out.
    """
    leading = 0
    while leading < len(messages) - 1 and _instructs(messages[leading]):
        leading += 1
    instructions = "\n\n".join(message["content"] for message in messages[:leading])
    sent: dict[str, Any] = {"input": [_item(message) for message in messages[leading:]]}
    if instructions:
        sent["instructions"] = instructions
    # By default the server would keep the prompt and its reply for a month.
    return sent | {"store": False} | _named(parameters)


def record(response: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed response.

    Raises:
        ReportedError: it reports an error.
        ValueError: it is none; the text says why.
    """
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
        for item in _messages(items)
        for part in field(item, "content", list)
        if isinstance(part, Mapping)
    ]
    calls = [_call(item) for item in items if item.get("type") == "function_call"]
    details = response.get("incomplete_details")
    reason = str(details.get("reason")) if isinstance(details, Mapping) else ""
    return {
        **reported(response, "input_tokens", "output_tokens"),
        "text": "".join(field(part, "text", str) for part in parts),
        "finish_reason": CUT.get(reason, reason or "length") if status == "incomplete" else "stop",
        "refusal": "".join(field(part, "refusal", str) for part in parts),
        "tool_calls": json.dumps(calls) if calls else "",
        "apart": any(
            item.get("type") == "reasoning" and (item.get("summary") or item.get("content")) for item in items
        ),
    }


def _messages(items: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The messages of a response, without what the model says while it works."""
    messages = [item for item in items if item.get("type") == "message"]
    final = [message for message in messages if message.get("phase") != "commentary"]
    return final or messages


def _instructs(message: Message) -> bool:
    return message.get("role") in INSTRUCTING and isinstance(message.get("content"), str)


def _item(message: Message) -> dict[str, Any]:
    """A message as an item of the input."""
    content, role = message.get("content"), message.get("role")
    if not isinstance(content, list):
        return {"role": role, "content": content}
    return {"role": role, "content": [_part(part, role) for part in content]}


def _part(part: Mapping[str, Any], role: object) -> Mapping[str, Any]:
    if part.get("type") == "text":
        return {**part, "type": "output_text" if role == "assistant" else "input_text"}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        return {"type": "input_image", "image_url": image.get("url") if isinstance(image, Mapping) else image}
    return part


def _named(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a chat completion under their names in this API."""
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
        form = dict(sent.pop("response_format"))
        text["format"] = form | form.pop("json_schema", {})
    if isinstance(sent.get("tools"), list):
        sent["tools"] = [_flat(tool) for tool in sent["tools"]]
    if isinstance(sent.get("tool_choice"), Mapping):
        sent["tool_choice"] = _flat(sent["tool_choice"])
    return sent | ({"reasoning": reasoning} if reasoning else {}) | ({"text": text} if text else {})


def _flat(tool: Any) -> Any:
    """A function, or the choice of one, without the level that chat completions put around its name."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping):
        return tool
    return {**{name: value for name, value in tool.items() if name != "function"}, **function}


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a function as in a chat completion."""
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}
