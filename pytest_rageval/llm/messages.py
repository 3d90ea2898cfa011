"""Requests with their cache keys, replies, and request summaries that explain a missing reply.

A cassette goes into git, and prompts may hold private text. So a summary has only a short hash of each part of
a prompt, unless `--rageval-record-prompts` asks for its text.
"""

import json
import marshal
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any, Final, TypedDict, TypeVar, cast

from pytest_rageval.config import Api
from pytest_rageval.digests import canonical, digest, text_digest
from pytest_rageval.errors import Unscored
from pytest_rageval.llm.reasoning import without_reasoning

__all__ = [
    "FIRST_RUN_LOCAL_SAMPLE",
    "KEY_SCHEMA",
    "MAX_REPLY_LENGTH",
    "MAX_TOKEN_COUNT",
    "RUN_FIELD",
    "BilledFailure",
    "LazyParts",
    "Message",
    "Reply",
    "Request",
    "RequestSummary",
    "TooLarge",
    "describe_differences",
    "describe_parameters",
    "empty_reason",
    "find_nearest",
    "read_summary",
    "replace_surrogates",
    "request_summary",
]

Message = Mapping[str, Any]
"""A chat message: `{"role": "user", "content": "…"}`."""

KEY_SCHEMA: Final = 1  # part of every key; raise it to make all kept replies unfindable
MAX_REPLY_LENGTH: Final = 2**20  # the most characters of a reply; no answer and no verdict has so many
MAX_TOKEN_COUNT: Final = (1 << 63) - 1  # the largest integer of SQLite
WHITE_SPACE: Final = " \t\n\v\f\r"
T = TypeVar("T")


class LazyParts(Mapping[str, str]):
    """The parts of a request, made when something reads them: for a reply that is kept, nothing does."""

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, str]:
        return self._make()

    def __getitem__(self, name: str) -> str:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True)
class Request:
    """One chat completion, with everything that can change its reply and nothing else.

    Parameters are of sampling and format (`temperature`, `max_tokens`, `stop`, `seed`, `tools`, `response_format`
    …), sent unchanged; never timeouts, retries or API keys. LazyParts are what the messages are made of, by name, such
    as the question and each passage: they explain a missing reply.
    """

    base_url: str  # the server's URL, or a name for a server without a fixed address
    model: str  # its name at the server
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    sample: int = 0  # 0, 1, 2 … distinguishes repeated draws of the same prompt; it is not sent
    parts: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    api: Api = "chat"  # the path that it is sent to

    @cached_property
    def key(self) -> str:
        """The `digest` of all attributes but `parts`; raises as that does."""
        return self.keys_for_samples((self.sample,))[0]

    def keys_for_samples(self, samples: Iterable[int]) -> list[str]:
        """Return the keys of this request in other samples."""
        keys, messages = [], _canonical_messages(self.messages)
        for sample in samples:
            around = self.base_url, self.model, self.api, sample, self.parameters
            try:
                before, after = _around_messages(marshal.dumps(cast("Any", around), 2))
            except (TypeError, ValueError):
                # Values that only JSON's encoder knows, or that it does not know either.
                before, after = _around(*around)
            keys.append(text_digest(f"{before}{messages}{after}"))
        return keys

    def well_formed_messages(self) -> list[dict[str, Any]]:
        """Return copies of the messages whose texts can be encoded as UTF-8; see `replace_surrogates`."""
        return [
            {name: replace_surrogates(value) for name, value in message.items()} for message in self.messages
        ]

    @property
    def summary_parameters(self) -> Mapping[str, Any]:
        """The parameters that its summary shows."""
        return self.parameters

    @property
    def is_internal(self) -> bool:
        """Whether this package made it: it may be sent without a parameter that the server refuses."""
        return True

    @property
    def generates(self) -> bool:
        """Whether its reply has tokens of its own, unlike an embedding."""
        return True


@lru_cache(maxsize=1 << 8)
def _around_messages(marshalled: bytes) -> tuple[str, str]:
    """`_around` of what was marshalled, which most requests of a run have in common."""
    return _around(*marshal.loads(marshalled))  # noqa: S302 - marshalled by this process  # nosec B302


def _around(
    base_url: str, model: str, api: Api, sample: int, parameters: Mapping[str, Any]
) -> tuple[str, str]:
    """The canonical form of a request before and after its messages."""
    # Absent where it is the usual one: keys are as they were when there was no other.
    other = {} if api == "chat" else {"api": api}
    first = canonical({**other, "base_url": base_url})
    last = canonical({"model": model, "parameters": dict(parameters), "sample": sample, "schema": KEY_SCHEMA})
    return f'{first[:-1]},"messages":', f",{last[1:]}"


