"""Requests with their cache keys, replies, and the answers in them."""

import json
import marshal
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from itertools import count
from json.encoder import encode_basestring
from typing import Any, Final, Self, TypeVar

from pytest_rageval.core.errors import Unscored
from pytest_rageval.lib.digests import canonical_json, text_digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.options.settings import Api

Message = JsonObject  # a chat message: `{"role": "user", "content": "…"}`
KEY_SCHEMA: Final = 1  # part of every key; a higher number makes all stored replies unfindable
MAX_REPLY_LENGTH: Final = 2**20  # characters; far more than any answer or verdict has
MAX_TOKEN_COUNT: Final = (1 << 63) - 1  # the largest integer of SQLite
FIRST_RUN_LOCAL_SAMPLE: Final = 10**9  # requests with a sample number from here on are sent by one run only
T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A request for one chat completion: everything that can change its reply, and nothing else.

    Parameters of sampling and format (`temperature`, `max_tokens`, `stop`, `seed`, `tools`, `response_format` …) are
    sent unchanged. Timeouts, retries and API keys are no part of a request. `parts` are the texts that the messages are
    made of, by name, such as the question and each passage: they explain a missing reply.
    """

    base_url: str  # the server's URL, or a name for a server without a fixed address
    model: str  # the model's name at the server
    messages: tuple[Message, ...]
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    sample: int = 0  # 0, 1, 2 … distinguishes repeated draws of the same prompt; not sent
    parts: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    api: Api = "chat"  # the API that the request is sent to

    @cached_property
    def key(self) -> str:
        """The `digest` of all attributes except `parts`; raises as `digest`."""
        return self.keys_for_samples((self.sample,))[0]

    def keys_for_samples(self, samples: Iterable[int]) -> list[str]:
        """Return the digest of the attributes in canonical JSON, for each sample."""
        others = self.api, self.base_url, self.model, dict(self.parameters)
        try:
            # Most requests differ in their messages alone: the rest is encoded once. Equal values have equal bytes.
            before, after = _encoded_others(marshal.dumps(others, 2))
        except ValueError:
            before, after = _encode_others(*others)
        text = f"{before}{self._canonical_messages()}{after}"
        return [text_digest(f'{text}{sample},"schema":{KEY_SCHEMA}}}') for sample in samples]

    def _canonical_messages(self) -> str:
        if len(self.messages) == 1 and self.messages[0].keys() == {"role", "content"}:
            role, content = self.messages[0]["role"], self.messages[0]["content"]
            if type(role) is type(content) is str:
                # A fast path for the most common request: it takes a third of the time.
                return f'[{{"content":{encode_basestring(content)},"role":{encode_basestring(role)}}}]'
        return canonical_json([dict(message) for message in self.messages])

    def well_formed_messages(self) -> list[dict[str, object]]:
        """Return copies of the messages whose texts can be encoded as UTF-8; see `replace_surrogates`."""
        return [
            {name: replace_surrogates(value) for name, value in message.items()} for message in self.messages
        ]

    @property
    def summary_parameters(self) -> Mapping[str, object]:
        return self.parameters

    @property
    def is_internal(self) -> bool:
        """Whether this package made the request. If so, it may be sent without a parameter that the server refuses."""
        return True

    @property
    def generates(self) -> bool:
        """Whether the model generates tokens for the reply, which it does not for an embedding."""
        return True


def _encode_others(api: str, base_url: str, model: str, parameters: Mapping[str, object]) -> tuple[str, str]:
    """Return what a key has before the messages and between them and the sample, in canonical JSON."""
    # The default API is omitted: requests to it have the same keys as before other APIs were supported.
    other = "" if api == "chat" else f'"api":{canonical_json(api)},'
    return (
        f'{{{other}"base_url":{canonical_json(base_url)},"messages":',
        f',"model":{canonical_json(model)},"parameters":{canonical_json(parameters)},"sample":',
    )


@lru_cache(maxsize=1 << 6)
def _encoded_others(data: bytes) -> tuple[str, str]:
    return _encode_others(*marshal.loads(data))  # noqa: S302 - written by this process  # nosec B302


class BilledFailure(Unscored):
    """The request failed, and the server may charge for it."""


class TooLarge(BilledFailure):
    """The server's answer, or the reply in it, exceeds the limit of size."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply, as the server sent it."""

    text: str  # the message's content; empty if the model refused or wrote nothing
    model: str = ""  # the server's name for the model, often with a version that the request does not have
    finish_reason: str = "stop"  # "length" if the token limit cut the reply; otherwise the server's word
    tokens_in: int = 0  # tokens of the prompt; 0 if the server does not report them
    tokens_out: int = 0  # tokens of the reply; 0 if the server does not report them
    refusal: str = ""  # the model's text if it refused to answer
    tool_calls: str = ""  # the server's JSON
    without: str = ""  # the names of parameters that were left out because the server refuses them
    # Whether the server sent reasoning in a field of its own, and the server's name for the service tier. Neither is
    # stored, but all names of fields are part of the key if a reply is an argument of a cached function.
    apart: bool = field(default=False, compare=False)
    tier: str = field(default="", compare=False)

    @property
    def cut(self) -> bool:
        return self.finish_reason == "length"

    @property
    def silent(self) -> bool:
        """Whether the reply has no answer and no tool call; it counts only in its own run, and another may answer."""
        if self.text[:1] == "{":
            return _is_silent_response(self.text)
        return not self.tool_calls and not without_reasoning(self.text)

    @property
    def reports_tokens_in(self) -> bool:
        """Whether the server reported the tokens of the prompt; a prompt is never empty, so 0 means no report."""
        return self.tokens_in > 0

    @property
    def reports_tokens_out(self) -> bool:
        """Whether the server reported the tokens of the reply; a reply of 0 tokens is empty."""
        content = self.text or self.refusal or self.tool_calls
        return self.tokens_out > 0 or (self.reports_tokens_in and not content)

    @property
    def answer(self) -> str:
        return without_reasoning(self.text)

    @property
    def has_reasoning(self) -> bool:
        """Whether the server sent the model's reasoning, before the answer in the text or in a field of its own."""
        return self.apart or without_reasoning(self.text) != self.text.strip()

    def dumps(self, **first: Any) -> str:
        """Return one line of JSON: the entries of `first`, then the fields by name, without optional empty ones."""
        values = {name: getattr(self, name) for name in sorted(FIELD_TYPES)}
        record = first | {name: value for name, value in values.items() if value or name in REQUIRED_FIELDS}
        line = json.dumps(record, ensure_ascii=False)
        # `first` may contain half of a surrogate pair, which JSON can escape.
        return line if replace_surrogates(line) == line else json.dumps(record)

    def with_texts(self, change: Callable[[str], str]) -> Self:
        """Return the reply with each stored text as `change` returns it, and without halves of surrogate pairs."""
        names = (name for name, kind in FIELD_TYPES.items() if kind is str)
        texts: dict[str, Any] = {name: replace_surrogates(change(getattr(self, name))) for name in names}
        return replace(self, **texts)

    @classmethod
    def from_record(cls, record: object) -> "Reply":
        """Return the reply in a parsed line of `dumps`; ValueError if there is none. Unknown names are ignored."""
        if not isinstance(record, Mapping):
            raise ValueError(f"a reply is a JSON object, found {type(record).__name__}")  # noqa: TRY004 - of the text
        values: list[Any] = []
        for name, kind in FIELD_TYPES.items():
            value = record.get(name, None if name in REQUIRED_FIELDS else "")
            # The exact type: True is an int to isinstance.
            if type(value) is not kind:
                raise ValueError(f"{name!r} is {reprlib.repr(value)}, expected {kind.__name__}")
            if kind is int and not 0 <= value <= MAX_TOKEN_COUNT:
                raise ValueError(f"{name!r} is {reprlib.repr(value)}, expected a number of tokens")
            values.append(replace_surrogates(value))
        return cls(*values)


