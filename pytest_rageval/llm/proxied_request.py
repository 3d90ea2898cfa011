"""`ProxiedRequest`: a request of the user's application, sent unchanged, whose complete response is stored.

A chat completion of this package keeps the text of its reply. A client behind the gateway reads more: several
choices, tool calls, log probabilities, embeddings. So the text of a proxied request's `Reply` is the server's whole
answer, as JSON.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.digests import digest
from pytest_rageval.llm.messages import KEY_SCHEMA, Message, Request, TooLarge
from pytest_rageval.llm.servers import completions, responses

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = [
    "CHAT",
    "EMBEDDINGS",
    "RESPONSES",
    "Answer",
    "Event",
    "ProxiedRequest",
    "Sink",
    "StreamEndedEarly",
    "is_token_list",
    "make_proxied_request",
    "reply_record",
    "send_proxied_request",
    "send_raw",
]

CHAT: Final = completions.PATH
RESPONSES: Final = responses.PATH
EMBEDDINGS: Final = "/embeddings"

PROMPTS: Final = ("messages", "input", "instructions")  # fields of a body that hold what a model reads
MAX_BODY_LENGTH: Final = (
    14 * 2**20
)  # characters, as written in a cassette's line, which has room for the prompt too
FINAL_EVENTS: Final = ("response.completed", "response.incomplete")  # events with a whole response


class Event(NamedTuple):
    """One event of a stream: its name, empty for chat completions, and its data."""

    name: str
    data: str


class Answer(NamedTuple):
    """The body and the headers of a server's answer, and its status."""

    content: bytes
    headers: Mapping[str, str]
    status: int = 200


class StreamEndedEarly(Exception):  # noqa: N818 - another attempt may follow, or not
    """A stream ended before its end; why."""


class Sink:
    """Receives the events of a stream as they come; `begun` is whether there was one."""

    def __init__(self, take: Callable[[Event], None]) -> None:
        self._take = take
        self.begun = False

    def __call__(self, event: Event) -> None:
        """Take the next event."""
        self.begun = True
        self._take(event)


@dataclass(frozen=True)
class ProxiedRequest(Request):
    """A request of another client: `parameters` are its body but for the model.

    `messages` are what of it a model reads; they serve to count tokens. With a `sink` the reply is requested as a
    stream, and the sink receives each event as it comes.
    """

    path: str = CHAT
    sink: Sink | None = field(default=None, compare=False)

    @cached_property
    def key(self) -> str:
        """The `digest` of path, address, body and sample."""
        names = {"base_url": self.base_url, "path": self.path, "sample": self.sample}
        return digest({"schema": KEY_SCHEMA, **names, "body": self.body})

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body of the request, without the parameters of a stream."""
        return {"model": self.model, **self.parameters}

    @property
    def begun(self) -> bool:
        """True if a part of the reply was passed on to the client."""
        return self.sink is not None and self.sink.begun

    @property
    def summary_parameters(self) -> Mapping[str, Any]:
        """The parameters but for what a model reads."""
        return {name: value for name, value in self.parameters.items() if name not in PROMPTS}

    @property
    def is_internal(self) -> bool:
        """No: another client sees the refusal of a parameter."""
        return False

    @property
    def generates(self) -> bool:
        """True if the model generates tokens for the reply."""
        return self.path != EMBEDDINGS


def make_proxied_request(
    base_url: str, path: str, body: Mapping[str, Any], *, sample: int = 0, sink: Sink | None = None
) -> ProxiedRequest:
    """Return the proxied request for a body; ValueError if the body is not usable. Streaming is not part of the key."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError("'model' is missing, or no text")
    rest = {name: value for name, value in body.items() if name not in ("model", "stream", "stream_options")}
    made = ProxiedRequest(base_url, model, _messages(rest), rest, sample, path=path, sink=sink)
    _ = made.key
    return made


def _messages(body: Mapping[str, Any]) -> tuple[Message, ...]:
    found: list[Any] = []
    for name in PROMPTS:
        value = body.get(name)
        found += value if isinstance(value, list) and not is_token_list(value) else [value]
    messages = (
        {"role": "user", "content": item} if isinstance(item, str) or is_token_list(item) else item
        for item in found
    )
    return tuple(message for message in messages if isinstance(message, Mapping))


def is_token_list(value: object) -> bool:
    """True if the text to embed is given as tokens."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], int)


def reply_record(path: str, answer: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed answer; raises as `record` of its API."""
    if path == RESPONSES:
        found = responses.record(answer)
    else:
        found = _completion(answer) if path == CHAT else _embeddings(answer)
    text = json.dumps(answer, separators=(",", ":"), sort_keys=True)
    written = len(json.dumps(text))
    if written > MAX_BODY_LENGTH:
        raise TooLarge(
            f"the answer takes {written:,} characters in a cassette, and at most {MAX_BODY_LENGTH:,} can be kept: ask "
            "for less at once, such as fewer texts to embed"
        )
    kept = ("model", "finish_reason", "tokens_in", "tokens_out")
    return {"text": text, **{name: found[name] for name in kept}}


def _completion(answer: Any) -> dict[str, Any]:
    """The fields of a chat completion, each of whose choices is whole."""
    first = completions.record(answer)
    others = [completions.record({**answer, "choices": [choice]}) for choice in answer["choices"][1:]]
    return next((each for each in (first, *others) if each["finish_reason"] == "length"), first)


def _embeddings(answer: Any) -> dict[str, Any]:
    vectors = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(vectors, list) or not vectors:
        raise ValueError("it has no data")
    return {"finish_reason": "stop", **completions.reported(answer, "prompt_tokens", "completion_tokens")}


