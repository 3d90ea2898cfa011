"""Requests with their cache keys, replies, and request summaries that explain a cache miss.

A cassette goes into git, and prompts may hold what must not. So a summary has a short hash of each part of a
prompt, unless its text is asked for with `--rageval-record-prompts`.
"""

import hashlib
import json
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, TypeVar

from pytest_rageval.errors import Unscored
from pytest_rageval.fingerprint import digest

__all__ = [
    "MOST_TEXT",
    "MOST_TOKENS",
    "RUN",
    "Message",
    "Reply",
    "Request",
    "TooLarge",
    "difference",
    "nearest",
    "read_outline",
    "request_summary",
    "silence",
    "well_formed",
    "without_reasoning",
]

Message = Mapping[str, Any]
"""A chat message: `{"role": "user", "content": "…"}`."""

KEY_SCHEMA = 1
"""Goes into every key: raised when keys of old must not be found any more."""


@dataclass(frozen=True)
class Request:
    """One chat completion, with everything that can change its reply and nothing that cannot.

    Attributes:
        base_url: of the server, or the name of one that has no lasting address.
        model: as the server knows it.
        messages: the conversation so far.
        parameters: of sampling and form (`temperature`, `max_tokens`, `stop`, `seed`, `tools`,
            `response_format` …), sent as they are. Never timeouts, retries or keys: they do not
            change what a model says.
        sample: 0, 1, 2 … tells apart repeated draws of the same prompt; it is not sent.
        parts: what the messages are made of, by name, such as the question and each passage. Not
            part of the key; by it a missing reply is explained.
    """

    base_url: str
    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    sample: int = 0
    parts: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)

    @cached_property
    def key(self) -> str:
        """SHA-256 over all attributes but `parts` in canonical form: 64 hex digits.

        Raises:
            TypeError: a message or parameter holds something JSON cannot express.
            ValueError: likewise NaN or an infinity.
        """
        return digest(
            {
                "schema": KEY_SCHEMA,
                "base_url": self.base_url,
                "model": self.model,
                "messages": [dict(message) for message in self.messages],
                "parameters": dict(self.parameters),
                "sample": self.sample,
            }
        )


T = TypeVar("T")

MOST_TEXT: Final = 2**20
"""Characters of a reply: no answer and no verdict has so many, and each is parsed, compared and kept."""


class TooLarge(Unscored):
    """The server's answer, or the reply in it, is larger than any that can be used."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply, as the server gave it.

    Attributes:
        text: the message's content; empty where the model said nothing or refused.
        model: as the server names it, often with a version that the request lacks.
        finish_reason: `"stop"`; `"length"` where the token limit cut the reply; or the server's word.
        tokens_in: tokens of the prompt, 0 where the server does not count.
        tokens_out: tokens of the reply, likewise.
        refusal: why the model would not answer, in its words; mostly empty.
        tool_calls: the calls the model wants made, as the server's JSON; mostly empty.
        without: parameters of the request that the model refuses, so that it was asked without
            them; several are separated by a space. Mostly empty.
    """

    text: str
    model: str = ""
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    refusal: str = ""
    tool_calls: str = ""
    without: str = ""

    @property
    def cut(self) -> bool:
        """Whether the token limit ended it before the model did."""
        return self.finish_reason == "length"

    @property
    def silent(self) -> bool:
        """Whether the model ended without having said anything, and without a reason."""
        said = self.text.strip(SPACE) or self.refusal or self.tool_calls
        return not said and self.finish_reason == "stop"

    @property
    def counts_in(self) -> bool:
        """Whether the server reported the tokens of the prompt, of which there is always one."""
        return self.tokens_in > 0

    @property
    def counts_out(self) -> bool:
        """Whether the server reported the tokens of the reply; none are right only where it says nothing."""
        said = self.text or self.refusal or self.tool_calls
        return self.tokens_out > 0 or (self.counts_in and not said)

    @property
    def answer(self) -> str:
        """The text without the reasoning before it; see `without_reasoning`."""
        return without_reasoning(self.text)

    def dumps(self, **before: Any) -> str:
        """One line of JSON: what is given, then the fields by name, but for rare ones that are empty."""
        record = dict(before)
        for name in sorted(KINDS):
            value = getattr(self, name)
            if value or name in REQUIRED:
                record[name] = value
        line = json.dumps(record, ensure_ascii=False)
        try:
            line.encode()
        except UnicodeEncodeError:
            # Half of a surrogate pair in what stands before; JSON has a form for it.
            line = json.dumps(record)
        return line

    @classmethod
    def loads(cls, line: str) -> "Reply":
        """The inverse of `dumps`.

        Raises:
            ValueError: the text is no such reply; it says why.
        """
        return cls.of(json.loads(line))

    @classmethod
    def of(cls, record: object) -> "Reply":
        """The reply in a parsed line; names it does not know are let pass.

        Raises:
            ValueError: it is no such reply; it says why.
        """
        if not isinstance(record, Mapping):
            message = f"a reply is a JSON object, found {type(record).__name__}"
            raise ValueError(message)  # noqa: TRY004 - the text is at fault, not an argument's type
        found = {name: record[name] for name in KINDS if name in record}
        for name, kind in KINDS.items():
            # Exactly: True is an int to isinstance.
            if (name in found or name in REQUIRED) and type(found.get(name)) is not kind:
                message = f"{name!r} is {reprlib.repr(found.get(name))}, expected {kind.__name__}"
                raise ValueError(message)
            if kind is int and not 0 <= found.get(name, 0) <= MOST_TOKENS:
                message = f"{name!r} is {reprlib.repr(found[name])}, expected a number of tokens"
                raise ValueError(message)
        return cls(**{name: well_formed(value) for name, value in found.items()})


