"""Reads strict JSON (without NaN and infinities) from plain or compressed files, and Parquet.

JSON lines are read line by line. Large JSON arrays and objects are parsed in chunks, one element at a time.
"""

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

from pytest_rageval.core.errors import InputError, require
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.lib.foreign_values import to_plain
from pytest_rageval.lib.text import parse_failure, unique_keys

MAX_LINE_BYTES: Final = 64 * 2**20  # a longer line is not a record, and would fill the memory
CHUNK_BYTES: Final = 2**16  # read from a JSON document at once
ERROR_MARGIN: Final = 16
"""A JSON error within this many characters of a chunk's end may be caused by the end: all literals are shorter."""
PARQUET_SUFFIXES: Final = (".parquet", ".pq")
GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
JSON_WHITE_SPACE: Final = " \t\r\n"
WRAPPER_KEYS: Final = ("results", "data", "examples", "records", "questions", "items", "tests")
"""Keys under which a JSON object may have its array of records."""
RECORD_KEYS: Final = ("id", "question", "query", "input")
ARRAY_OF_OBJECTS: Final = re.compile(r"\[\s*\{")
LINES_REMEDY: Final = "Each line is one whole JSON object; strings are in double quotes."
ARRAY_REMEDY: Final = "A file that is one JSON array is named .json."


def json_records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield place and value of each line of JSON lines, of each element of an array, or of each row of Parquet.

    The array is the whole document or, in an object, under one of `WRAPPER_KEYS`. A place is a text for error messages,
    such as "support.jsonl line 3".
    """
    if path.suffix.lower() in PARQUET_SUFFIXES:
        yield from _parquet_rows(path)
        return
    if ".json" in path.suffixes[-2:]:
        key = find_wrapper_key(path)
        if key is not None or _is_array(path):
            yield from json_elements(path, key)
            return
    name = path.name
    for number, line in read_lines(path):
        if line and not line.isspace():
            place = f"{name} line {number}"
            remedy = f"{LINES_REMEDY} {ARRAY_REMEDY}" if line.startswith("[") else LINES_REMEDY
            yield place, parse_json(line, place, remedy)


def open_parquet(path: Path) -> Any:
    """Return a `pyarrow.parquet.ParquetFile`; InputError if pyarrow is not installed, or this is no such file."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise InputError(
            f"Reading {path.name} needs the package 'pyarrow', which is not installed.\n"
            "Install it with: pip install pyarrow"
        ) from None
    try:
        refuse_special(path)
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these types
        raise InputError(f"{path} cannot be read as Parquet: {error}.\nIs the file whole?") from error


def _parquet_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and the values of each row, by batch: a large file is never whole in memory."""
    number = 0
    for batch in open_parquet(path).iter_batches():
        for row in batch.to_pylist():
            number += 1
            values = {name: value for name, value in to_plain(row).items() if value is not None}
            yield f"{path.name} row {number}", values


def _is_array(path: Path) -> bool:
    with open_file(path) as file:
        return file.stream.read(CHUNK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["


def find_wrapper_key(path: Path) -> str | None:
    """Return the key under which a JSON object has its array of records; None if the file is no such object.

    The key is the first of `WRAPPER_KEYS` whose value is an array of objects. If one of `RECORD_KEYS` comes before it,
    the object is itself a record, and the result is None. An object over several lines without such a key is an error.
    """
    keys: list[str] = []
    with open_file(path) as file:
        document = _JsonDocument(path.name, file)
        if document.peek() != "{":
            return None
        first = document.line
        try:
            for name in document.names():
                if name in RECORD_KEYS:
                    return None
                if name in WRAPPER_KEYS and document.starts_array_of_objects():
                    return str(name)
                keys.append(str(name)[:40])
                document.value()
        except InputError:
            # The file is then read line by line, which raises an error with the line's number.
            return None
        if document.line == first:
            return None
    raise InputError(
        f"{path.name} is one JSON object, with {', '.join(keys[:12]) or 'no key'}.\n"
        f"Give one object a line, an array of objects, or an array under {' or '.join(WRAPPER_KEYS)}."
    )


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line of a UTF-8 file, without a byte-order mark."""
    with open_file(path) as file:
        readline = file.stream.readline
        while raw := readline(MAX_LINE_BYTES + 1):
            number = file.line + 1
            if len(raw) > MAX_LINE_BYTES:
                raise InputError(
                    f"{path.name} line {number} is longer than {MAX_LINE_BYTES // 2**20} MiB.\n"
                    "One line is one record; is this the whole file on a single line?"
                )
            try:
                # Some editors write a byte-order mark, which is not part of the first record.
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8_error(f"{path.name} line {number}", error) from None
            file.line = number
            yield number, line


