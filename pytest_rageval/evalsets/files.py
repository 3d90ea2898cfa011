"""Strict JSON from files, plain or compressed: JSON lines, and the elements of large arrays one by one."""

import codecs
import gzip
import json
import math
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, NoReturn, cast

from pytest_rageval.errors import InputError, require
from pytest_rageval.files import refuse_special

__all__ = ["json_elements", "json_members", "json_records", "lines", "not_utf8", "opened", "parse", "wrapper"]

MAX_LINE: Final = 64 * 2**20  # bytes; a longer line is not a record, and would fill the memory
CHUNK: Final = 2**16  # bytes read from a JSON document at once
NEAR: Final = 16  # a JSON error this near to the end of a chunk may be caused by it: literals are shorter
GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
JSON_SPACE: Final = " \t\r\n"
WRAPPERS: Final = ("results", "data", "examples", "records", "questions", "items")
RECORD_KEYS: Final = ("id", "question", "query", "input")
ARRAY_OF_OBJECTS: Final = re.compile(r"\[\s*\{")
LINES_REMEDY: Final = "Each line is one whole JSON object; strings are in double quotes."


def json_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the values of a file of JSON lines, or of the array in a `.json` file, with their places.

    The array is the whole document or, in an object, under one of the keys `WRAPPERS`. Blank lines do not count.
    InputError if the file cannot be read, or a value is not JSON.
    """
    if ".json" in path.suffixes[-2:]:
        key = wrapper(path)
        if key is not None or _is_array(path):
            yield from json_elements(path, key)
            return
    for number, line in lines(path):
        if line and not line.isspace():
            place = f"{path.name} line {number}"
            yield place, parse(line, place)


def _is_array(path: Path) -> bool:
    with opened(path) as reading:
        return reading.stream.read(CHUNK).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def wrapper(path: Path) -> str | None:
    """Return the key of the array of records in a file that is one JSON object; None for another file.

    It is the first of `WRAPPERS` with an array of objects, if no key before it is a record's own.

    Raises:
        InputError: the file begins with an object over several lines, and that has no such key.
    """
    keys: list[str] = []
    with opened(path) as reading:
        document = _Document(path.name, reading)
        if document.peek() != "{":
            return None
        first = document.line
        try:
            for name in document.names():
                if name in RECORD_KEYS:
                    return None
                if name in WRAPPERS and document.at_objects():
                    return str(name)
                keys.append(str(name)[:40])
                document.skip()
        except InputError:
            # The reader of the lines says what is wrong with them.
            return None
        if document.line == first:
            return None
    raise InputError(
        f"{path.name} is one JSON object, with {', '.join(keys[:12]) or 'no key'}.\n"
        f"Give one object a line, an array of objects, or an array under {' or '.join(WRAPPERS)}."
    )


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file in UTF-8 with their numbers from 1, without a byte-order mark.

    InputError if it cannot be read, is not UTF-8, or a line is longer than 64 MiB.
    """
    with opened(path) as reading:
        readline = reading.stream.readline
        while raw := readline(MAX_LINE + 1):
            number = reading.line + 1
            if len(raw) > MAX_LINE:
                raise InputError(
                    f"{path.name} line {number} is longer than {MAX_LINE // 2**20} MiB.\n"
                    "One line is one record; is this the whole file on a single line?"
                )
            try:
                # Some editors write a byte-order mark, which is not part of the first record.
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(f"{path.name} line {number}", error) from None
            reading.line = number
            yield number, line


