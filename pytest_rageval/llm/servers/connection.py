"""The connection to a server, the only place where secrets are revealed.

Completions are posted by the HTTP client that the `openai` client is built on: importing the latter takes 0.7 s, and
it builds a model of each answer. Other requests are made through it, over the same HTTP client.
"""

import base64
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import httpx2  # the openai client's own

from pytest_rageval.llm.messages import TooLarge
from pytest_rageval.secret import HIDDEN, Credentials

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["Connection"]

MOST_BYTES: Final = 16 * 2**20  # the largest body, decompressed
NO_KEY: Final = "none"  # the key for servers without one: the library requires a key

DEPLOYMENT: Final = "/openai/deployments/"
"""In the dated addresses of Azure, where a key has a header of its own and `Authorization` is for tokens."""

SIGNED: Final = "eyJ"
"""How a token of Microsoft Entra begins: JSON in Base64. A key has no such form."""

KEPT: Final = {"content-type", "content-length", "host"}  # headers that each request needs
NAMED: Final = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
"""Variables of the environment that the library sends, and their headers."""

LIMITS: Final = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)  # those of the library

LIBRARIES: Final = ("openai", "httpx", "httpcore")
"""Prefixes of the loggers that log requests; httpx2 and httpcore2 are among them."""

USER_INFO: Final = re.compile(r"(?<=://)[^\s/?#@'\"]*@")
QUERY: Final = re.compile(r"(?<=://)([^\s?'\"]*)\?[^\s'\"]*")


class Connection:
    """A client that repeats nothing, follows no redirect, and logs no secret.

    A login replaces the key: both use the same header. The timeout is for a whole reply. Without `environment` the
    headers that the library takes from its own variables (`OPENAI_CUSTOM_HEADERS`, `OPENAI_ORG_ID` …) are not sent.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        *,
        timeout_s: float,
        environment: bool = True,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        query = credentials.query
        self._credentials = credentials
        self._address = httpx2.URL(address)
        self._query = None if query is None else dict(parse_qsl(query.reveal(), keep_blank_values=True))
        self._timeout_s = timeout_s
        self._of_deployment = DEPLOYMENT in address
        of_environment = _headers_of_environment()
        self._headers = httpx2.Headers({"Accept": "application/json", "User-Agent": "pytest-rageval"})
        self._headers.update(of_environment if environment else {})
        unwanted = () if environment else (*NAMED.values(), *of_environment)
        self._unwanted = [name for name in unwanted if name.lower() not in KEPT]
        self._http = bounded_client(before=self._authorize, most_bytes=most_bytes)
        self._filter = _Redacting(credentials)
        self._loggers: list[logging.Logger] = []
        self._filter_logs()

    @cached_property
    def client(self) -> "AsyncOpenAI":
        """The library's client."""
        import openai  # noqa: PLC0415 - 0.7 s, which completions do not need

        client = openai.AsyncOpenAI(
            base_url=self._address,
            api_key=NO_KEY,
            default_query=self._query,
            timeout=self._timeout_s,
            # The sender retries: it must see every refusal to slow down.
            max_retries=0,
            http_client=self._http,
        )
        self._filter_logs()
        return client

    async def post(self, path: str, body: Mapping[str, Any]) -> httpx2.Response:
        """Post a body as JSON once; return the response with any status."""
        url = self._address.copy_with(raw_path=self._address.raw_path.rstrip(b"/") + path.encode())
        return await self._http.post(
            url, json=body, headers=self._headers, params=self._query or None, timeout=self._timeout_s
        )

    def use(self, credentials: Credentials) -> None:
        """Send these from now on."""
        self._credentials = self._filter.credentials = credentials

    async def _authorize(self, request: httpx2.Request) -> None:
        """Put the login or the key into the headers of a request."""
        for name in self._unwanted:
            request.headers.pop(name, None)
        request.headers.setdefault("Authorization", f"Bearer {NO_KEY}")
        api_key, login = self._credentials.api_key, self._credentials.login
        if login is not None:
            sent = base64.b64encode(login.reveal().encode(errors="surrogateescape")).decode()
            request.headers["Authorization"] = f"Basic {sent}"
        elif api_key is not None:
            key = api_key.reveal()
            if self._of_deployment and not key.startswith(SIGNED):
                del request.headers["Authorization"]
                request.headers["api-key"] = key
            else:
                request.headers["Authorization"] = f"Bearer {key}"

    async def close(self) -> None:
        """Close the connections and restore the loggers."""
        for logger in self._loggers:
            logger.removeFilter(self._filter)
        await self._http.aclose()

    def _filter_logs(self) -> None:
        """Redact what the libraries log; after an import, since a module makes its logger then."""
        names = [name for name in logging.root.manager.loggerDict if name.startswith(LIBRARIES)]
        self._loggers = [logging.getLogger(name) for name in names]
        for logger in self._loggers:
            logger.addFilter(self._filter)


def _headers_of_environment() -> dict[str, str]:
    """Return the headers that the library takes from the environment, as it reads them."""
    found = {header: os.environ[name] for name, header in NAMED.items() if name in os.environ}
    for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip()] = value.strip()
    return found


class _Bounded(httpx2.AsyncByteStream):
    """A response's body, decompressed; raises `TooLarge` where it is larger than `most` bytes."""

    def __init__(self, response: httpx2.Response, most: int) -> None:
        self._most = most
        # Decompressed here: the client's own response would be read without a bound.
        self._compressed = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._compressed.aiter_bytes():
            size += len(part)
            if size > self._most:
                raise TooLarge(f"the server's answer is larger than {self._most // 2**20} MiB")
            yield part

    async def aclose(self) -> None:
        await self._compressed.aclose()


def bounded_client(
    before: Callable[[httpx2.Request], Awaitable[None]] | None = None, *, most_bytes: int = MOST_BYTES
) -> httpx2.AsyncClient:
    """Return an HTTP client that bounds every body, an error's too; `before` is called with each request.

    It follows no redirect, which may turn POST into GET and lead to a server that the key is not for.
    """

    async def bound(response: httpx2.Response) -> None:
        response.stream = _Bounded(response, most_bytes)
        response.headers.pop("content-encoding", None)

    return httpx2.AsyncClient(
        limits=LIMITS,
        follow_redirects=False,
        event_hooks={"request": [before] if before else [], "response": [bound]},
    )


class _Redacting(logging.Filter):
    """Removes secrets, and user info and queries of URLs, from the log records of the sending thread."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self.credentials = credentials
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact a record of this thread; in other threads the libraries are used by the user's code."""
        if record.thread != self._thread:
            return True
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # Logging reports the malformed record itself.
            return True
        redacted = self._redacted(message)
        if redacted != message:
            record.msg, record.args = redacted, ()
        if record.exc_info:
            record.exc_text = self._redacted(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True

    def _redacted(self, text: str) -> str:
        text = QUERY.sub(rf"\1?{HIDDEN}", USER_INFO.sub(f"{HIDDEN}@", text))
        return self.credentials.redacted(text)