def _canonical_messages(messages: Sequence[Message]) -> str:
    if len(messages) == 1:
        role, content = messages[0].get("role"), messages[0].get("content")
        if type(role) is type(content) is str and len(messages[0]) == 2:  # noqa: PLR2004 - these two
            # The usual request, in a third of the time: JSON's encoder writes texts without preparation.
            return f'[{{"content":{canonical(content)},"role":{canonical(role)}}}]'
    return canonical([dict(message) for message in messages])


class BilledFailure(Unscored):
    """The request failed, and the server may charge for it."""


class TooLarge(BilledFailure):
    """The server's answer, or the reply in it, is larger than any that can be used."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply, as the server gave it."""

    text: str  # the message's content; empty where the model refused or wrote nothing
    model: str = ""  # the server's name for it, often with a version that the request lacks
    finish_reason: str = "stop"  # "length" where the token limit cut the reply; or the server's own word
    tokens_in: int = 0  # of the prompt; 0 where the server does not count
    tokens_out: int = 0  # of the reply, likewise
    refusal: str = ""  # why the model would not answer, in its words
    tool_calls: str = ""  # as the server's JSON
    without: str = ""  # parameters that the server refuses and the request was sent without
    separate_reasoning: bool = field(
        default=False, compare=False
    )  # whether the server sent reasoning apart; it is not kept
    tier: str = field(default="", compare=False)  # the server's name for the service tier; it is not kept

    @property
    def cut(self) -> bool:
        """Whether the token limit ended it."""
        return self.finish_reason == "length"

    @property
    def silent(self) -> bool:
        """Whether the model stopped without any content and without a reason."""
        content = self.text.strip(WHITE_SPACE) or self.refusal or self.tool_calls
        return not content and self.finish_reason == "stop"

    @property
    def reports_tokens_in(self) -> bool:
        """Whether the server reported the tokens of the prompt, which is never empty."""
        return self.tokens_in > 0

    @property
    def reports_tokens_out(self) -> bool:
        """Whether the server reported the tokens of the reply; 0 is possible only for an empty one."""
        content = self.text or self.refusal or self.tool_calls
        return self.tokens_out > 0 or (self.reports_tokens_in and not content)

    @property
    def answer(self) -> str:
        """The text without the reasoning before it; see `without_reasoning`."""
        return without_reasoning(self.text)

    @property
    def has_reasoning(self) -> bool:
        """Whether the model's reasoning came with it, before its answer or apart."""
        return self.separate_reasoning or self.answer != self.text.strip()

    def dumps(self, **before: Any) -> str:
        """Return one line of JSON: `before`, then the fields sorted by name, without optional empty ones."""
        values = ((name, getattr(self, name)) for name in sorted(FIELD_TYPES))
        record = before | {name: value for name, value in values if value or name in REQUIRED_FIELDS}
        line = json.dumps(record, ensure_ascii=False)
        # `before` may hold half of a surrogate pair, which JSON can escape.
        return line if replace_surrogates(line) == line else json.dumps(record)

    @classmethod
    def from_record(cls, record: object) -> "Reply":
        """Return the reply that `dumps` wrote, parsed; ValueError says why it is none. Unknown names are ignored."""
        if not isinstance(record, Mapping):
            message = f"a reply is a JSON object, found {type(record).__name__}"
            raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
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


REQUIRED_FIELDS: Final = {"text", "model", "finish_reason", "tokens_in", "tokens_out"}
STORED_FIELDS: Final = [each.name for each in fields(Reply) if each.compare]
FIELD_TYPES: Final[dict[str, type[Any]]] = {
    name: int if name.startswith("tokens") else str for name in STORED_FIELDS
}


def empty_reason(reply: Reply) -> str:
    """Return why a reply has no answer, as far as it shows, to follow "is empty".

    >>> empty_reason(Reply("", finish_reason="length"))
    ': the token limit was reached before any text'
    """
    if reply.text.strip() or (reply.separate_reasoning and not reply.refusal):
        reached = ": the token limit was reached while it was reasoning"
        return reached if reply.cut else ": it holds reasoning and no answer"
    if reply.refusal:
        return f": the model refused, {' '.join(reply.refusal.split())[:80]!r}"
    if reply.finish_reason == "content_filter":
        return ": a content filter withheld it"
    if reply.cut:
        return ": the token limit was reached before any text"
    return ""


def replace_surrogates(value: T) -> T:
    """Replace half of a surrogate pair, with which a cut reply may end, by U+FFFD; other values are unchanged.

    Neither UTF-8 nor SQLite can hold such a half, and a reply must read the same now and from the cache.
    """
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # type: ignore[return-value]


FIRST_RUN_LOCAL_SAMPLE: Final = 10**9  # sample numbers from here on are of requests that only one run makes
RUN_FIELD: Final = "run"  # in the cache a summary also has the run that sent the request
HASH_DIGITS: Final = 12
MAX_SHOWN_LENGTH: Final = 60  # longer parameters are hashed; characters of JSON

