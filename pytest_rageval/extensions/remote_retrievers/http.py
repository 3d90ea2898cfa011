"""`HTTPRetriever`: a search at a URL."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.remote_retrievers.messages import (
    BODY,
    LoopResource,
    RemoteRetriever,
    expanded,
    shown,
)
from pytest_rageval.lib.secret import EXPECTED_URL, BaseURL, Credentials, Secret, is_secret_name, public_url
from pytest_rageval.lib.text import counted
from pytest_rageval.models.rate_limits import Limiter, retry_after

if TYPE_CHECKING:
    from pytest_rageval.models.connection import Connection

    _Open = tuple[Connection, Limiter, dict[str, str], Credentials, str]

FIRST_DELAY_S: Final = 0.5  # before the second attempt, doubled before each further one
MAX_DELAY_S: Final = 8.0
BUSY: Final = (429, 503)
SERVER_ERRORS: Final = 500


class HTTPRetriever(RemoteRetriever):
    """A retriever at a URL, in any language: an async function (query, k) -> documents for `rageval_retriever`.

    The question is sent as JSON, and the reply is JSON with the documents, best first. The headers and the URL may name
    environment variables, as `${SEARCH_TOKEN}`; their values appear in no message, log or report. After a status of 429
    or 5xx, a timeout and a lost connection the request is repeated: after the wait that the server asks for, else after
    0.5 s, doubled each time. A question whose last attempt fails is unscored.

    Args:
        url: the URL.
        method: the method. With GET the keys of the body are parameters of the URL.
        body: the body, with the placeholders `{query}`, `{k}`, `{filters}`, `{history}` and `{metadata}`. A text that
            is a placeholder alone becomes the value, such as a number for `"{k}"`. Default:
            `{"query": "{query}", "k": "{k}"}`.
        documents: the place of the documents in the reply, such as `hits[*].source`: keys separated by ".", `[0]` for
            an item, `[*]` for each item of a list, `["a.b"]` for a key with other characters. Default: the usual
            shapes are found, as those of any retriever.
        id: the place of the id in a document; default: the usual names.
        text: the place of the text in a document; default: the usual names.
        headers: headers of the request.
        timeout: seconds to wait for a reply.
        retries: how often a request is repeated.
        concurrency: the most requests in flight. A server that refuses requests gets fewer.

    Raises:
        InputError: the URL, the body or a path is invalid, or an environment variable is missing.
    """

    def __init__(  # noqa: PLR0913 - the properties of a request
        self,
        url: str,
        *,
        method: str = "POST",
        body: Any = None,
        documents: str = "",
        id: str = "",  # noqa: A002 - named as in documents
        text: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        concurrency: int = 16,
    ) -> None:
        super().__init__(BODY if body is None else body, documents, id, text)
        self._url = url
        self._name = public_url(url)
        self._method = method.upper()
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._retries = retries
        self._concurrency = concurrency
        self._resource = LoopResource(self._open)
        self._settings = {"url": self._name, "method": self._method, **self._settings}
        if self._method == "GET" and not isinstance(self._body, Mapping):
            raise InputError("body of a GET request is an object: its keys become parameters of the URL.")
        self._request()  # finds a missing variable now, and not at the first question

    def _request(self) -> tuple[BaseURL, dict[str, str], list[str]]:
        url, secrets = expanded(self._url, "url")
        headers = {}
        for name, value in self._headers.items():
            headers[name], values = expanded(value, f"headers[{name!r}]")
            secrets += [*values, *([headers[name]] if is_secret_name(name) else [])]
        try:
            return BaseURL.parse(url), headers, secrets
        except ValueError:
            raise InputError(
                f"HTTPRetriever: {self._name!r:.{200}} cannot be used: {EXPECTED_URL}."
            ) from None

    async def _open(self) -> AsyncGenerator["_Open", None]:
        from pytest_rageval.models.connection import Connection  # noqa: PLC0415 - loads the HTTP client

        base, headers, secrets = self._request()
        # The secrets of headers are no credentials of the connection, and are redacted as those.
        credentials = Credentials(login=base.login, query=base.query, expired=tuple(map(Secret, secrets)))
        connection = Connection(base.url, credentials, timeout_s=self._timeout, environment=False)
        connection.sends_dummy_key = False
        try:
            # The connection leaves out a slash at the end, which some servers require.
            path = "/" if urlsplit(self._url).path.endswith("/") else ""
            yield connection, Limiter(self._concurrency), headers, credentials, path
        finally:
            await connection.close()

    async def _ask(self, body: Any) -> Any:
        import httpx2  # noqa: PLC0415 - few runs have a retriever at a URL

        connection, limiter, headers, credentials, path = await self._resource.get()
        sent = {"json": body}
        if self._method == "GET":
            texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in body.items()}
            path, sent = f"{path}?{urlencode(texts)}", {}
        attempt = 0
        while True:
            attempt += 1
            delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (attempt - 1)) * random.uniform(0.5, 1)  # noqa: S311 - no secret
            async with limiter.slot(first=attempt > 1) as slot:
                problem: OSError
                try:
                    # The client's own limit is for each part of the reply.
                    async with asyncio.timeout(self._timeout):
                        response = await connection.send(self._method, path, headers=headers, **sent)
                except (httpx2.TimeoutException, TimeoutError):
                    problem = TimeoutError(f"{self._name} did not answer within {self._timeout:g} s")
                except httpx2.TransportError as error:
                    problem = ConnectionError(f"{self._name}: {str(error) or type(error).__name__}")
                else:
                    if response.is_success:
                        limiter.record_success()
                        return self._parsed(response.content, credentials)
                    status, wait = response.status_code, retry_after(response.headers)
                    # Redacted before they are cut.
                    place, text = map(
                        credentials.redact, (response.headers.get("location", ""), response.text)
                    )
                    where = f" to {shown(place)}" if place else ""
                    problem = ConnectionError(f"{self._name} answered {status}{where}: {shown(text)}")
                    if status not in BUSY and status < SERVER_ERRORS:
                        raise problem
                    delay = delay if wait is None else wait
                    if status in BUSY:
                        limiter.record_refusal(slot, delay)
            if attempt > self._retries:
                raise type(problem)(f"{problem}, {counted(attempt, 'time')}") from None
            await asyncio.sleep(delay)

    def _parsed(self, content: bytes, credentials: Credentials) -> Any:
        try:
            return json.loads(content)
        except ValueError:
            text = credentials.redact(content.decode(errors="replace"))
            raise ValueError(f"{self._name} answered with what is no JSON: {shown(text)}") from None
