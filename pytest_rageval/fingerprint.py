"""One digest for everything that is compared by content: requests, eval sets, texts."""

import hashlib
import json
from typing import Any

__all__ = ["digest"]


def digest(value: Any) -> str:
    """SHA-256 of a JSON-like value in canonical form, as 64 hex digits.

    Canonical means: keys sorted, no spaces, UTF-8, no NaN. Two values that are
    equal as JSON have the same digest, whatever the order of their keys.

    Raises:
        TypeError: the value holds something JSON cannot express.
        ValueError: the value holds NaN or an infinity.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A lone surrogate is legal in a Python string and in JSON, but not in UTF-8.
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
