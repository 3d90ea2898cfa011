"""The base URL of a server, without its secrets."""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from pytest_rageval.secret import Secret

__all__ = ["BaseURL", "is_secret_name", "public_url"]

ALLOWED: Final = "expected a URL that begins with http:// or https://"

SECRET_NAME: Final = re.compile(
    r"(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|^code)$",
    re.IGNORECASE,
)
"""Ends of the names of secret parameters: `api-key`, `access_token`, `sig`, `X-Amz-Signature` …"""


@dataclass(frozen=True)
class BaseURL:
    """The base URL of a server, its secrets apart; `public` is its name in reports and request keys."""

    url: str
    public: str
    login: Secret | None = None
    query: Secret | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL, or raise ValueError with what is allowed, which does not quote the URL."""
        try:
            parts = urlsplit(text.strip())
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(ALLOWED)
        user_info, _, host = parts.netloc.rpartition("@")
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            # "http://me:1/x@host" has the host "me": a part of the password would be shown, and sent there.
            raise ValueError(
                f"{ALLOWED}, in whose user and password / ? # and @ are written %2F %3F %23 and %40"
            )
        parameters = parts.query.split("&")
        names = [parameter.partition("=")[0] for parameter in parameters]
        secrets = [unquote_plus(each.partition("=")[2]) for each in parameters if _is_secret(each)]
        if len(set(names)) < len(names):
            raise ValueError(f"{ALLOWED}, with each parameter of its query once")
        user, _, password = user_info.partition(":")
        place = (parts.scheme, host, parts.path.rstrip("/"))
        return cls(
            url=urlunsplit((*place, "", "")),
            public=public_url(urlunsplit((*place, parts.query, ""))),
            login=Secret.login(unquote(user), unquote(password)) if user_info else None,
            query=Secret(parts.query, secrets) if parts.query else None,
        )


def public_url(url: str) -> str:
    """A URL without user, password and fragment, and with a hash of the query without parameters named like secrets.

    A query may name the deployment, so it counts; a new key does not change the public URL.

    >>> public_url("https://me:secret@llm.example/v1?key=secret")
    'https://llm.example/v1'
    >>> public_url("https://llm.example/v1?deployment=a&sig=secret")
    'https://llm.example/v1?bb682454cc2d'
    """
    parts = urlsplit(url)
    public = "&".join(part for part in parts.query.split("&") if not _is_secret(part))
    query = hashlib.sha256(public.encode()).hexdigest()[:12] if public else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def _is_secret(parameter: str) -> bool:
    return is_secret_name(unquote_plus(parameter.partition("=")[0]))


def is_secret_name(name: str) -> bool:
    """Whether a parameter or a variable of this name mostly holds a secret."""
    return SECRET_NAME.search(name) is not None
