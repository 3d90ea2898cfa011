"""Where a model is asked, as it may be told."""

import hashlib
from urllib.parse import urlsplit, urlunsplit

__all__ = ["public_url"]


def public_url(url: str) -> str:
    """A URL as it may be shown and kept: without a password, and with a hash of its query.

    A query may hold a key; but it may also say which deployment answers.

    >>> public_url("https://me:secret@llm.example/v1?key=secret")
    'https://llm.example/v1?0b60fff17537'
    """
    parts = urlsplit(url)
    query = hashlib.sha256(parts.query.encode()).hexdigest()[:12] if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
