"""Exchanges: requests of other clients that are sent as they are, and whose replies are kept whole.

A chat completion of this package keeps the text of its reply. A client behind the gateway reads more: several
choices, tool calls, log probabilities, embeddings. So the text of an exchange's `Reply` is the server's whole
answer, as JSON.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl

from pytest_rageval.errors import Unscored
from pytest_rageval.fingerprint import digest
from pytest_rageval.llm.messages import (
    KEY_SCHEMA,
    MOST_TOKENS,
    Billed,
    Message,
    Request,
    TooLarge,
)

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = [
    "CHAT",
    "EMBEDDINGS",
    "RESPONSES",
    "Answer",
    "BrokenOff",
    "EndedEarly",
    "Event",
    "Exchange",
    "Sink",
    "exchange_of",
    "record_of",
    "send_exchange",
    "send_raw",
]

CHAT: Final = "/chat/completions"
RESPONSES: Final = "/responses"
EMBEDDINGS: Final = "/embeddings"

PROMPTS: Final = ("messages", "input", "instructions")  # fields of a body that hold what a model reads
MOST_BODY: Final = 7 * 2**20  # characters; written in a cassette's line it may be twice as long
ENDED: Final = ("response.completed", "response.incomplete")  # events with a whole response


class Event(NamedTuple):
    """One event of a stream: its name, empty for chat completions, and its data."""

    name: str
    data: str


class Answer(NamedTuple):
    """The body and the headers of a server's answer, and its status."""

    content: bytes
    headers: Mapping[str, str]
    status: int = 200


class BrokenOff(Billed):
    """A stream ended before its end, when a part of it had been passed on."""


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
class Exchange(Request):
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
        """What is sent, but for the parameters of a stream."""
        return {"model": self.model, **self.parameters}

    @property
    def begun(self) -> bool:
        """Whether a part of its reply was passed on."""
        return self.sink is not None and self.sink.begun

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters but for what a model reads."""
        return {name: value for name, value in self.parameters.items() if name not in PROMPTS}

    @property
    def own(self) -> bool:
        """No: another client sees the refusal of a parameter."""
        return False

    @property
    def generates(self) -> bool:
        """Whether its reply has tokens of its own."""
        return self.path != EMBEDDINGS


def exchange_of(
    base_url: str, path: str, body: Mapping[str, Any], *, sample: int = 0, sink: Sink | None = None
) -> Exchange:
    """Return the exchange for a body; whether it is streamed does not belong to it. ValueError says what is wrong."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise ValueError("'model' is missing, or no text")
    rest = {name: value for name, value in body.items() if name not in ("model", "stream", "stream_options")}
    made = Exchange(base_url, model, _messages(rest), rest, sample, path=path, sink=sink)
    _ = made.key
    return made


def _messages(body: Mapping[str, Any]) -> tuple[Message, ...]:
    found: list[Any] = []
    for name in PROMPTS:
        value = body.get(name)
        found += value if isinstance(value, list) else [] if value is None else [value]
    messages = ({"role": "user", "content": item} if isinstance(item, str) else item for item in found)
    return tuple(message for message in messages if isinstance(message, Mapping))


