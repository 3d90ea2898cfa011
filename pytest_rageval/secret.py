"""Texts that must not be shown: they stay hidden however the object that holds them is printed."""

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn, Self
from urllib.parse import quote, quote_plus

__all__ = ["HIDDEN", "Credentials", "Secret"]

HIDDEN: Final = "***"

SHORTEST: Final = 8
"""Characters. A shorter text is a word such as "none", which stands for a key and occurs in other texts too."""


class Secret:
    """A key or a password. `repr`, `str` and `format` show `***`; `reveal` gives the text.

    It is no `str`, so that no library takes it for one. It cannot be pickled. Two are equal where their texts are.

    Args:
        text: the secret.
        redact: what `redacted` hides where this is not the text itself, such as the password in "user:password".
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
        """A user's name and password, "user:password", as HTTP basic authorization has them."""
        text = f"{user}:{password}"
        sent = base64.b64encode(text.encode(errors="surrogateescape")).decode()
        return cls(text, [text, password, sent])

    def reveal(self) -> str:
        """The text. Only the code that sends it to its server may call this."""
        return self._text

    def redacted(self, text: str) -> str:
        """A text with `***` in place of the secret, also where it is written in JSON, in a URL or in code.

        A secret of fewer than 8 characters stays: it may be a word.
        """
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
    """What a server must be given beside a request.

    Attributes:
        api_key: for `Authorization: Bearer`.
        login: "user:password" for `Authorization: Basic`, which is then sent in place of the key.
        query: of the base URL; it may hold a key, and is sent with every request.
    """

    api_key: Secret | None = None
    login: Secret | None = None
    query: Secret | None = None

    def redacted(self, text: str) -> str:
        """A server's text without the secrets that it was sent, and may repeat."""
        for secret in (self.api_key, self.login, self.query):
            text = text if secret is None else secret.redacted(text)
        return text


def _forms(text: str) -> Iterable[str]:
    """How a text may be written: as it is, without white space around it, in JSON, in code, in a URL."""
    sent = text.encode(errors="replace")
    in_json = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    yield from (text, text.strip(), *in_json, repr(text)[1:-1], ascii(text)[1:-1], repr(sent)[2:-1])
    yield from (form.replace("/", "\\/") for form in in_json)
    yield from (quote(sent), quote(sent, safe=""), quote_plus(sent))
