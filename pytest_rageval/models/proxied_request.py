"""`ProxiedRequest`: a request of the user's application, sent unchanged, whose complete response is stored.

For a request of this package, the stored `Reply` has the text of the model's message. A client of the proxy reads
more: several choices, tool calls, log probabilities, embeddings. So the `text` of a proxied request's `Reply` is the
server's complete response, as JSON.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.models.chat_apis import CHAT_APIS, completion_reply, response_reply, usage_reply
from pytest_rageval.models.messages import KEY_SCHEMA, Message, Reply, Request, TooLarge

if TYPE_CHECKING:
    import httpx2

    from pytest_rageval.models.connection import Connection

CHAT: Final = CHAT_APIS["chat"].path
RESPONSES: Final = CHAT_APIS["responses"].path
EMBEDDINGS: Final = "/embeddings"

# Fields of a body with texts that the model reads.
PROMPT_FIELDS: Final = ("messages", "input", "instructions")
MAX_BODY_LENGTH: Final = 14 * 2**20  # characters in a cassette, whose lines have room for a prompt too
FINAL_EVENTS: Final = ("response.completed", "response.incomplete")  # events with the complete response


class Event(NamedTuple):
    name: str  # empty for chat completions
    data: str


class Answer(NamedTuple):
    """A server's response of any kind: body, headers and status."""

    content: bytes
    headers: Mapping[str, str]
    status: int = 200


class StreamEndedEarly(Exception):  # noqa: N818 - another attempt may follow, or not
    """A stream broke off; the reason."""


class Sink:
    """Passes the events of a stream on as they arrive; `begun` when one has arrived."""

    def __init__(self, receive: Callable[[Event], None]) -> None:
        self._receive = receive
        self.begun: bool = False

    def __call__(self, event: Event) -> None:
        self.begun = True
        self._receive(event)


@dataclass(frozen=True)
class ProxiedRequest(Request):
    """A request of another client; `parameters` are the fields of its body without the model.

    `messages` are the parts of the body that a model reads; they are used to estimate tokens. With a `sink`, the reply
    is requested as a stream.
    """

    path: str = CHAT
    sink: Sink | None = field(default=None, compare=False)

    @cached_property
    def key(self) -> str:
        names = {"base_url": self.base_url, "path": self.path, "sample": self.sample}
        return digest({"schema": KEY_SCHEMA, **names, "body": self.body})

    @property
    def body(self) -> dict[str, object]:
        return {"model": self.model, **self.parameters}

    @property
    def begun(self) -> bool:
        return self.sink is not None and self.sink.begun

    @property
    def summary_parameters(self) -> Mapping[str, object]:
        return {name: value for name, value in self.parameters.items() if name not in PROMPT_FIELDS}

    @property
    def is_internal(self) -> bool:
        """False: if the server refuses a parameter, the client receives the refusal."""
        return False

    @property
    def generates(self) -> bool:
        return self.path != EMBEDDINGS


def make_proxied_request(
    base_url: str, path: str, body: Mapping[str, object], *, sample: int = 0, sink: Sink | None = None
) -> ProxiedRequest:
    """Return the proxied request for a body, or raise ValueError.

    The key does not depend on streaming: a streamed and a complete reply are the same.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError("'model' is missing, or no text")
    rest = {name: value for name, value in body.items() if name not in ("model", "stream", "stream_options")}
    messages = _messages(rest)
    parts = {name: json.dumps(message, sort_keys=True) for name, message in messages.items()}
    proxied = ProxiedRequest(
        base_url, model, tuple(messages.values()), rest, sample, parts, path=path, sink=sink
    )
    _ = proxied.key  # raises ValueError if the body cannot be encoded
    return proxied


def _messages(body: Mapping[str, object]) -> dict[str, Message]:
    """Return the parts of a body that a model reads as messages, by the name that explains a missing reply."""
    messages: dict[str, Message] = {}
    for field_name in PROMPT_FIELDS:
        value = body.get(field_name)
        for item in value if isinstance(value, list) and not is_token_list(value) else [value]:
            message = (
                {"role": "user", "content": item} if isinstance(item, str) or is_token_list(item) else item
            )
            if isinstance(message, Mapping):
                numbered = f"message {len(messages) + 1} ({message.get('role', '?')})"
                messages["instructions" if value is item and field_name == "instructions" else numbered] = (
                    message
                )
    return messages


def is_token_list(value: object) -> bool:
    """Whether a text to embed is given as a list of token ids."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], int)


def proxied_reply(path: str, answer: Any) -> Reply:
    """Return the reply whose text is the whole of a parsed response; raises as `reply` of the API."""
    if path == RESPONSES:
        reply = response_reply(answer)
    else:
        reply = _completion_reply(answer) if path == CHAT else _embeddings_reply(answer)
    text = json.dumps(answer, separators=(",", ":"), sort_keys=True)
    length = len(json.dumps(text))
    if length > MAX_BODY_LENGTH:
        raise TooLarge(
            f"the answer takes {length:,} characters in a cassette, and at most {MAX_BODY_LENGTH:,} can be kept: ask "
            "for less at once, such as fewer texts to embed"
        )
    return Reply(text, reply.model, reply.finish_reason, reply.tokens_in, reply.tokens_out)


def _completion_reply(answer: Any) -> Reply:
    """Return the choice that the token limit cut, or else the first choice; check all choices."""
    first = completion_reply(answer)
    others = [completion_reply({**answer, "choices": [choice]}) for choice in answer["choices"][1:]]
    return next((reply for reply in (first, *others) if reply.cut), first)


def _embeddings_reply(answer: Any) -> Reply:
    vectors = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(vectors, list) or not vectors:
        raise ValueError("it has no data")
    return usage_reply(answer, "prompt_tokens", "completion_tokens")


