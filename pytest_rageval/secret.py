"""`Secret`: a text that is hidden when it is printed. URLs that may contain secrets."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, Self
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit, urlunsplit

from pytest_rageval.lazy import lazy_pattern

__all__ = [
    "CACHE_URL",
    "HIDDEN",
    "SCHEME",
    "BaseURL",
    "Credentials",
    "Secret",
    "StoreURL",
    "is_secret_name",
    "parse_cache",
    "parse_public_cache",
    "public_url",
]

HIDDEN: Final = "***"

SHORTEST: Final = 8
"""Characters. A shorter text may be a word such as "none", used in place of a key."""


class Secret:
    """A key or a password. `repr`, `str` and `format` show `***`; `reveal` returns the text.

    It is not a `str`, cannot be pickled, and equals another with the same text. `redact` is what `redacted` hides
    where that is not the whole text.
    """

    __slots__ = ("_pattern", "_text")

    def __init__(self, text: str, redact: Iterable[str] | None = None) -> None:
        self._text = text
        hidden = [text] if redact is None else redact
        forms = {form for part in hidden for form in _forms(part) if len(form) >= SHORTEST}
        longest_first = sorted(map(re.escape, forms), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if longest_first else None

    @classmethod
    def login(cls, user: str, password: str) -> Self:
        """Return the secret "user:password" of HTTP basic authorization."""
        text = f"{user}:{password}"
        sent = base64.b64encode(text.encode(errors="surrogateescape")).decode()
        return cls(text, [text, password, sent])

    def reveal(self) -> str:
        """Return the text, for the code that sends it to its server."""
        return self._text

    def redacted(self, text: str) -> str:
        """Replace the secret by `***`, also as written in JSON, a URL or code, unless it is as short as a word."""
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


@dataclass(frozen=True, slots=True)
class Credentials:
    """The secrets sent with every request to a server."""

    api_key: Secret | None = None  # for `Authorization: Bearer`
    login: Secret | None = None  # "user:password" for `Authorization: Basic`, sent instead of the key
    query: Secret | None = None  # of the base URL; it may hold a key
    expired: tuple[Secret, ...] = ()  # former keys, which a late answer may repeat

    def renewed(self, api_key: Secret) -> "Credentials":
        """Return these credentials with another key."""
        former = self.expired if self.api_key is None else (*self.expired, self.api_key)
        return Credentials(api_key, self.login, self.query, former)

    def redacted(self, text: str) -> str:
        """Remove the secrets from a server's text, which may repeat them."""
        for secret in (self.api_key, self.login, self.query, *self.expired):
            text = text if secret is None else secret.redacted(text)
        return text


ALLOWED: Final = "expected a URL that begins with http:// or https://"

SECRET_NAME: Final = lazy_pattern(
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


CACHE_URL: Final = "RAGEVAL_CACHE_URL"
"""The environment variable of the cache; the only place for a URL with a password."""

SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]+):(?!\\)", re.ASCII)
"""At least two letters: one is a drive of Windows."""

FOLDERS: Final = frozenset({"diskcache"})
"""Schemes whose URLs name a folder."""


@dataclass(frozen=True, slots=True)
class StoreURL:
    """The URL of a store; `public` is its name in messages and reports, without user, password and query."""

    scheme: str
    public: str
    secret: Secret  # the whole URL
    private: bool = False  # whether it has a user, a password, or a parameter named like a secret

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URL, or raise ValueError with what is allowed, which does not quote the URL."""
        text = text.strip()
        match = SCHEME.match(text)
        try:
            parts = urlsplit(text)
            _ = parts.port
        except ValueError:
            match = None
        if match is None:
            raise ValueError("expected a folder, or a URL such as redis://HOST/0 or diskcache:FOLDER")
        if "@" in f"{parts.path}{parts.query}{parts.fragment}" and match[1] not in FOLDERS:
            # A part of the password would be shown.
            raise ValueError(
                "expected a URL in whose user and password / ? # and @ are written %2F %3F %23 and %40"
            )
        if match[1] in FOLDERS:
            return cls(match[1], text, Secret(text, ()))
        user_info, _, host = parts.netloc.rpartition("@")
        query = [each.partition("=")[::2] for each in parts.query.split("&")]
        hidden = [user_info, *user_info.partition(":")[2:], *(value for _, value in query)]
        # urlunsplit drops an empty host with its slashes.
        authority = f"//{host}" if text.partition(":")[2].startswith("//") else ""
        public = f"{parts.scheme}:{authority}{parts.path}"
        private = bool(user_info) or any(is_secret_name(name) for name, _ in query)
        return cls(match[1], public, Secret(text, [text, *hidden, *map(unquote, hidden)]), private)

    @property
    def folder(self) -> Path | None:
        """The folder of a store on this machine; None for one at a server."""
        return Path(self.public.partition(":")[2]) if self.scheme in FOLDERS else None

    def below(self, folder: Path) -> Self:
        """Return the URL with a relative folder in it placed below this one."""
        if self.folder is None:
            return self
        text = f"{self.scheme}:{folder / self.folder}"
        return replace(self, public=text, secret=Secret(text, ()))

    def redacted(self, text: str) -> str:
        """Remove the URL and the secrets in it from a text."""
        return self.secret.redacted(text)

    def __str__(self) -> str:
        return self.public


def parse_cache(text: str) -> Path | StoreURL:
    """Read a folder or the URL of a store; ValueError says what is allowed."""
    return StoreURL.parse(text) if SCHEME.match(text.strip()) else Path(text)


def parse_public_cache(text: str) -> Path | StoreURL:
    """As `parse_cache`, for places that others can read: a URL with a password is refused."""
    place = parse_cache(text)
    if isinstance(place, StoreURL) and place.private:
        raise ValueError(
            f"a URL with a user or password belongs in the environment variable {CACHE_URL}, since command lines and "
            f"ini files are read by others; here it is {place.public}"
        )
    return place


def _forms(text: str) -> Iterable[str]:
    """Yield the spellings of a text: as it is, stripped, in JSON, in code, in a URL."""
    sent = text.encode(errors="replace")
    in_json = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    yield from (text, text.strip(), *in_json, repr(text)[1:-1], ascii(text)[1:-1], repr(sent)[2:-1])
    yield from (form.replace("/", "\\/") for form in in_json)
    yield from (quote(sent), quote(sent, safe=""), quote_plus(sent))