ALWAYS_HASHED: Final = {"extra_body", "metadata", "user", "safety_identifier"}
"""Parameters that may hold anything, such as keys and names; they are always hashed."""

QUESTION_WEIGHT: Final = 4.0  # of an equal question for nearness; every other equal fact counts 1


class RequestSummary(TypedDict, total=False):
    """What the cache and the cassette say about a request; long parameters and all parts are hashes."""

    base_url: str
    model: str
    api: str  # where it is not that of chat completions
    parameters: dict[str, Any]
    sample: int
    parts: dict[str, str]
    messages: list[Any]


def request_summary(request: Request, *, prompts: bool = False) -> RequestSummary:
    """Return the summary of a request; with `prompts` it has the messages in full."""
    summary: RequestSummary = {
        "base_url": request.base_url,
        "model": request.model,
        "parameters": {
            name: _shown(name, value) for name, value in sorted(request.summary_parameters.items())
        },
        "sample": request.sample,
        "parts": {name: _hash(text) for name, text in _parts(request).items()},
    }
    if request.api != "chat":
        summary["api"] = request.api
    if prompts:
        summary["messages"] = _plain(request.messages)
    return summary


def describe_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters for a fingerprint: each a text, a number or null, as its JSON or a hash where it is longer.

    >>> describe_parameters({"temperature": 0.5, "chat_template_kwargs": {"enable_thinking": False}})
    {'temperature': 0.5, 'chat_template_kwargs': '{"enable_thinking": false}'}
    """
    shown = {name: _shown(name, value) for name, value in parameters.items()}
    return {
        name: json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
        for name, value in shown.items()
    }


def read_summary(found: object) -> RequestSummary:
    """Return a summary that was read from a file; {} where it is none."""
    if not isinstance(found, dict):
        return {}
    texts = all(isinstance(found.get(name, ""), str) for name in ("base_url", "model", "api"))
    objects = all(isinstance(found.get(name, {}), dict) for name in ("parameters", "parts"))
    known = {name: value for name, value in found.items() if name != RUN_FIELD} if texts and objects else {}
    return cast("RequestSummary", known)


def find_nearest(request: RequestSummary, recorded: Iterable[RequestSummary]) -> RequestSummary | None:
    """Return the recorded summary that has most in common with a request's; None where none shares a part."""
    facts = _facts(request)

    def nearness(summary: RequestSummary) -> float:
        theirs = _facts(summary)
        equal = [name for name, value in facts.items() if theirs.get(name) == value]
        if not any(name[0] == "parts" for name in equal):
            return 0.0
        common = sum(QUESTION_WEIGHT if name[-1] == "question" else 1.0 for name in equal)
        # Of two with as much in common, the one with less that differs.
        return common - 0.01 * len(facts.keys() ^ theirs.keys())

    best = max(recorded, key=nearness, default=None)
    return best if best is not None and nearness(best) > 0 else None


def describe_differences(request: RequestSummary, recorded: RequestSummary) -> list[str]:
    """Return how a request differs from a recorded one: "model: m1, now m2", "passage 2 (new)"; may be empty."""
    before, now = _facts(recorded), _facts(request)
    changes = []
    for name in now | before:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if name[0] == "parts":
            change = "gone" if new is None else "new" if old is None else "other text"
            changes.append(f"{name[-1]} ({change})")
        else:
            old, new = ("not given" if value is None else value for value in (old, new))
            changes.append(f"{name[-1]}: {old}, now {new}")
    return changes


def _parts(request: Request) -> Mapping[str, str]:
    if request.parts:
        return request.parts
    return {
        f"message {n} ({message.get('role', '?')})": json.dumps(_plain(message), sort_keys=True)
        for n, message in enumerate(request.messages, 1)
    }


def _facts(summary: RequestSummary) -> dict[tuple[str, ...], Any]:
    """Flatten a summary to values by path."""
    values = cast("Mapping[str, Any]", summary)
    facts: dict[tuple[str, ...], Any] = {
        (name,): values[name] for name in ("model", "base_url", "api", "sample") if name in values
    }
    for name in ("parameters", "parts"):
        inner = values.get(name)
        if isinstance(inner, Mapping):
            facts |= {(name, key): value for key, value in inner.items()}
    return facts


def _shown(name: str, value: Any) -> Any:
    value = _plain(value)
    shown = len(json.dumps(value)) <= MAX_SHOWN_LENGTH and name not in ALWAYS_HASHED
    return value if shown else f"sha256:{digest(value)[:HASH_DIGITS]}"


def _plain(value: Any) -> Any:
    """Replace other mappings and tuples by JSON's own types."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _hash(text: str) -> str:
    return text_digest(text)[:HASH_DIGITS]
