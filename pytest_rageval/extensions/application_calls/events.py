"""Sends a complete response as the events of a stream, in the format of chat completions or of responses."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.models.proxied_request import CHAT, Event

WORD: Final = re.compile(r"\s*\S+\s*$|\s*\S+|\s+$")  # a word with the white space before it


def encode_event(event: Event) -> str:
    name = f"event: {event.name}\n" if event.name else ""
    data = "".join(f"data: {line}\n" for line in event.data.split("\n"))
    return f"{name}{data}\n"


def split_into_events(path: str, answer: Mapping[str, object], *, usage: bool) -> Iterator[Event]:
    """Yield a complete response as the events of a stream; with `usage`, include the tokens of a chat completion."""
    if path == CHAT:
        for chunk in _chunks(answer, usage=usage):
            yield Event("", json.dumps(chunk))
        yield Event("", "[DONE]")
    else:
        for number, (name, content) in enumerate(_response_events(answer)):
            yield Event(name, json.dumps({"type": name, "sequence_number": number, **content}))


def _chunks(answer: JsonObject, *, usage: bool) -> Iterator[dict[str, object]]:
    common = {name: value for name, value in answer.items() if name not in ("choices", "usage")}
    common["object"] = "chat.completion.chunk"
    for choice in answer["choices"]:
        index, message = choice.get("index", 0), dict(choice.get("message") or {})
        other_fields = {
            name: value
            for name, value in choice.items()
            if name not in ("index", "message", "finish_reason", "logprobs")
        }

        def chunk(delta: dict[str, object], index: int = index, **kwargs: Any) -> dict[str, object]:
            return {**common, "choices": [{"index": index, "delta": delta, "finish_reason": None, **kwargs}]}

        content, calls = message.pop("content", None), message.pop("tool_calls", None) or []
        texts = {name: value for name, value in message.items() if isinstance(value, str) and name != "role"}
        first = {name: value for name, value in message.items() if name not in texts}
        yield chunk({"role": "assistant", **first, "content": "" if isinstance(content, str) else content})
        # Reasoning and refusals, which servers send in separate text fields.
        for name, text in texts.items():
            for piece in WORD.findall(text):
                yield chunk({name: piece})
        for piece in WORD.findall(content) if isinstance(content, str) else ():
            yield chunk({"content": piece})
        for position, call in enumerate(calls):
            yield chunk({"tool_calls": [{"index": position, **call}]})
        logprobs = {"logprobs": choice["logprobs"]} if "logprobs" in choice else {}
        yield chunk({}, finish_reason=choice.get("finish_reason") or "stop", **logprobs, **other_fields)
    if usage:
        yield {**common, "choices": [], "usage": answer.get("usage")}


def _response_events(answer: JsonObject) -> Iterator[tuple[str, dict[str, object]]]:
    status = str(answer.get("status", "completed"))
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for position, item in enumerate(answer.get("output") or ()):
        output = {"output_index": position}
        item_fields = {"item_id": item.get("id", ""), **output}
        parts = item.get("content") if item.get("type") == "message" else None
        empty: dict[str, object] = {} if parts is None else {"content": []}
        if item.get("type") == "function_call":
            empty = {"arguments": ""}
        yield "response.output_item.added", {**output, "item": {**item, **empty, "status": "in_progress"}}
        if item.get("type") == "function_call":
            arguments = item.get("arguments", "")
            yield "response.function_call_arguments.delta", {**item_fields, "delta": arguments}
            yield "response.function_call_arguments.done", {**item_fields, "arguments": arguments}
        for number, part in enumerate(parts or ()):
            yield from _part_events({**item_fields, "content_index": number}, part)
        yield "response.output_item.done", {**output, "item": item}
    end = status if status in {"completed", "incomplete"} else "completed"
    yield f"response.{end}", {"response": answer}


def _part_events(
    common: Mapping[str, object], part: Mapping[str, object]
) -> Iterator[tuple[str, dict[str, object]]]:
    field, name = ("refusal", "refusal") if part.get("type") == "refusal" else ("text", "output_text")
    text = part.get(field)
    empty = {field: ""} if isinstance(text, str) else {}
    yield "response.content_part.added", {**common, "part": {**part, **empty}}
    if isinstance(text, str):
        logprobs: dict[str, object] = {"logprobs": []} if name == "output_text" else {}
        for piece in WORD.findall(text):
            yield f"response.{name}.delta", {**common, "delta": piece, **logprobs}
        yield f"response.{name}.done", {**common, field: text, **logprobs}
    yield "response.content_part.done", {**common, "part": part}
