"""The HTTP connection to a model server: the only code that reads the text of its key.

All requests leave through one HTTP client of httpx2, which authorizes them, limits the replies and redacts the logs.
Completions, and requests of other clients, are sent with it directly: importing `openai` takes 0.7 s, and its client
validates each answer. The `openai` client sends files and batches, through the same HTTP client.
"""

import importlib
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import httpx2

from pytest_rageval.lib.secret import HIDDEN, Credentials, basic_token
from pytest_rageval.models.messages import TooLarge

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_BODY_BYTES: Final = 16 * 2**20  # the largest decompressed body
DUMMY_KEY: Final = "none"  # for servers without a key, since the openai client requires one

AZURE_DEPLOYMENT: Final = "/openai/deployments/"
"""Part of the dated addresses of Azure, which accept a key in the header `api-key`, and tokens in `Authorization`."""

ENTRA_TOKEN_START: Final = "eyJ"  # noqa: S105 - not a token
"""The beginning of a token of Microsoft Entra: a JSON object in Base64. No key begins like this."""

REQUIRED_HEADERS: Final = {"content-type", "content-length", "host"}
"""Headers that are never removed from a request."""

ENVIRONMENT_HEADERS: Final = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
"""Environment variables that the openai client sends as headers."""

CONNECTION_LIMITS: Final = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)

LOGGER_PREFIXES: Final = ("openai", "httpx", "httpcore")
"""Prefixes of the names of loggers that log requests; they also match httpx2 and httpcore2."""

USER_INFO: Final = re.compile(r"(?<=://)[^\s/?#@'\"]*@")
QUERY: Final = re.compile(r"(?<=://)([^\s?'\"]*)\?[^\s'\"]*")


class Connection:
    """An HTTP connection that does not retry, follows no redirect, and logs no secret.

    A login replaces the key, since both use the same header. With `environment`, the headers that the openai client
    reads from its environment variables (`OPENAI_CUSTOM_HEADERS`, `OPENAI_ORG_ID` …) are sent.
    """

    sends_dummy_key: bool = True  # if there is no key

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        *,
        timeout_s: float,
        environment: bool = True,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        query = credentials.query
        self._credentials = credentials
        self._address = httpx2.URL(address)
        self._query = None if query is None else dict(parse_qsl(query.reveal(), keep_blank_values=True))
        self._timeout_s = timeout_s
        self._is_azure_deployment = AZURE_DEPLOYMENT in address
        environment_headers = _environment_headers()
        self._headers = httpx2.Headers({"Accept": "application/json", "User-Agent": "pytest-rageval"})
        self._headers.update(environment_headers if environment else {})
        removed = () if environment else (*ENVIRONMENT_HEADERS.values(), *environment_headers)
        self._removed_headers = [name for name in removed if name.lower() not in REQUIRED_HEADERS]
        self._max_body_bytes = max_body_bytes
        self._http = httpx2.AsyncClient(
            limits=CONNECTION_LIMITS,
            # A redirect may turn POST into GET, and lead to a server that the key is not for.
            follow_redirects=False,
            event_hooks={"request": [self._authorize], "response": [self._bound]},
        )
        self._filter = _RedactingFilter(credentials)
        self._loggers: list[logging.Logger] = []
        self._filter_logs()

    @cached_property
    def client(self) -> "AsyncOpenAI":
        import openai  # noqa: PLC0415 - 0.7 s, which completions do not need

        client = openai.AsyncOpenAI(
            base_url=str(self._address),
            api_key=DUMMY_KEY,
            default_query=self._query,
            timeout=self._timeout_s,
            # The sender retries: it must see every refusal, to adapt its rate.
            max_retries=0,
            http_client=_openai_http_client(self._http),
        )
        self._filter_logs()
        return client

    async def post(self, path: str, body: Mapping[str, object], *, stream: bool = False) -> httpx2.Response:
        """Post a body as JSON once; return the response, unread if it is a stream.

        Another status than one of success is an HTTPStatusError, whose response has been read.
        """
        response = await self.send("POST", path, json=body, stream=stream)
        if not response.is_success:
            await response.aread()
        return response.raise_for_status()

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        **body: Any,
    ) -> httpx2.Response:
        merged = self._headers.copy()
        merged.update(headers)
        url = self._address.copy_with(raw_path=self._address.raw_path.rstrip(b"/") + path.encode())
        # The argument `params` would replace the parameters in the path.
        url = url.copy_merge_params(self._query) if self._query else url
        request = self._http.build_request(method, url, headers=merged, timeout=self._timeout_s, **body)
        return await self._http.send(request, stream=stream)

    def set_credentials(self, credentials: Credentials) -> None:
        self._credentials = self._filter.credentials = credentials

    async def _authorize(self, request: httpx2.Request) -> None:
        for name in self._removed_headers:
            request.headers.pop(name, None)
        if self.sends_dummy_key:
            request.headers.setdefault("Authorization", f"Bearer {DUMMY_KEY}")
        api_key, login = self._credentials.api_key, self._credentials.login
        if login is not None:
            request.headers["Authorization"] = f"Basic {basic_token(login.reveal())}"
        elif api_key is not None:
            key = api_key.reveal()
            if self._is_azure_deployment and not key.startswith(ENTRA_TOKEN_START):
                del request.headers["Authorization"]
                request.headers["api-key"] = key
            else:
                request.headers["Authorization"] = f"Bearer {key}"

    async def _bound(self, response: httpx2.Response) -> None:
        response.stream = _BoundedStream(response, self._max_body_bytes)
        response.headers.pop("content-encoding", None)

    async def close(self) -> None:
        for logger in self._loggers:
            logger.removeFilter(self._filter)
        await self._http.aclose()

    def _filter_logs(self) -> None:
        """Add the filter to the loggers of the libraries; again after an import, which may create loggers."""
        names = [name for name in logging.root.manager.loggerDict if name.startswith(LOGGER_PREFIXES)]
        self._loggers = [logging.getLogger(name) for name in names]
        for logger in self._loggers:
            logger.addFilter(self._filter)


