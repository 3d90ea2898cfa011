"""Files as they lie there: plain or compressed, line by line, each line of a bounded length."""

import codecs
import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, cast

from pytest_rageval.errors import InputError
from pytest_rageval.extras import require
from pytest_rageval.regular_file import refuse_special

__all__ = ["MAX_LINE", "Opened", "lines", "opened"]

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
