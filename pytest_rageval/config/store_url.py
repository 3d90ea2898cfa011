"""Where the cache is: a folder, or the URL of a store that machines share."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from pytest_rageval.secret import Secret, is_secret_name

__all__ = ["CACHE_URL", "StoreURL", "parse_cache", "parse_public_cache"]

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
        public = urlunsplit((parts.scheme, host, parts.path, "", ""))
        private = bool(user_info) or any(is_secret_name(name) for name, _ in query)
        return cls(match[1], public, Secret(text, [text, *hidden, *map(unquote, hidden)]), private)

    def below(self, folder: Path) -> Self:
        """Return the URL with a relative folder in it placed below this one."""
        if self.scheme not in FOLDERS:
            return self
        text = f"{self.scheme}:{folder / self.public.partition(':')[2]}"
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
            f"a URL with a user or password is given in the environment variable {CACHE_URL} alone, which nobody "
            f"prints; here it is {place.public}"
        )
    return place
