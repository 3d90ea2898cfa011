"""The `openai` client of a server: the one place where secrets are revealed."""

import base64
import logging
import re
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import httpx2  # the openai client's own, loaded with it
import openai

from pytest_rageval.llm.messages import TooLarge
from pytest_rageval.secret import HIDDEN, Credentials

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["MOST_BYTES", "Connection", "bounded_client"]

MOST_BYTES: Final = 16 * 2**20
"""Of a body, unpacked."""


class _Bounded(httpx2.AsyncByteStream):
    """A response's body, unpacked, which raises `TooLarge` beyond the size."""

    def __init__(self, response: httpx2.Response) -> None:
        # One of its own unpacks: that of the client would be read without a bound.
        self._packed = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._packed.aiter_bytes():
            size += len(part)
            if size > MOST_BYTES:
                raise TooLarge(f"the server's answer is larger than {MOST_BYTES // 2**20} MiB")
            yield part

    async def aclose(self) -> None:
        await self._packed.aclose()


async def _bound(response: httpx2.Response) -> None:
    response.stream = _Bounded(response)
    response.headers.pop("content-encoding", None)


def bounded_client() -> httpx2.AsyncClient:
    """An HTTP client for the openai client; every body is bounded, an error's too.

    It follows no redirect, which may turn POST into GET, and lead to a server that the key is not for.
    """
    return openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_bound]})


NO_KEY: Final = "none"
"""Local servers want no key, but the client library wants one."""

LIBRARIES: Final = ("openai", "httpx", "httpcore")
"""How the names of loggers begin that write down what is sent; httpx2 and httpcore2 are among them."""

USER_INFO: Final = re.compile(r"(?<=://)[^\s/?#@'\"]*@")
QUERY: Final = re.compile(r"(?<=://)([^\s?'\"]*)\?[^\s'\"]*")
"""Of a URL in a log record. That of a redirect may be any."""


class Connection:
    """A client that repeats nothing, follows no redirect, and logs no secret.

    Args:
        address: the URL of the server, without secrets.
        credentials: for the server. A login is sent in place of the key: both belong into one header.
        timeout_s: for a whole reply, in seconds.
    """

    def __init__(self, address: str, credentials: Credentials, *, timeout_s: float) -> None:
        import openai  # noqa: PLC0415 - 0.8 s, which a run from the cache must not pay

        key, login, query = credentials.api_key, credentials.login, credentials.query
        self.client: AsyncOpenAI = openai.AsyncOpenAI(
            base_url=address,
            api_key=NO_KEY if key is None else key.reveal(),
            default_headers=None if login is None else {"Authorization": _basic(login.reveal())},
            default_query=None if query is None else dict(parse_qsl(query.reveal(), keep_blank_values=True)),
            timeout=timeout_s,
            # Repeating is the sender's: it must see every refusal in order to go slower.
            max_retries=0,
            http_client=bounded_client(),
        )
        self._filter = _Redacting(credentials)
        # After the client is made: then the modules that it needs have made their loggers.
        names = [name for name in logging.root.manager.loggerDict if name.startswith(LIBRARIES)]
        self._loggers = [logging.getLogger(name) for name in names]
        for logger in self._loggers:
            logger.addFilter(self._filter)

    async def close(self) -> None:
        """Close the connections, and leave the loggers as they were."""
        for logger in self._loggers:
            logger.removeFilter(self._filter)
        await self.client.close()


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode(errors='surrogateescape')).decode()}"


class _Redacting(logging.Filter):
    """Takes secrets, and user info and queries of URLs, out of the records of the thread that asks the server."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self._credentials = credentials
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass; those of other threads, in which the libraries are the user's, as they are."""
        if record.thread != self._thread:
            return True
        try:
            said = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # Logging says so itself when it writes the record.
            return True
        redacted = self._redacted(said)
        if redacted != said:
            record.msg, record.args = redacted, ()
        if record.exc_info:
            record.exc_text = self._redacted(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        return True

    def _redacted(self, text: str) -> str:
        without = QUERY.sub(rf"\1?{HIDDEN}", USER_INFO.sub(f"{HIDDEN}@", text))
        return self._credentials.redacted(without)