def _environment_headers() -> dict[str, str]:
    headers = {header: os.environ[name] for name, header in ENVIRONMENT_HEADERS.items() if name in os.environ}
    for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers


class _BoundedStream(httpx2.AsyncByteStream):
    """The decompressed body of a response; raises `TooLarge` if it has more than `max_bytes` bytes."""

    def __init__(self, response: httpx2.Response, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # Decompressed here, since httpx would decompress the response without a limit.
        self._compressed = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._compressed.aiter_bytes():
            size += len(chunk)
            if size > self._max_bytes:
                raise TooLarge(f"the server's answer is larger than {self._max_bytes // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._compressed.aclose()


class _OpenAITransport:
    """The transport of an `openai` client that sends its requests with another HTTP client.

    The `openai` client accepts only an HTTP client of the library that it is based on: httpx before version 3, httpx2
    from there on. Both have the same interface.
    """

    def __init__(self, http: httpx2.AsyncClient, library: Any) -> None:
        self._http = http
        self._library = library

    async def handle_async_request(self, request: Any) -> Any:
        # Which encodings can be decoded, the client that decodes them says.
        headers = [
            (name, value) for name, value in request.headers.multi_items() if name != "accept-encoding"
        ]
        content = await request.aread()
        sent = self._http.build_request(
            request.method, str(request.url), headers=headers, content=content, extensions=request.extensions
        )
        response = await self._http.send(sent, stream=True)
        return self._library.Response(
            response.status_code, headers=response.headers.multi_items(), content=response.aiter_raw()
        )


def _openai_http_client(http: httpx2.AsyncClient) -> Any:
    import openai  # noqa: PLC0415 - see `Connection.client`

    default = openai.DefaultAsyncHttpxClient
    library = importlib.import_module(default.__mro__[1].__module__)
    return default(transport=_OpenAITransport(http, library), follow_redirects=False)  # type: ignore[arg-type]


class _RedactingFilter(logging.Filter):
    """Redacts secrets, and user info and queries of URLs, in the log records of the thread that sends requests."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self.credentials = credentials
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # The logging module reports the malformed record.
            return True
        redacted = self._redact(message)
        if redacted != message:
            record.msg, record.args = redacted, ()
        if record.exc_info:
            record.exc_text, record.exc_info = logging.Formatter().formatException(record.exc_info), None
        if record.exc_text:
            # Formatted here, or by the filter of another connection, which has other secrets.
            record.exc_text = self._redact(record.exc_text)
        return True

    def _redact(self, text: str) -> str:
        text = QUERY.sub(rf"\1?{HIDDEN}", USER_INFO.sub(f"{HIDDEN}@", text))
        return self.credentials.redact(text)