async def send_proxied_request(connection: "Connection", proxied: ProxiedRequest) -> Answer:
    """Send a proxied request once, and return the complete response; StreamEndedEarly if a stream broke off."""
    if proxied.sink is None:
        response = await connection.post(proxied.path, proxied.body)
        return Answer(response.content, response.headers)
    body = {**proxied.body, "stream": True}
    if proxied.path == CHAT:
        # Otherwise the server does not report the tokens of a stream.
        body["stream_options"] = {"include_usage": True}
    response = await _open_stream(connection, proxied.path, body)
    try:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            return Answer(await response.aread(), response.headers)
        assembler = _StreamAssembler(proxied.path, proxied.sink)
        async for event in _events(response):
            assembler.add(event)
        if not assembler.is_complete:
            raise StreamEndedEarly("the stream ended early")
        return Answer(json.dumps(assembler.answer).encode(), response.headers)
    finally:
        await response.aclose()


async def _open_stream(connection: "Connection", path: str, body: dict[str, object]) -> "httpx2.Response":
    """Return the unread response to a request for a stream; retry without `stream_options` if the server refuses it."""
    import httpx2  # noqa: PLC0415 - loaded with the connection

    try:
        return await connection.post(path, body, stream=True)
    except httpx2.HTTPStatusError as error:
        refusal = error.response
        if refusal.status_code not in {400, 422} or "stream_options" not in refusal.text:
            raise
    body = {name: value for name, value in body.items() if name != "stream_options"}
    return await connection.post(path, body, stream=True)


async def _events(response: "httpx2.Response") -> AsyncIterator[Event]:
    name, data = "", list[str]()
    async for line in response.aiter_lines():
        if not line and data:
            yield Event(name, "\n".join(data))
        if not line:
            name, data = "", []
            continue
        key, _, value = line.partition(":")
        if key == "data":
            data.append(value.removeprefix(" "))
        elif key == "event":
            name = value.removeprefix(" ")
    if data:
        yield Event(name, "\n".join(data))


class _StreamAssembler:
    """Passes the events of a stream on, and assembles the complete response from them."""

    def __init__(self, path: str, sink: Sink) -> None:
        self._path = path
        self._sink = sink
        self.answer: dict[str, Any] = {}

    def add(self, event: Event) -> None:
        """Add the next event; StreamEndedEarly if it is an error of the server or not JSON."""
        if event.data == "[DONE]":
            return
        try:
            chunk = json.loads(event.data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, Mapping):
            raise StreamEndedEarly(f"an event of the stream is not a JSON object: {event.data!r}")
        if chunk.get("error") and not chunk.get("choices"):
            error = chunk["error"]
            words = error.get("message") if isinstance(error, Mapping) else error
            raise StreamEndedEarly(f"the server reported in the stream: {words}")
        if self._path == RESPONSES:
            if (event.name or chunk.get("type")) in FINAL_EVENTS and isinstance(
                chunk.get("response"), Mapping
            ):
                self.answer = dict(chunk["response"])
        else:
            _add_chunk(self.answer, chunk)
        self._sink(event)

    @property
    def is_complete(self) -> bool:
        if self._path == RESPONSES:
            return bool(self.answer)
        choices = self.answer.get("choices")
        return bool(choices) and all(choice.get("finish_reason") for choice in choices or ())


def _add_chunk(answer: dict[str, Any], chunk: JsonObject) -> None:
    for name, value in chunk.items():
        if name != "choices" and value is not None:
            answer[name] = "chat.completion" if name == "object" else value
    choices = answer.setdefault("choices", [])
    for part in chunk.get("choices") or ():
        index = part.get("index", 0)
        choice = next((choice for choice in choices if choice["index"] == index), None)
        if choice is None:
            choice = {"index": index, "message": {"role": "assistant", "content": None}}
            choices.append(choice)
            choices.sort(key=lambda choice: choice["index"])
        for name, value in part.items():
            if name == "delta":
                _add_delta(choice["message"], value or {})
            elif name == "logprobs" and isinstance(value, Mapping):
                _add_delta(choice.setdefault("logprobs", {}), value)
            elif value is not None or name not in choice:
                choice[name] = value


# Fields whose text is in one chunk; others are concatenated.
WHOLE_TEXTS: Final = ("role", "type", "id", "name")


def _add_delta(message: dict[str, object], delta: Mapping[str, object]) -> None:
    """Add the delta in a chunk to a message: concatenate texts, extend lists, merge objects."""
    for name, value in delta.items():
        before = message.get(name)
        if value is None or before is None:
            message[name] = _copy(value) if value is not None or name not in message else before
        elif isinstance(value, str) and isinstance(before, str):
            message[name] = (before or value) if name in WHOLE_TEXTS else before + value
        elif isinstance(value, list) and isinstance(before, list):
            _add_items(before, value)
        elif isinstance(value, Mapping) and isinstance(before, dict):
            _add_delta(before, value)
        else:
            message[name] = value


def _copy(value: Any) -> Any:
    """Return a deep copy of a value, with list items at their "index" and without that field."""
    if isinstance(value, Mapping):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, list):
        items: list[Any] = []
        _add_items(items, value)
        return items
    return value


def _add_items(items: list[Any], new: Sequence[Any]) -> None:
    """Append new items to a list; merge an item with a field "index" into the item at that position."""
    for item in new:
        index = item.get("index") if isinstance(item, Mapping) else None
        if not isinstance(index, int):
            items.append(item)
            continue
        content = {name: value for name, value in item.items() if name != "index"}
        # A wrong index must not make the list huge.
        while len(items) <= index < len(items) + 64:
            items.append({})
        if index < len(items):
            _add_delta(items[index], content)
