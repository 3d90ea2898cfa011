"""Digests (hashes) of requests, eval sets, texts and models."""

import hashlib
import json
from collections.abc import Iterable
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, Final

SAMPLED_BLOCKS: Final = 64
BLOCK_BYTES: Final = 1 << 16


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value in canonical form, as 64 hex digits.

    Equal values have equal digests. Canonical form means sorted keys, no spaces, UTF-8.

    Raises:
        TypeError: the value is not a JSON value.
        ValueError: the value contains NaN or an infinity.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return text_digest(canonical_json(value))


def canonical_json(value: Any) -> str:
    """Return a JSON value as text in canonical form; raises as `digest`."""
    return encode_basestring(value) if type(value) is str else _ENCODER.encode(value)


def text_digest(text: str) -> str:
    # A lone surrogate is legal in a Python string and in JSON, but not in UTF-8.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def digest_of_all(values: Iterable[Any]) -> str:
    """Return the SHA-256 of JSON values in order, each followed by a line feed; one value is in memory at a time."""
    sha256 = hashlib.sha256()
    for value in values:
        # The canonical form has no line feed, so different sequences have different bytes.
        sha256.update(f"{canonical_json(value)}\n".encode("utf-8", "surrogatepass"))
    return sha256.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's size and of 64 evenly spaced blocks of 64 KiB, as 64 hex digits.

    A file of at most 64 blocks is read completely. The file of a model has gigabytes, and every run needs its digest.
    """
    size = path.stat().st_size
    sha256 = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for block in range(SAMPLED_BLOCKS):
            file.seek(max(0, size - BLOCK_BYTES) * block // (SAMPLED_BLOCKS - 1))
            sha256.update(file.read(BLOCK_BYTES))
    return sha256.hexdigest()


_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