@dataclass(slots=True)
class OpenFile:
    """The decompressed bytes of a file, and the number of the last line that was read, which its reader sets."""

    stream: IO[bytes]
    line: int = 0


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """Open a file, and decompress gzip and Zstandard, which are recognized by their first bytes, not by the name.

    A read within the `with` block that fails raises InputError.
    """
    file: OpenFile | None = None
    errors: list[type[Exception]] = [OSError, EOFError, zlib.error]
    try:
        refuse_special(path)
        with path.open("rb") as raw:
            magic = raw.peek(4)[:4] if hasattr(raw, "peek") else b""
            if magic.startswith(GZIP_MAGIC):
                file = OpenFile(cast("IO[bytes]", gzip.GzipFile(fileobj=raw)))
            elif magic == ZSTD_MAGIC:
                if sys.version_info >= (3, 14):
                    zstd = import_module("compression.zstd")
                else:
                    zstd = require("backports.zstd", extra="zst", purpose=f"Reading {path.name}")
                errors.append(zstd.ZstdError)
                file = OpenFile(zstd.ZstdFile(raw))
            else:
                file = OpenFile(raw)
            yield file
    except tuple(errors) as error:
        reason = getattr(error, "strerror", None) or error
        failure = f"{path} cannot be read"
        if file is not None:
            failure = f"{path.name} cannot be read beyond line {file.line}"
        raise InputError(f"{failure}: {reason}.") from error


def not_utf8_error(place: str, error: UnicodeDecodeError) -> InputError:
    """Return the error for a text that is not UTF-8; UTF-16 is recognized by its byte-order mark."""
    found = f"byte {error.object[error.start]:#04x} ({error.reason})"
    if error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found = 'it is UTF-16, as Windows saves "Unicode"'
    return InputError(f"{place} is not UTF-8: {found}.\nSave the file in UTF-8.")


def parse_json(text: str, place: str, remedy: str = LINES_REMEDY) -> Any:
    """Parse one JSON value; NaN and infinities are refused. Messages begin with `place` and end with `remedy`."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {parse_failure(error)}.\n{remedy}") from None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a finite number")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse_constant(digits[:40])


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_refuse_constant, parse_float=_parse_finite
)


def json_elements(path: Path, key: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the place ("FILE record 1") and the value of each element of an array; only one element is in memory.

    The array is the whole JSON document, or the value of `key` in it.
    """
    with _whole_document(path) as document:
        yield from document.array() if key is None else document.member(key)


