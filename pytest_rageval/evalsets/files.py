"""Strict JSON from files, plain or compressed: values, lines of values, elements of one large array."""

import codecs
import gzip
import json
import math
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

__all__ = ["MAX_LINE", "Opened", "json_elements", "json_records", "lines", "opened", "parse"]

MAX_LINE: Final = 64 * 2**20
"""How many bytes a line may have: what is longer is no record, and would fill the memory before any
parser could say so."""

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"


@dataclass(slots=True)
class Opened:
    """A file that is read.

    Attributes:
        stream: its bytes, decompressed.
        line: the last line that was read whole, for messages; whoever reads keeps it.
    """

    stream: IO[bytes]
    line: int = 0


@contextmanager
def opened(path: Path) -> Iterator[Opened]:
    """Open a file; gzip and Zstandard are recognised by their first bytes, whatever the name.

    Raises:
        InputError: it is no regular file, cannot be opened, or, within the block, not be read on: a damaged or
            truncated compressed file among others.
    """
    reading: Opened | None = None
    damaged: list[type[Exception]] = [OSError, EOFError, zlib.error]
    try:
        refuse_special(path)
        with path.open("rb") as raw:
            magic = raw.peek(4)[:4] if hasattr(raw, "peek") else b""
            if magic.startswith(GZIP):
                reading = Opened(cast("IO[bytes]", gzip.GzipFile(fileobj=raw)))
            elif magic == ZSTD:
                zstd = _zstd(path)
                damaged.append(zstd.ZstdError)
                reading = Opened(zstd.ZstdFile(raw))
            else:
                reading = Opened(raw)
            yield reading
    except tuple(damaged) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"{path} cannot be read: {reason}."
        if reading is not None:
            message = f"{path.name} cannot be read beyond line {reading.line}: {reason}."
        raise InputError(message) from error


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file in UTF-8 with their numbers from 1, without a byte-order mark.

    Raises:
        InputError: it cannot be read, is not UTF-8, or a line is longer than 64 MiB.
    """
    with opened(path) as reading:
        readline = reading.stream.readline
        while raw := readline(MAX_LINE + 1):
            number = reading.line + 1
            if len(raw) > MAX_LINE:
                message = (
                    f"{path.name} line {number} is longer than {MAX_LINE // 2**20} MiB.\n"
                    "One line is one record; is this the whole file on a single line?"
                )
                raise InputError(message)
            try:
                # Some editors put a byte-order mark in front, which is no part of the first record.
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(f"{path.name} line {number}", error) from None
            reading.line = number
            yield number, line


def not_utf8(place: str, error: UnicodeDecodeError) -> InputError:
    """The error for a text in another encoding; UTF-16 is known by its byte-order mark."""
    if error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = 'it is UTF-16, as Windows saves "Unicode"'
    else:
        found = f"byte {error.object[error.start]:#04x} ({error.reason})"
    return InputError(f"{place} is not UTF-8: {found}.\nSave the file in UTF-8.")


def _zstd(path: Path) -> Any:
    if sys.version_info >= (3, 14):
        return import_module("compression.zstd")
    return require("backports.zstd", extra="zst", purpose=f"Reading {path.name}")


CHUNK: Final = 2**16
NEAR: Final = 16
"""An error this near to the end of what was read may come of its end: the longest literal and escape
are shorter."""
OF_LINES: Final = "Each line is one whole JSON object; strings are in double quotes."
SPACE: Final = " \t\r\n"


def json_records(path: Path) -> Iterator[tuple[str, Any]]:
    """The values of a file of JSON lines, or of a `.json` file that is one array, with their places.

    Blank lines do not count. Values are read one by one as they are asked for.

    Raises:
        InputError: the file cannot be read, or a value is no JSON: file, line or record.
    """
    if _is_array(path):
        yield from json_elements(path)
        return
    name = path.name
    for number, line in lines(path):
        if line and not line.isspace():
            place = f"{name} line {number}"
            yield place, parse(line, place)


def parse(text: str, place: str, remedy: str = OF_LINES) -> Any:
    """One JSON value; NaN and infinities are none.

    Args:
        text: of the value.
        place: where it stands, for the message.
        remedy: what to do where it is no JSON.

    Raises:
        InputError: the text is no JSON.
    """
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        message = f"{place} is not JSON: {error}.\n{remedy}"
        raise InputError(message) from None


def json_elements(path: Path, key: str | None = None) -> Iterator[tuple[str, Any]]:
    """The elements of an array one by one, as "FILE record 1" and so on; the file is never held whole.

    Args:
        path: of a file that is one JSON document.
        key: the array is under this key of the document's object; None: it is the document.

    Raises:
        InputError: the file cannot be read, is not of this form, or an element is longer than 64 MiB.
    """
    with opened(path) as reading:
        document = _Document(path.name, reading)
        if key is None:
            yield from document.array()
        else:
            yield from document.member(key)
        if document.peek():
            document.fail("more follows after its end")


class _Document:
    """A JSON document of which only what is being decoded is held."""

    def __init__(self, name: str, reading: Opened) -> None:
        self._name = name
        self._reading = reading
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._ended = False

    def array(self) -> Iterator[tuple[str, Any]]:
        self.take("[")
        number = 0
        while self.peek() != "]":
            if number:
                self.take(",")
            number += 1
            yield f"{self._name} record {number}", self.value()
        self.take("]")

    def member(self, key: str) -> Iterator[tuple[str, Any]]:
        self.take("{")
        first, found = True, False
        while self.peek() != "}":
            if not first:
                self.take(",")
            name = self.value() if self.peek() == '"' else self.fail("a key in double quotes is missing")
            first = False
            self.take(":")
            if name == key and not found:
                found = True
                yield from self.array()
            else:
                self.value()
        self.take("}")
        if not found:
            self.fail(f'its object has no key "{key}"')

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, character: str) -> None:
        found = self.peek()
        if found != character:
            self.fail(
                f"expected {character!r}, found {found!r}" if found else f"it ends before {character!r}"
            )
        self._at += 1

    def value(self) -> Any:
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos > len(self._text) - NEAR or error.msg.startswith("Unterminated")
                if not (cut and self._more()):
                    self._at = max(self._at, min(error.pos, len(self._text)))
                    self.fail(error.msg)
            except (ValueError, RecursionError) as error:
                self.fail(str(error))
            else:
                # A number may go on in what was not read yet: the beginning "1.5e+" is read as 1.5.
                length = end - self._at
                if end + NEAR < len(self._text) or not self._more():
                    self._at += length
                    return value

    def fail(self, found: str) -> NoReturn:
        line = self._reading.line + 1 + self._text.count("\n", 0, self._at)
        message = f"{self._name} line {line} is not JSON as expected: {found}.\nIs the file whole?"
        raise InputError(message)

    def _more(self) -> bool:
        """Read as much again as there is, so that long values are decoded a few times only."""
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


def _is_array(path: Path) -> bool:
    if ".json" not in path.suffixes[-2:]:
        return False
    with opened(path) as reading:
        return reading.stream.read(CHUNK).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def _refuse(constant: str) -> NoReturn:
    message = f"{constant} is no number that a computer holds"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits[:40])


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