def without_reasoning(text: str) -> str:
    r"""What a model says after its reasoning, where its server leaves the reasoning in the text.

    Reasoning is what stands at the beginning in tags such as `<think>`, in any case and perhaps with
    attributes. Where a prompt template has opened the tag, the text begins with the reasoning and only
    closes it. A tag that is opened and never closed leaves nothing: there is no answer.

    >>> without_reasoning("<think>\nThe year differs.\n</think>\n\nno"), without_reasoning("It differs.</think>no")
    ('no', 'no')
    """
    at = 0
    while True:
        blank = _BLANK.match(text, at)
        opened = _OPENED.match(text, blank.end() if blank else at)
        closed = _CLOSED.search(text, opened.end() if opened else at)
        if opened and not closed:
            return ""
        if not closed or (not opened and _OPENED.search(text, at, closed.start())):
            return text[at:].strip()
        at = closed.end()


_TAGS: Final = "think|thinking|thought|reasoning|seed:think"
_BLANK: Final = re.compile(r"\s*")
_OPENED: Final = re.compile(rf"[<\[](?:{_TAGS})(?:\s[^<>]{{0,200}})?[>\]]", re.IGNORECASE)
_CLOSED: Final = re.compile(rf"[<\[]/(?:{_TAGS})\s{{0,9}}[>\]](?![\"'`”’])", re.IGNORECASE)
"""Not one that is quoted."""


def silence(reply: Reply) -> str:
    """Why a reply without an answer has none, as far as it shows, to follow "is empty".

    >>> silence(Reply("", finish_reason="length"))
    ': the token limit was reached before it said anything'
    """
    if reply.text.strip():
        return (
            ": the token limit was reached while it was reasoning"
            if reply.cut
            else ": it holds reasoning and no answer"
        )
    if reply.refusal:
        return f": the model refused, {' '.join(reply.refusal.split())[:80]!r}"
    if reply.finish_reason == "content_filter":
        return ": a content filter withheld it"
    if reply.cut:
        return ": the token limit was reached before it said anything"
    return ""


def well_formed(value: T) -> T:
    """A text in which half of a surrogate pair, as a cut reply may end in, is U+FFFD; else the value.

    Neither UTF-8 nor SQLite can hold such a half, and a reply must read the same now and from the cache.
    """
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # type: ignore[return-value]


SPACE: Final = " \t\n\v\f\r"

MOST_TOKENS: Final = (1 << 63) - 1
"""What SQLite can hold."""