def json_nested_members(path: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield the outer key, the inner key and the value of each member of the objects in a JSON object."""
    with _whole_document(path) as document:
        for name in document.names():
            if document.peek() == "{":
                yield from ((name, key, value) for key, value in document.members())
            else:
                document.value()


def json_members(path: Path) -> Iterator[tuple[str, Any]]:
    with _whole_document(path) as document:
        yield from document.members()


@contextmanager
def _whole_document(path: Path) -> Iterator["_JsonDocument"]:
    """Open a JSON document; InputError if the `with` block does not read it to its end."""
    with open_file(path) as file:
        document = _JsonDocument(path.name, file)
        yield document
        if document.peek():
            document.fail("more follows after its end")


class _JsonDocument:
    """A JSON document that is read in chunks. Its methods parse at the current position and advance it."""

    def __init__(self, name: str, file: OpenFile) -> None:
        self._name = name
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._position = 0
        self._at_end = False

    def array(self) -> Iterator[tuple[str, Any]]:
        self._expect("[")
        for number in self._item_numbers("]"):
            yield f"{self._name} record {number}", self.value()

    def names(self) -> Iterator[str]:
        """Yield the keys of the object that follows; after each key, the caller must parse or skip its value."""
        self._expect("{")
        for _ in self._item_numbers("}"):
            if self.peek() != '"':
                self.fail("a key in double quotes is missing")
            name = self.value()
            self._expect(":")
            yield name

    def member(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield place and value of each element of the array under a key of the object that follows."""
        is_found = False
        for name in self.names():
            if name == key and not is_found:
                is_found = True
                yield from self.array()
            else:
                self.value()
        if not is_found:
            self.fail(f'its object has no key "{key}"')

    def _item_numbers(self, end: str) -> Iterator[int]:
        """Yield the number of each item, from 1, when the caller must parse it; parse the commas and `end` itself."""
        number = 0
        while self.peek() != end:
            if number:
                self._expect(",")
            number += 1
            yield number
        self._expect(end)

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._position < len(self._text) and self._text[self._position] in JSON_WHITE_SPACE:
                self._position += 1
            if self._position < len(self._text) or not self._read_more():
                return self._text[self._position : self._position + 1]

    def members(self) -> Iterator[tuple[str, Any]]:
        for name in self.names():
            yield name, self.value()

    def starts_array_of_objects(self) -> bool:
        """Return True if an array follows whose first item is an object; nothing is consumed."""
        if self.peek() and len(self._text) - self._position < ERROR_MARGIN:
            self._read_more()
        return ARRAY_OF_OBJECTS.match(self._text, self._position) is not None

    @property
    def line(self) -> int:
        return self._file.line + 1 + self._text.count("\n", 0, self._position)

    def fail(self, found: str) -> NoReturn:
        where = f"{self._name} line {self.line}"
        raise InputError(f"{where} is not JSON as expected: {found}.\nIs the file whole?")

    def _expect(self, character: str) -> None:
        found = self.peek()
        if not found:
            self.fail(f"it ends before {character!r}")
        if found != character:
            self.fail(f"expected {character!r}, found {found!r}")
        self._position += 1

    def value(self) -> Any:
        """Parse and return the JSON value that follows; read further chunks until it is complete."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
            except json.JSONDecodeError as error:
                near_end = error.pos > len(self._text) - ERROR_MARGIN or error.msg.startswith("Unterminated")
                if not (near_end and self._read_more()):
                    self._position = max(self._position, min(error.pos, len(self._text)))
                    self.fail(error.msg)
            except (ValueError, RecursionError) as error:
                self.fail(parse_failure(error))
            else:
                # A number may continue in the next chunk: "1.5e+" at the end of a chunk is parsed as 1.5.
                length = end - self._position
                if end + ERROR_MARGIN < len(self._text) or not self._read_more():
                    self._position += length
                    return value

    def _read_more(self) -> bool:
        """Read at least as many bytes as there are unparsed characters; return False at the end of the file.

        The amount doubles, so that a long value is parsed again only a few times.
        """
        if self._at_end:
            return False
        self._file.line += self._text.count("\n", 0, self._position)
        self._text, self._position = self._text[self._position :], 0
        if len(self._text) > MAX_LINE_BYTES:
            self.fail(f"one record is longer than {MAX_LINE_BYTES // 2**20} MiB")
        raw = self._file.stream.read(max(CHUNK_BYTES, len(self._text)))
        self._at_end = not raw
        try:
            self._text += self._decoder.decode(raw, final=self._at_end)
        except UnicodeDecodeError as error:
            line = self._file.line + 1 + self._text.count("\n") + error.object.count(b"\n", 0, error.start)
            raise not_utf8_error(f"{self._name} line {line}", error) from None
        return not self._at_end
