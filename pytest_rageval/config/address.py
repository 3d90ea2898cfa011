"""The base URL of a server, parted into what may be shown and what may not."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from pytest_rageval.secret import Secret

__all__ = ["BaseURL", "public_url"]

ALLOWED: Final = "expected a URL that begins with http:// or https://"

SECRET_NAME: Final = re.compile(
    r"(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|^code)$",
    re.IGNORECASE,
)
"""How the names of parameters end whose values are secrets: `api-key`, `access_token`, `sig`, `X-Amz-Signature` …"""


@dataclass(frozen=True)
class BaseURL:
    """Where a server is, as the user named it.

    Attributes:
        url: without user, password, query and fragment, and without a slash at its end.
        public: its name in reports and request keys; see `public_url`.
        login: the user and the password of the URL.
        query: of the URL.
    """

    url: str
    public: str
    login: Secret | None = None
    query: Secret | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL.

        Raises:
            ValueError: it is none that can be used; the message says what is allowed, and quotes nothing of it.
        """
        try:
            parts = urlsplit(text.strip())
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(ALLOWED)
        user_info, _, host = parts.netloc.rpartition("@")
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            # "http://me:1/x@host" reads as the host "me". What follows would be shown, and sent there.
            raise ValueError(
                f"{ALLOWED}, in whose user and password / ? # and @ are written %2F %3F %23 and %40"
            )
        names = [part.partition("=")[0] for part in parts.query.split("&")]
        if len(set(names)) < len(names):
            raise ValueError(f"{ALLOWED}, with each parameter of its query once")
        user, _, password = user_info.partition(":")
        place = (parts.scheme, host, parts.path.rstrip("/"))
        return cls(
            url=urlunsplit((*place, "", "")),
            public=public_url(urlunsplit((*place, parts.query, ""))),
            login=Secret.login(unquote(user), unquote(password)) if user_info else None,
            query=Secret(parts.query, _secret_values(parts.query)) if parts.query else None,
        )


def public_url(url: str) -> str:
    """A URL as it may be shown and kept: without user, password and fragment, and with a hash of its query.

    A query may say which deployment answers, so it is part of the name; but not those of its parameters
    that are named as secrets are: the name must stay when a key is changed.

    >>> public_url("https://me:secret@llm.example/v1?key=secret")
    'https://llm.example/v1'
    >>> public_url("https://llm.example/v1?deployment=a&sig=secret")
    'https://llm.example/v1?bb682454cc2d'
    """
    parts = urlsplit(url)
    told = "&".join(part for part in parts.query.split("&") if not _is_secret(part))
    query = hashlib.sha256(told.encode()).hexdigest()[:12] if told else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def _is_secret(parameter: str) -> bool:
    return SECRET_NAME.search(unquote_plus(parameter.partition("=")[0])) is not None


def _secret_values(query: str) -> list[str]:
    """The values in a query that must not be shown wherever they turn up; a version may."""
    return [unquote_plus(part.partition("=")[2]) for part in query.split("&") if _is_secret(part)]