def record_of(path: str, answer: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed answer; ValueError says why there is none."""
    if not isinstance(answer, Mapping):
        raise ValueError("it is no object")  # noqa: TRY004 - the text is at fault, not an argument's type
    content = {CHAT: "choices", RESPONSES: "output", EMBEDDINGS: "data"}[path]
    parts = answer.get(content)
    if not isinstance(parts, list) or (not parts and path != RESPONSES):
        raise ValueError(f"it has no {content}")
    reason = "stop"
    if path == CHAT:
        reasons = [part.get("finish_reason") if isinstance(part, Mapping) else None for part in parts]
        if not all(isinstance(each, str) for each in reasons) or "error" in reasons:
            raise ValueError("it broke off")
        reason = "length" if "length" in reasons else str(reasons[0])
    elif path == RESPONSES:
        if answer.get("status", "completed") not in {"completed", "incomplete"}:
            raise ValueError(f"its status is {str(answer.get('status'))!r:.40}")
        reason = "length" if answer.get("status") == "incomplete" else "stop"
    text = json.dumps(answer, separators=(",", ":"), sort_keys=True)
    if len(text) > MOST_BODY:
        raise TooLarge(f"the answer has {len(text):,} characters, and at most {MOST_BODY:,} can be kept")
    usage = answer.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    model = answer.get("model")
    return {
        "text": text,
        "model": model if isinstance(model, str) else "",
        "finish_reason": reason,
        "tokens_in": _count(counts, "prompt_tokens", "input_tokens"),
        "tokens_out": _count(counts, "completion_tokens", "output_tokens"),
    }


def _count(counts: Mapping[str, Any], *names: str) -> int:
    value = next((counts[name] for name in names if name in counts), 0)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else 0


async def send_exchange(client: "AsyncOpenAI", exchange: Exchange) -> Answer:
    """Send an exchange once, and return the whole answer, also where it comes as a stream.

    Raises:
        BrokenOff: the stream ended early, after a part of it was passed on.
        OpenAIError: as from the client.
    """
    import httpx2  # noqa: PLC0415 - loaded with the client

    if exchange.sink is None:
        response = await client.post(exchange.path, cast_to=httpx2.Response, body=exchange.body)
        return Answer(response.content, response.headers)
    body = {**exchange.body, "stream": True}
    if exchange.path == CHAT:
        # So that its tokens are counted.
        body["stream_options"] = {"include_usage": True}
    response = await _opened(client, exchange.path, body)
    try:
        if "text/event-stream" not in response.headers.get("content-type", ""):
            return Answer(await response.aread(), response.headers)
        stream = _Stream(exchange.path, exchange.sink)
        try:
            async for event in _events(response):
                stream.take(event)
        except httpx2.HTTPError as error:
            raise _broken(stream, f"the connection broke off: {type(error).__name__}") from None
        if not stream.whole:
            raise _broken(stream, "the stream ended early")
        return Answer(json.dumps(stream.answer).encode(), response.headers)
    finally:
        await response.aclose()


async def _opened(client: "AsyncOpenAI", path: str, body: dict[str, Any]) -> "httpx2.Response":
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


def _broken(stream: "_Stream", reason: str) -> Exception:
    # Once a part is passed on, another attempt would send it twice.
    return BrokenOff(reason) if stream.sink.begun else EndedEarly(reason)


class EndedEarly(Unscored):
    """A stream ended before anything of it was passed on."""


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
        self.sink = sink
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
            raise _broken(self, f"an event of the stream is no JSON object: {event.data[:80]!r}")
        if chunk.get("error") and not chunk.get("choices"):
            error = chunk["error"]
            words = error.get("message") if isinstance(error, Mapping) else error
            raise _broken(self, f"the server reported in the stream: {str(words)[:200]}")
        if self._path == RESPONSES:
            if (event.name or chunk.get("type")) in ENDED and isinstance(chunk.get("response"), Mapping):
                self.answer = dict(chunk["response"])
        else:
            _add_chunk(self.answer, chunk)
        self.sink(event)

    @property
    def whole(self) -> bool:
        """Whether the end has come."""
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

    url, _, query = path.partition("?")
    options: Any = {"headers": dict(headers), "params": dict(parse_qsl(query, keep_blank_values=True))}
    verbs: dict[str, Any] = {"POST": client.post, "PUT": client.put, "PATCH": client.patch}
    sent = {"content": content} if method in verbs else {}
    verbs |= {"GET": client.get, "DELETE": client.delete}
    try:
        response = await verbs[method](url, cast_to=httpx2.Response, options=options, **sent)
    except openai.APIStatusError as error:
        response = error.response
    return Answer(response.content, response.headers, response.status_code)
