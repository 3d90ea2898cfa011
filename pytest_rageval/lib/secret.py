"""`Secret`, a text that is replaced by `***` when it is printed, and URLs that may contain secrets."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, Self
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit, urlunsplit

HIDDEN: Final = "***"

MIN_REDACTED_LENGTH: Final = 8
"""In characters. A shorter text is not redacted: it may be a word such as "none" that is used as a dummy key."""


class Secret:
    """A key or a password. `repr`, `str` and `format` show `***`; `reveal` returns the text.

    It is not a `str` and cannot be pickled. Two secrets are equal if their texts are equal. `parts` are the texts that
    `redact` replaces; default: the whole secret.
    """

    __slots__ = ("_pattern", "_text")

    def __init__(self, text: str, parts: Iterable[str] | None = None) -> None:
        self._text = text
        hidden = [text] if parts is None else parts
        spellings = {spelling for part in hidden for spelling in _spellings(part)}
        spellings = {spelling for spelling in spellings if len(spelling) >= MIN_REDACTED_LENGTH}
        longest_first = sorted(map(re.escape, spellings), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if longest_first else None

    @classmethod
    def from_login(cls, user: str, password: str) -> Self:
        """Return the secret "user:password" of HTTP basic authentication. The password alone is redacted too."""
        text = f"{user}:{password}"
        return cls(text, [text, password, basic_token(text)])

    def reveal(self) -> str:
        """Return the text. Only code that sends it to its server may call this method."""
        return self._text

    def redact(self, text: str) -> str:
        """Replace the secret in a text by `***`, in each spelling that JSON, a URL or Python code may give it."""
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret is not pickled, and not sent to another process")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__getstate__()


def basic_token(login: str) -> str:
    return base64.b64encode(login.encode(errors="surrogateescape")).decode()


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets sent with every request to a server."""

    api_key: Secret | None = None  # the key, for the header `Authorization: Bearer`
    # "user:password", for the header `Authorization: Basic`; sent instead of the key.
    login: Secret | None = None
    query: Secret | None = None  # the query of the base URL, which may contain a key
    expired: tuple[Secret, ...] = ()  # former keys, which a delayed response may still quote

    def with_api_key(self, api_key: Secret) -> "Credentials":
        former = self.expired if self.api_key is None else (*self.expired, self.api_key)
        return Credentials(api_key, self.login, self.query, former)

    def redact(self, text: str) -> str:
        """Replace all secrets in a text by `***`: a server may quote them in a response."""
        for secret in (self.api_key, self.login, self.query, *self.expired):
            text = text if secret is None else secret.redact(text)
        return text


EXPECTED_URL: Final = "expected a URL that begins with http:// or https://"

SECRET_NAME: Final = re.compile(
    r"(key|token|secret|password|passwd|pwd|sig|signature|auth|authorization|credentials?|^code)$",
    re.IGNORECASE,
)
"""Matches the end of the name of a parameter that holds a secret: `api-key`, `access_token`, `sig` …"""


@dataclass(frozen=True)
class BaseURL:
    """The base URL of a server without its secrets, and the secrets."""

    url: str  # scheme, host and path. Requests are sent to this URL
    public: str  # the name of the server in reports and request keys, see `public_url`
    login: Secret | None = None  # user and password; None if the URL has none
    query: Secret | None = None  # the whole query, which may contain a key; None if the URL has none

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a URL. ValueError says what is allowed, and does not quote the URL."""
        try:
            parts = urlsplit(text.strip())
            usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(EXPECTED_URL)
        user_info, _, host = parts.netloc.rpartition("@")
        if "@" in f"{parts.path}{parts.query}{parts.fragment}":
            # "http://me:1/x@host" has the host "me": a part of the password would be shown, and sent to that host.
            raise ValueError(
                f"{EXPECTED_URL}, in whose user and password / ? # and @ are written %2F %3F %23 and %40"
            )
        parameters = parts.query.split("&")
        names = [parameter.partition("=")[0] for parameter in parameters]
        secrets = [unquote_plus(item.partition("=")[2]) for item in parameters if _is_secret(item)]
        if len(set(names)) < len(names):
            raise ValueError(f"{EXPECTED_URL}, with each parameter of its query once")
        user, _, password = user_info.partition(":")
        location = (parts.scheme, host, parts.path.rstrip("/"))
        return cls(
            url=urlunsplit((*location, "", "")),
            public=public_url(urlunsplit((*location, parts.query, ""))),
            login=Secret.from_login(unquote(user), unquote(password)) if user_info else None,
            query=Secret(parts.query, secrets) if parts.query else None,
        )


def public_url(url: str) -> str:
    """Return a URL without secrets: no user, no password, no fragment, and a hash in place of the query.

    The hash covers the parameters whose names are not those of secrets: the query may name the deployment, so it is
    part of the server's identity, and a new key does not change the public URL.

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
    """Whether a parameter or an environment variable of this name probably holds a secret."""
    return SECRET_NAME.search(name) is not None


SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?!\\)", re.ASCII)
"""The scheme of a URL. It has at least two characters, since a single letter is a drive on Windows."""

FOLDER_SCHEMES: Final = frozenset({"diskcache"})  # the schemes of stores in a folder


@dataclass(frozen=True, slots=True)
class StoreURL:
    """The URL of a store of replies."""

    scheme: str  # the scheme, such as "redis"
    public: str  # the URL without user, password and query, for messages and reports
    secret: Secret  # the whole URL
    private: bool = False  # whether it has a user, a password, or a parameter whose name is that of a secret

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a URL. ValueError says what is allowed, and does not quote the URL."""
        text = text.strip()
        match = SCHEME.match(text)
        try:
            parts = urlsplit(text)
            _ = parts.port
        except ValueError:
            match = None
        if match is None:
            raise ValueError("expected a folder, or a URL such as redis://HOST/0 or diskcache:FOLDER")
        scheme = match[1].lower()
        text = scheme + text.removeprefix(match[1])
        if "@" in f"{parts.path}{parts.query}{parts.fragment}" and scheme not in FOLDER_SCHEMES:
            # A part of the password would be shown.
            raise ValueError(
                "expected a URL in whose user and password / ? # and @ are written %2F %3F %23 and %40"
            )
        if scheme in FOLDER_SCHEMES:
            return cls(scheme, text, Secret(text, ()))
        user_info, _, host = parts.netloc.rpartition("@")
        query = [parameter.partition("=")[::2] for parameter in parts.query.split("&")]
        hidden = [user_info, *user_info.partition(":")[2:], *(value for _, value in query)]
        # urlunsplit would omit the slashes before an empty host.
        authority = f"//{host}" if text.partition(":")[2].startswith("//") else ""
        public = f"{parts.scheme}:{authority}{parts.path}"
        private = bool(user_info) or any(is_secret_name(name) for name, _ in query)
        return cls(scheme, public, Secret(text, [text, *hidden, *map(unquote, hidden)]), private)

    @property
    def folder(self) -> Path | None:
        """The folder of a store on this machine; None for a store at a server."""
        return Path(self.public.partition(":")[2]) if self.scheme in FOLDER_SCHEMES else None

    def resolve_folder(self, base: Path) -> Self:
        """Return the URL with a relative folder in it joined to a base folder; other URLs are unchanged."""
        if self.folder is None:
            return self
        text = f"{self.scheme}:{base / self.folder}"
        return replace(self, public=text, secret=Secret(text, ()))

    def redact(self, text: str) -> str:
        return self.secret.redact(text)

    def __str__(self) -> str:
        return self.public


def parse_cache(text: str) -> Path | StoreURL:
    """Parse a folder or the URL of a store. ValueError says what is allowed."""
    # "redis//:PASSWORD@host" and "1redis://…" are no folders: their names would be shown.
    is_url = SCHEME.match(text.strip()) or "://" in text or "//:" in text
    return StoreURL.parse(text) if is_url else Path(text)


def _spellings(text: str) -> Iterable[str]:
    """Yield the spellings of a text: unchanged, stripped, as in JSON, as in Python code, and as in a URL."""
    encoded = text.encode(errors="replace")
    in_json = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    yield from (text, text.strip(), *in_json, repr(text)[1:-1], ascii(text)[1:-1], repr(encoded)[2:-1])
    yield from (spelling.replace("/", "\\/") for spelling in in_json)
    yield from (quote(encoded), quote(encoded, safe=""), quote_plus(encoded))