async def send_proxied_request(client: "AsyncOpenAI", proxied: ProxiedRequest) -> Answer:
    """Send a proxied request once, and return the whole answer, also where it comes as a stream.

    Raises:
        StreamEndedEarly: the stream ended before its end.
        OpenAIError, HTTPError: as from the client, and from the connection while the answer is read.
    """
    import httpx2  # noqa: PLC0415 - loaded with the client

    if proxied.sink is None:
        response = await client.post(proxied.path, cast_to=httpx2.Response, body=proxied.body)
        return Answer(response.content, response.headers)
    body = {**proxied.body, "stream": True}
    if proxied.path == CHAT:
        # So that its tokens are counted.
        body["stream_options"] = {"include_usage": True}
    response = await _open_stream(client, proxied.path, body)
    try:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            return Answer(await response.aread(), response.headers)
        stream = _Stream(proxied.path, proxied.sink)
        async for event in _events(response):
            stream.take(event)
        if not stream.whole:
            raise StreamEndedEarly("the stream ended early")
        return Answer(json.dumps(stream.answer).encode(), response.headers)
    finally:
        await response.aclose()


async def _open_stream(client: "AsyncOpenAI", path: str, body: dict[str, Any]) -> "httpx2.Response":
    """Return the unread response to a stream; some servers do not know `stream_options`."""
    import httpx2  # noqa: PLC0415 - loaded with the client
    import openai  # noqa: PLC0415 - likewise

    async def opened(body: dict[str, Any]) -> httpx2.Response:
        # `stream` alone leaves the response unread.
        return await client.post(path, cast_to=httpx2.Response, body=body, stream=True)

    try:
        return await opened(body)
    except openai.APIStatusError as error:
        if error.status_code not in {400, 422} or "stream_options" not in error.response.text:
            raise
    return await opened({name: value for name, value in body.items() if name != "stream_options"})


async def _events(response: "httpx2.Response") -> AsyncIterator[Event]:
    """Yield the server-sent events of a response."""
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


class _Stream:
    """Passes the events of a stream on, and puts the whole answer together."""

    def __init__(self, path: str, sink: Sink) -> None:
        self._path = path
        self._sink = sink
        self.answer: dict[str, Any] = {}

    def take(self, event: Event) -> None:
        """Take the next event; an error of the server ends the stream."""
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
    def whole(self) -> bool:
        """True if the end of the stream was received."""
        if self._path == RESPONSES:
            return bool(self.answer)
        choices = self.answer.get("choices")
        return bool(choices) and all(choice.get("finish_reason") for choice in choices or ())


def _add_chunk(answer: dict[str, Any], chunk: Mapping[str, Any]) -> None:
    """Add a chunk of a stream to the chat completion that it is a part of."""
    for name, value in chunk.items():
        if name != "choices" and value is not None:
            answer[name] = "chat.completion" if name == "object" else value
    choices = answer.setdefault("choices", [])
    for part in chunk.get("choices") or ():
        index = part.get("index", 0)
        choice = next((each for each in choices if each["index"] == index), None)
        if choice is None:
            choice = {"index": index, "message": {"role": "assistant", "content": None}}
            choices.append(choice)
            choices.sort(key=lambda each: each["index"])
        for name, value in part.items():
            if name == "delta":
                _add_delta(choice["message"], value or {})
            elif name == "logprobs" and isinstance(value, Mapping):
                _add_delta(choice.setdefault("logprobs", {}), value)
            elif value is not None or name not in choice:
                choice[name] = value


NAMES: Final = ("role", "type", "id", "name")  # texts that come whole


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add what a chunk says to a message: texts are continued, lists get longer."""
    for name, value in delta.items():
        before = message.get(name)
        if value is None or before is None:
            message[name] = _started(value) if value is not None or name not in message else before
        elif isinstance(value, str) and isinstance(before, str):
            message[name] = (before or value) if name in NAMES else before + value
        elif isinstance(value, list) and isinstance(before, list):
            _add_items(before, value)
        elif isinstance(value, Mapping) and isinstance(before, dict):
            _add_delta(before, value)
        else:
            message[name] = value


def _started(value: Any) -> Any:
    """Return a value's own copy; the place of an item in its list does not stay in it."""
    if isinstance(value, Mapping):
        return {name: _started(item) for name, item in value.items()}
    if isinstance(value, list):
        items: list[Any] = []
        _add_items(items, value)
        return items
    return value


def _add_items(items: list[Any], new: Sequence[Any]) -> None:
    for item in new:
        place = item.get("index") if isinstance(item, Mapping) else None
        if not isinstance(place, int):
            items.append(item)
            continue
        content = {name: value for name, value in item.items() if name != "index"}
        while len(items) <= place < len(items) + 64:
            items.append({})
        if place < len(items):
            _add_delta(items[place], content)


async def send_raw(
    client: "AsyncOpenAI", method: str, path: str, content: bytes, headers: Mapping[str, str]
) -> Answer:
    """Send a request of any kind once, and return the answer, whatever its status."""
    import httpx2  # noqa: PLC0415 - loaded with the client
    import openai  # noqa: PLC0415 - likewise

    options: Any = {"headers": dict(headers)}
    verbs: dict[str, Any] = {"POST": client.post, "PUT": client.put, "PATCH": client.patch}
    sent = {"content": content} if method in verbs else {}
    verbs |= {"GET": client.get, "DELETE": client.delete}
    try:
        response = await verbs[method](path, cast_to=httpx2.Response, options=options, **sent)
    except openai.APIStatusError as error:
        response = error.response
    return Answer(response.content, response.headers, response.status_code)