def _is_silent_response(text: str) -> bool:
    """Whether a text is the complete response to a `ProxiedRequest`, and no answer is in it."""
    # Most replies in JSON are no responses, and are not parsed.
    if '"choices":[' not in text and '"output":[' not in text:
        return False
    try:
        response = json.loads(text)
        if response.get("choices"):
            return all(_is_silent_message(choice["message"]) for choice in response["choices"])
        return all(
            item["type"] == "reasoning" or (item["type"] == "message" and _is_silent_message(item))
            for item in response["output"]
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return False


def _is_silent_message(message: JsonObject) -> bool:
    content = message.get("content") or ""
    texts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
    media = not isinstance(content, str) and any(part["type"] not in TEXT_TYPES for part in content)
    others = any(message.get(name) for name in ("tool_calls", "function_call", "audio", "images"))
    return not (media or others or without_reasoning("".join(texts)))


TEXT_TYPES: Final = {"text", "output_text", "refusal", "reasoning", "thinking"}
"""Types of the parts of a message that are text, or a refusal to write one."""

REQUIRED_FIELDS: Final = {"text", "model", "finish_reason", "tokens_in", "tokens_out"}
FIELD_TYPES: Final[dict[str, type[Any]]] = {
    each.name: int if each.name.startswith("tokens") else str for each in fields(Reply) if each.compare
}
"""The types of the fields that are stored, by name."""


def empty_reason(reply: Reply) -> str:
    """Return why a reply has no answer, to follow the words "is empty"; "" if the reply does not show why.

    >>> empty_reason(Reply("", finish_reason="length"))
    ': the token limit was reached before any text'
    """
    if reply.text.strip() or (reply.apart and not reply.refusal):
        reached = ": the token limit was reached while it was reasoning"
        return reached if reply.cut else ": it holds reasoning and no answer"
    if reply.refusal:
        return f": the model refused, {' '.join(reply.refusal.split())[:80]!r}"
    if reply.finish_reason == "content_filter":
        return ": a content filter withheld it"
    if reply.cut:
        return ": the token limit was reached before any text"
    return ""


_TAGS: Final = "think|thinking|thought|reasoning|seed:think"
_BLANK: Final = re.compile(r"\s*")
_OPENING_TAG: Final = re.compile(rf"[<\[◁](?:{_TAGS})(?:\s[^<>]{{0,200}})?[>\]▷]", re.IGNORECASE)
_CLOSING_TAG: Final = re.compile(rf"[<\[◁]/(?:{_TAGS})\s{{0,9}}[>\]▷]", re.IGNORECASE)
_QUOTES: Final = frozenset("\"'`“”‘’")

_CHANNEL_HEADER: Final = re.compile(
    r"(?: <\|start\|> \s* assistant \s* )? <\|channel\|> \s* (\w+) [^<]{0,200} "
    r"(?: <\|constrain\|> [^<]{0,200} )? <\|message\|>",
    re.VERBOSE,
)
"""The header of a message in gpt-oss's harmony format; the group is the name of the channel."""

_MESSAGE_END: Final = re.compile(r"<\|(?:end|return|call|start|channel)\|>")

_BARE_ANALYSIS: Final = re.compile(r"\s*analysis(?=[A-Z])")
_BARE_FINAL: Final = "assistantfinal"
"""Headers of messages in the harmony format, if the server has removed the special tokens."""


@lru_cache(maxsize=1 << 8)  # the store, the gateway and the score read the same reply
def without_reasoning(text: str) -> str:
    r"""Return a model's answer without the reasoning before it in the text.

    Reasoning is at the beginning, in tags such as `<think>` (in upper or lower case, with or without attributes), or in
    the channels of gpt-oss's harmony format. If the prompt template has the opening tag, the text has only the closing
    tag. If a tag is never closed, there is no answer, and the result is empty.

    >>> without_reasoning("<think>\nThe year differs.\n</think>\n\nno"), without_reasoning("It differs.</think>no")
    ('no', 'no')
    >>> without_reasoning("<|channel|>analysis<|message|>Why?<|end|><|channel|>final<|message|>no<|return|>")
    'no'
    """
    # A fast path: most replies contain none of these.
    if not ("<" in text or "[" in text or "\u25c1" in text or "analysis" in text):
        return text.strip()
    final = _final_message(text)
    if final is not None:
        return final.strip()
    start = 0
    while True:
        blank = _BLANK.match(text, start)
        opening = _OPENING_TAG.match(text, blank.end() if blank else start)
        closing = _find_closing_tag(text, opening.end() if opening else start)
        if opening and not closing:
            return ""
        if not closing or (not opening and _OPENING_TAG.search(text, start, closing.start())):
            return text[start:].strip()
        start = closing.end()


def _find_closing_tag(text: str, start: int) -> re.Match[str] | None:
    """Return the first closing tag after `start` that is not between quotes."""
    for tag in _CLOSING_TAG.finditer(text, start):
        around = text[tag.start() - 1 : tag.start()], text[tag.end() : tag.end() + 1]
        if not _QUOTES.issuperset(around):
            return tag
    return None


def _final_message(text: str) -> str | None:
    """Return the final message of a text in the harmony format, "" if it has none; None for other texts."""
    headers = list(_CHANNEL_HEADER.finditer(text)) if text.lstrip().startswith("<|") else []
    if headers and not text[: headers[0].start()].strip():
        header = next((header for header in reversed(headers) if header[1].lower() == "final"), headers[-1])
        end = _MESSAGE_END.search(text, header.end())
        if header[1].lower() == "final":
            return text[header.end() : end.start() if end else None]
        # Some servers remove only the header of the final message.
        return text[end.end() :] if end and end[0] == "<|end|>" else ""
    if _BARE_ANALYSIS.match(text):
        return text.rpartition(_BARE_FINAL)[2] if _BARE_FINAL in text else ""
    return None


def replace_surrogates(value: T) -> T:
    """Return a text with U+FFFD in place of each half of a surrogate pair; return other values unchanged.

    A cut reply may end with such a half, which neither UTF-8 nor SQLite can store.
    """
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # type: ignore[return-value]


REPLY_PLACEHOLDER: Final = re.compile(r"⟪reply ([0-9a-f]{16})⟫")
"""Replaces the text of a reply in a plan. The group is the beginning of the request's key."""


_UNKNOWN_ANSWERS: Final = count()


def unknown_answer() -> str:
    """Return a placeholder, unlike any other, for an answer of the user's generator, which a plan does not call."""
    return f"⟪reply {next(_UNKNOWN_ANSWERS):016x}⟫"


def is_placeholder(text: str) -> bool:
    # Most texts are none, and each answer is checked.
    return text[:1] == "⟪" and REPLY_PLACEHOLDER.fullmatch(text) is not None


def has_placeholder(text: str) -> bool:
    return REPLY_PLACEHOLDER.search(text) is not None