REQUIRED: Final = {"text", "model", "finish_reason", "tokens_in", "tokens_out"}
KINDS: Final = {field.name: int if field.name.startswith("tokens") else str for field in fields(Reply)}


HASH_DIGITS: Final = 12

RUN: Final = "run"
"""In the cache, beside what is known of a request: the run that asked."""

WEIGHTS: Final = {"question": 4.0}
"""How much it counts for nearness that a part is the same; 1 for what is not listed."""

LONG: Final = 60

HIDDEN: Final = {"extra_body", "metadata", "user", "safety_identifier"}
"""Parameters in which anything may stand, a key or a name too: of these there is only the hash."""


def request_summary(request: Request, *, prompts: bool = False) -> dict[str, Any]:
    """The outline of a request.

    Args:
        request: any.
        prompts: whether to add the messages in full.

    Returns:
        A JSON object: `base_url`, `model`, `parameters` (long ones as a hash), `sample`, `parts`
        (a hash by name), and `messages` where asked for.
    """
    outline: dict[str, Any] = {
        "base_url": request.base_url,
        "model": request.model,
        "parameters": {
            name: _short(value, hidden=name in HIDDEN) for name, value in sorted(request.parameters.items())
        },
        "sample": request.sample,
        "parts": {name: _hash(text) for name, text in _parts(request).items()},
    }
    if prompts:
        outline["messages"] = _plain(request.messages)
    return outline


def read_outline(found: object) -> Mapping[str, Any]:
    """An outline as it was read from a file; empty where it is none: it only explains, and must harm nobody."""
    if not isinstance(found, dict):
        return {}
    texts = all(isinstance(found.get(name, ""), str) for name in ("base_url", "model"))
    inner = all(isinstance(found.get(name, {}), dict) for name in ("parameters", "parts"))
    return {name: value for name, value in found.items() if name != RUN} if texts and inner else {}


def nearest(request: Mapping[str, Any], recorded: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The recorded outline that has most in common with a request's; None where none shares a part."""
    best, most = None, 0.0
    facts = _facts(request)
    for outline in recorded:
        theirs = _facts(outline)
        if not any(theirs.get(name) == value for name, value in facts.items() if name[0] == "parts"):
            continue
        common = sum(WEIGHTS.get(name[-1], 1.0) for name, value in facts.items() if theirs.get(name) == value)
        # Of two that agree in as much, the one with less that is different.
        nearness = common - 0.01 * len(facts.keys() ^ theirs.keys())
        if nearness > most:
            best, most = outline, nearness
    return best


def difference(request: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """What in a request is not as it was recorded: "model: m1, now m2", "passage 2"; may be empty."""
    before, now = _facts(recorded), _facts(request)
    changes = []
    for name in dict.fromkeys([*now, *before]):
        if before.get(name) == now.get(name):
            continue
        label = name[-1]
        if name[0] == "parts":
            gone, new = name not in now, name not in before
            changes.append(
                f"{label} ({'gone' if gone else 'new'})" if gone or new else f"{label} (other text)"
            )
        else:
            changes.append(f"{label}: {_said(before.get(name))}, now {_said(now.get(name))}")
    return changes


def _parts(request: Request) -> Mapping[str, str]:
    if request.parts:
        return request.parts
    return {
        f"message {n} ({message.get('role', '?')})": json.dumps(_plain(message), sort_keys=True)
        for n, message in enumerate(request.messages, 1)
    }


def _facts(outline: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """An outline as pairs: where it stands, and what."""
    facts: dict[tuple[str, ...], Any] = {}
    for name in ("model", "base_url", "sample"):
        if name in outline:
            facts[(name,)] = outline[name]
    for name in ("parameters", "parts"):
        inner = outline.get(name)
        if isinstance(inner, Mapping):
            facts.update({(name, str(key)): value for key, value in inner.items()})
    return facts


def _short(value: Any, *, hidden: bool) -> Any:
    value = _plain(value)
    return value if len(json.dumps(value)) <= LONG and not hidden else f"sha256:{digest(value)[:HASH_DIGITS]}"


def _plain(value: Any) -> Any:
    """JSON's own kinds in place of others that are read alike."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]


def _said(value: Any) -> str:
    return "not given" if value is None else str(value)
