"""Finds the JSON in a judge's reply, in the spellings that models use.

Beyond JSON it reads Python's quotes and literals, bare words, control characters in texts, and a comma after the last
item. It never guesses: a value that is not closed, or a name that occurs twice, is not read.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 64
"""Levels of nesting; a deeper value is not read."""

CONSTANTS: Final = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
NO_VALUES: Final = {"NaN", "nan", "Infinity", "inf", "undefined"}

_TOKEN: Final = re.compile(
    r"""(?xs) \s*+ (?:
      (?P<mark> [][{}:,] )
    | (?P<quote> ["'`] ) (?P<text> (?: [^"'`\\]++ | \\. | (?!(?P=quote))[^\\] )*+ ) (?P=quote)
    | (?P<number> -?\d++ (?:\.\d++)?+ (?:[eE][+-]?\d++)?+ ) (?![\w.])
    | (?P<word> [A-Za-z_]\w*+ (?:[ -]\w++)*+ )
    )"""
)
_BRACKET: Final = re.compile(r"[{\[]")
_ESCAPE: Final = re.compile(r"""\\(.)|"|[\x00-\x1f]""", re.DOTALL)
_FENCE: Final = re.compile(r"(?:```|~~~)(?:[ \t]*+[\w+-]++(?=[ \t]*+(?:\n|\Z)))?")
_FENCE_BEFORE: Final = re.compile(r"(?:```|~~~)[ \t]*+[\w+-]*+\s*+\Z")
_FENCE_AFTER: Final = re.compile(r"\s*+(?:```|~~~)")

_MARKUP: Final = " \t\r*_\"'`"
_AROUND: Final = f"{_MARKUP}\n.!)"
"""Characters around an object that are no prose."""


class FoundValue(NamedTuple):
    """An object or a list in a text, and where it begins and ends."""

    value: Any
    start: int
    end: int


class FoundObject(NamedTuple):
    """The only object of a reply, and the text around it."""

    values: dict[str, object]
    prose: str


def find_object(reply: str) -> FoundObject | None:
    r"""Return the only JSON object of a reply; None if there is none, or if it might be a quotation.

    Prose may be before or after the object, and on both sides if the object is in a code block. An object after prose
    begins a line or follows a colon. Equal objects count as one. Other braces in the prose may belong to an object that
    cannot be read, so there must be none.

    >>> find_object("It is right.\n```json\n{'grade': 5,}\n```")
    FoundObject(values={'grade': 5}, prose='It is right.')
    """
    objects = [found for found in find_json(reply) if isinstance(found.value, dict)]
    if not objects or any(found.value != objects[0].value for found in objects):
        return None
    ends = [0, *(found.end for found in objects)]
    starts = [*(found.start for found in objects), len(reply)]
    texts = [reply[end:start] for end, start in zip(ends, starts, strict=True)]
    prose = _FENCE.sub("\n", "\n".join(texts)).strip()
    before, after = texts[0], texts[-1]
    fenced = _FENCE_BEFORE.search(before) and _FENCE_AFTER.match(after)
    first = not _FENCE.sub("", before).strip(_AROUND)
    last = not _FENCE.sub("", after).strip(_AROUND) and before.rstrip(_MARKUP)[-1:] in {"\n", ":"}
    if "{" in prose or "}" in prose or not (first or last or fenced):
        return None
    return FoundObject(objects[0].value, prose)


def find_json(text: str) -> list[FoundValue]:
    """Return the objects and lists of a text in order, without those inside another one.

    Takes linear time: each token is read once.

    >>> [found.value for found in find_json("By [1]: {verdict: yes} [2")]
    [[1], {'verdict': 'yes'}]
    """
    found: list[FoundValue] = []
    position = 0
    while bracket := _BRACKET.search(text, position):
        reader = _Reader(text, bracket.start())
        found += reader.read()
        position = max(reader.position, bracket.end())
    return found


class _Reader:
    """Reads a value that begins at a bracket; `position` is the end of the last token that was read."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self.position = start
        self._read: list[FoundValue] = []

    def read(self) -> list[FoundValue]:
        """Return the value; if it cannot be read, the values inside it that were read before the fault.

        A value inside it that was not closed before the fault has the same fault.
        """
        with suppress(ValueError):
            self._value(MAX_DEPTH)
        return self._read

    def _value(self, levels: int) -> Any:
        start = self.position
        kind, word = self._next()
        if kind == "text":
            return _unescape(word)
        if kind == "number":
            return json.loads(word)
        if kind == "word" and word not in NO_VALUES:
            return CONSTANTS.get(word, word)
        if word not in {"{", "["} or levels == 0:
            raise ValueError("no value begins here")
        value: Any = self._object(levels - 1) if word == "{" else self._list(levels - 1)
        while self._read and self._read[-1].start >= start:
            self._read.pop()
        self._read.append(FoundValue(value, start, self.position))
        return value

    def _list(self, levels: int) -> list[Any]:
        return [self._value(levels) for _ in self._items("]")]

    def _object(self, levels: int) -> dict[str, object]:
        values: dict[str, object] = {}
        for _ in self._items("}"):
            kind, name = self._next()
            name = _unescape(name) if kind == "text" else name
            if kind not in {"text", "word"} or name in values or not self._skip(":"):
                raise ValueError("this is no name, or it occurs twice")
            values[name] = self._value(levels)
        return values

    def _items(self, closing: str) -> Iterator[None]:
        """Yield where an item begins, and read the comma after it and the closing bracket."""
        while not self._skip(closing):
            yield
            if not self._skip(","):
                if not self._skip(closing):
                    raise ValueError("a comma is missing, or the end")
                return

    def _skip(self, mark: str) -> bool:
        token = _TOKEN.match(self._text, self.position)
        if token is None or token["mark"] != mark:
            return False
        self.position = token.end()
        return True

    def _next(self) -> tuple[str, str]:
        token = _TOKEN.match(self._text, self.position)
        if token is None or token.lastgroup is None:
            raise ValueError("no token begins here")
        self.position = token.end()
        return token.lastgroup, token[token.lastgroup]


def _unescape(text: str) -> str:
    """Return the value of a text between quotes; ValueError for an invalid code point."""
    if "\\" not in text:
        return text
    value: str = json.loads(f'"{_ESCAPE.sub(_json_escape, text)}"')
    return value


def _json_escape(match: re.Match[str]) -> str:
    """Return the JSON escape of a character; a backslash before punctuation, as in Markdown, is dropped."""
    escaped = match[1]
    if escaped is None or (not escaped.isalnum() and escaped not in '"\\/'):
        return json.dumps(escaped or match[0])[1:-1]
    return match[0] if escaped in '"\\/bfnrtu' else f"\\{match[0]}"
