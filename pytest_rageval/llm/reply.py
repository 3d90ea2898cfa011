"""What came back from a model, and its form as text."""

import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from pytest_rageval.errors import Unscored

__all__ = ["MOST_TEXT", "MOST_TOKENS", "Reply", "TooLarge", "silence", "well_formed", "without_reasoning"]

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