@dataclass(slots=True)
class Opened:
    """An open file: its decompressed bytes, and the number of the last line that was read, set by the reader."""

    stream: IO[bytes]
    line: int = 0


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a file; gzip and Zstandard are recognized by their first bytes, not by the name.

    InputError if it is not a regular file, cannot be opened, or, within the block, cannot be read on.
    """
    reading: Opened | None = None
    errors: list[type[Exception]] = [OSError, EOFError, zlib.error]
    try:
        refuse_special(path)
        with path.open("rb") as raw:
            magic = raw.peek(4)[:4] if hasattr(raw, "peek") else b""
            if magic.startswith(GZIP):
                reading = Opened(cast("IO[bytes]", gzip.GzipFile(fileobj=raw)))
            elif magic == ZSTD:
                zstd = _zstd(path)
                errors.append(zstd.ZstdError)
                reading = Opened(zstd.ZstdFile(raw))
            else:
                reading = Opened(raw)
            yield reading
    except tuple(errors) as error:
        reason = getattr(error, "strerror", None) or error
        failure = f"{path} cannot be read"
        if reading is not None:
            failure = f"{path.name} cannot be read beyond line {reading.line}"
        raise InputError(f"{failure}: {reason}.") from error


def _zstd(path: Path) -> Any:
    if sys.version_info >= (3, 14):
        return import_module("compression.zstd")
    return require("backports.zstd", extra="zst", purpose=f"Reading {path.name}")


def not_utf8(place: str, error: UnicodeDecodeError) -> InputError:
    """Return the error for a text in another encoding; UTF-16 is recognized by its byte-order mark."""
    found = f"byte {error.object[error.start]:#04x} ({error.reason})"
    if error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = 'it is UTF-16, as Windows saves "Unicode"'
    return InputError(f"{place} is not UTF-8: {found}.\nSave the file in UTF-8.")


def parse(text: str, place: str, remedy: str = LINES_REMEDY) -> Any:
    """Parse one JSON value, or raise InputError with the text's place; NaN and infinities are refused."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {error}.\n{remedy}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits[:40])


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def json_elements(path: Path, key: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the elements of an array with their places, "FILE record 1" and so on; one at a time is in memory.

    The array is the file's JSON document, or under a key of it. InputError if the file cannot be read or has another
    form, or an element is longer than 64 MiB.
    """
    with opened(path) as reading:
        document = _Document(path.name, reading)
        yield from document.array() if key is None else document.member(key)
        if document.peek():
            document.fail("more follows after its end")


def json_members(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of the object that a file is, as they come; InputError as for `json_elements`."""
    with opened(path) as reading:
        document = _Document(path.name, reading)
        yield from document.members()
        if document.peek():
            document.fail("more follows after its end")


class _Document:
    """A JSON document that is parsed chunk by chunk."""

    def __init__(self, name: str, reading: Opened) -> None:
        self._name = name
        self._reading = reading
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False

    def array(self) -> Iterator[tuple[str, Any]]:
        self._take("[")
        for number in self._items("]"):
            yield f"{self._name} record {number}", self._value()

    def names(self) -> Iterator[str]:
        """Yield the keys of an object; after each, the caller reads its value."""
        self._take("{")
        for _ in self._items("}"):
            name = self._value() if self.peek() == '"' else self.fail("a key in double quotes is missing")
            self._take(":")
            yield name

    def member(self, key: str) -> Iterator[tuple[str, Any]]:
        found = False
        for name in self.names():
            if name == key and not found:
                found = True
                yield from self.array()
            else:
                self.skip()
        if not found:
            self.fail(f'its object has no key "{key}"')

    def _items(self, end: str) -> Iterator[int]:
        """Yield the number of each item, from 1, when it is to be parsed; parse commas and end."""
        number = 0
        while self.peek() != end:
            if number:
                self._take(",")
            number += 1
            yield number
        self._take(end)

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in JSON_SPACE:
                self._at += 1
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def members(self) -> Iterator[tuple[str, Any]]:
        for name in self.names():
            yield name, self._value()

    def skip(self) -> None:
        self._value()

    def at_objects(self) -> bool:
        """Whether an array follows, whose first item is an object."""
        if self.peek() and len(self._text) - self._at < NEAR:
            self._read_more()
        return ARRAY_OF_OBJECTS.match(self._text, self._at) is not None

    @property
    def line(self) -> int:
        """The number of the line that is read."""
        return self._reading.line + 1 + self._text.count("\n", 0, self._at)

    def fail(self, found: str) -> NoReturn:
        raise InputError(
            f"{self._name} line {self.line} is not JSON as expected: {found}.\nIs the file whole?"
        )

    def _take(self, character: str) -> None:
        found = self.peek()
        if not found:
            self.fail(f"it ends before {character!r}")
        if found != character:
            self.fail(f"expected {character!r}, found {found!r}")
        self._at += 1

    def _value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos > len(self._text) - NEAR or error.msg.startswith("Unterminated")
                if not (cut and self._read_more()):
                    self._at = max(self._at, min(error.pos, len(self._text)))
                    self.fail(error.msg)
            except (ValueError, RecursionError) as error:
                self.fail(str(error))
            else:
                # A number may continue in the next chunk: the beginning "1.5e+" is parsed as 1.5.
                length = end - self._at
                if end + NEAR < len(self._text) or not self._read_more():
                    self._at += length
                    return value

    def _read_more(self) -> bool:
        """Read as many characters as are unparsed, so that a long value is parsed only a few times."""
        if self._ended:
            return False
        self._reading.line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > MAX_LINE:
            self.fail(f"one record is longer than {MAX_LINE // 2**20} MiB")
        raw = self._reading.stream.read(max(CHUNK, len(self._text)))
        self._ended = not raw
        try:
            self._text += self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            line = self._reading.line + 1 + self._text.count("\n") + error.object.count(b"\n", 0, error.start)
            raise not_utf8(f"{self._name} line {line}", error) from None
        return not self._ended
