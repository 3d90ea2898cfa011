"""Cached replies as the events of a stream, and placeholders for replies in a plan."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pytest_rageval.llm.proxied_request import CHAT, EMBEDDINGS, Event, ProxiedRequest, is_token_list

__all__ = ["build_placeholder", "encode_event", "stream_events"]

PIECE: Final = re.compile(r"\s*\S+\s*$|\s*\S+|\s+$")  # a word with the white space before it
DIMENSIONS: Final = 1536  # of a planned embedding where the request names none


def encode_event(event: Event) -> str:
    """Return an event as the text that is sent."""
    name = f"event: {event.name}\n" if event.name else ""
    data = "".join(f"data: {line}\n" for line in event.data.split("\n"))
    return f"{name}{data}\n"


def stream_events(path: str, answer: Mapping[str, Any], *, usage: bool) -> Iterator[Event]:
    """Yield a whole answer as the events of a stream; `usage` is whether a chat completion's tokens are sent."""
    if path == CHAT:
        for chunk in _chunks(answer, usage=usage):
            yield Event("", json.dumps(chunk))
        yield Event("", "[DONE]")
    else:
        for number, (name, content) in enumerate(_response_events(answer)):
            yield Event(name, json.dumps({"type": name, "sequence_number": number, **content}))


def _pieces(text: str) -> list[str]:
    return PIECE.findall(text)


def _chunks(answer: Mapping[str, Any], *, usage: bool) -> Iterator[dict[str, Any]]:
    common = {name: value for name, value in answer.items() if name not in ("choices", "usage", "object")} | {
        "object": "chat.completion.chunk"
    }
    for choice in answer["choices"]:
        index, message = choice.get("index", 0), dict(choice.get("message") or {})
        own = {
            name: value
            for name, value in choice.items()
            if name not in ("index", "message", "finish_reason", "logprobs")
        }

        def chunk(delta: dict[str, Any], index: int = index, **more: Any) -> dict[str, Any]:
            return {
                **common,
                "choices": [{"index": index, "delta": delta, "finish_reason": None, **more}],
            }

        content, calls = message.pop("content", None), message.pop("tool_calls", None) or []
        texts = {name: value for name, value in message.items() if isinstance(value, str) and name != "role"}
        first = {name: value for name, value in message.items() if name not in texts}
        yield chunk({"role": "assistant", **first, "content": "" if isinstance(content, str) else content})
        # Reasoning and refusals, which servers send as texts of their own.
        for name, text in texts.items():
            for piece in _pieces(text):
                yield chunk({name: piece})
        for piece in _pieces(content) if isinstance(content, str) else ():
            yield chunk({"content": piece})
        for place, call in enumerate(calls):
            yield chunk({"tool_calls": [{"index": place, **call}]})
        logprobs = {"logprobs": choice["logprobs"]} if "logprobs" in choice else {}
        yield chunk({}, finish_reason=choice.get("finish_reason") or "stop", **logprobs, **own)
    if usage:
        yield {**common, "choices": [], "usage": answer.get("usage")}


def _response_events(answer: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    status = str(answer.get("status", "completed"))
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for place, item in enumerate(answer.get("output") or ()):
        where = {"output_index": place}
        inner = {"item_id": item.get("id", ""), **where}
        parts = item.get("content") if item.get("type") == "message" else None
        hollow: dict[str, Any] = {} if parts is None else {"content": []}
        if item.get("type") == "function_call":
            hollow = {"arguments": ""}
        yield "response.output_item.added", {**where, "item": {**item, **hollow, "status": "in_progress"}}
        if item.get("type") == "function_call":
            arguments = item.get("arguments", "")
            yield "response.function_call_arguments.delta", {**inner, "delta": arguments}
            yield "response.function_call_arguments.done", {**inner, "arguments": arguments}
        for number, part in enumerate(parts or ()):
            yield from _part_events({**inner, "content_index": number}, part)
        yield "response.output_item.done", {**where, "item": item}
    end = status if status in {"completed", "incomplete"} else "completed"
    yield f"response.{end}", {"response": answer}


def _part_events(where: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    field, name = ("refusal", "refusal") if part.get("type") == "refusal" else ("text", "output_text")
    text = part.get(field)
    hollow = {field: ""} if isinstance(text, str) else {}
    yield "response.content_part.added", {**where, "part": {**part, **hollow}}
    if isinstance(text, str):
        logprobs: dict[str, Any] = {"logprobs": []} if name == "output_text" else {}
        for piece in _pieces(text):
            yield f"response.{name}.delta", {**where, "delta": piece, **logprobs}
        yield f"response.{name}.done", {**where, field: text, **logprobs}
    yield "response.content_part.done", {**where, "part": part}


def build_placeholder(proxied: ProxiedRequest, mark: str) -> dict[str, Any]:
    """Return the placeholder of an answer in a plan; its text is the mark of the planned reply."""
    body, usage = proxied.parameters, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    common = {"id": "planned", "model": proxied.model}
    if proxied.path == CHAT:
        message = {"role": "assistant", "content": mark, "refusal": None}
        number = body.get("n")
        choices = [
            {"index": index, "message": message, "finish_reason": "stop"}
            for index in range(number if isinstance(number, int) else 1)
        ]
        return {**common, "object": "chat.completion", "created": 0, "choices": choices, "usage": usage}
    if proxied.path == EMBEDDINGS:
        return {"object": "list", "model": proxied.model, "data": _embeddings(body), "usage": usage}
    part = {"type": "output_text", "text": mark, "annotations": []}
    item = {
        "id": "planned",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    return {
        **common,
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _embeddings(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    given, size = body.get("input"), body.get("dimensions")
    number = len(given) if isinstance(given, list) and not is_token_list(given) else 1
    vector: Any = [0.0] * (size if isinstance(size, int) and size > 0 else DIMENSIONS)
    if body.get("encoding_format") == "base64":
        vector = base64.b64encode(bytes(4 * len(vector))).decode()
    return [{"object": "embedding", "index": index, "embedding": vector} for index in range(number)]
