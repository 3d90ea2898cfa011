"""A model server (`Server`), and one attempt at a request to it (`Client`): one HTTP call, with its errors mapped."""

import asyncio
import contextlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

from pytest_rageval.core.errors import ContextOverflow, Unscored
from pytest_rageval.core.options import (
    DEFAULT_CONCURRENCY,
    DEFAULT_PATIENCE_S,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
)
from pytest_rageval.core.settings import Api
from pytest_rageval.lib.lazy import lazy_pattern
from pytest_rageval.lib.secret import Credentials, public_url
from pytest_rageval.lib.text import parse_failure
from pytest_rageval.models import completions, responses
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.messages import MAX_REPLY_LENGTH, BilledFailure, Reply, Request, TooLarge
from pytest_rageval.models.proxied_request import (
    Answer,
    ProxiedRequest,
    StreamEndedEarly,
    reply_record,
    send_proxied_request,
    send_raw,
)
from pytest_rageval.models.rate_limits import retry_after, until_reset
from pytest_rageval.models.server_errors import NamedServer, blocked_error

if TYPE_CHECKING:
    import httpx2

    from pytest_rageval.models.connection import Connection

T = TypeVar("T")

MAX_BODY_CHARACTERS: Final = 4000  # of an unreadable body, for messages and searches
MAX_ERROR_DEPTH: Final = 32  # levels of nesting of an error that is searched for words; real errors have six
AUTH_STATUSES: Final = {401, 403}
OVERLOAD_STATUSES: Final = {429, 503, 529}  # the server has too much load
REFUSAL_STATUSES: Final = {400, 404, 422}  # the request itself is wrong
RETRYABLE_STATUSES: Final = {408, 409, 425, 500, 502, 504, *OVERLOAD_STATUSES}

CONTEXT_OVERFLOW: Final = lazy_pattern(
    r"context[_ ]length|context (size|window)|exceed_context|(prompt|input) is too long|too many tokens",
    re.IGNORECASE,
)
"""Matches an error about a prompt that is longer than the context window of the model."""

NO_CHAT_COMPLETIONS: Final = lazy_pattern(
    r"only (supported|available|works?) (in|on|with|through|via) [^.]*responses|(not a|no) chat model"
    r"|chat_?completions? operation does not work|not supported in the v1/chat/completions",
    re.IGNORECASE,
)
"""Matches an error about a model that has no chat completions."""

NO_PROVIDER: Final = lazy_pattern(r"no endpoints found that (support|can handle)", re.IGNORECASE)
"""Matches OpenRouter's error, with status 404, about parameters that no provider of a model supports."""

INTERRUPTION_ERRORS: Final = {"RemoteProtocolError", "DecodingError"}
"""Errors in the middle of a reply, by class name, since the HTTP library is loaded late."""

SENT_ERRORS: Final = {"ReadError", "WriteError", "RemoteProtocolError"}
"""Errors after which the server may have received and answered the request, by class name."""


FailureKind = Literal["throttled", "slow", "unreached", "dropped", "garbled", "failed"]
"""In this order: the server has too much load, did not answer in time, could not be reached, closed the connection
without a reply, sent an unreadable reply, or reported another error."""


@dataclass(eq=False)
class RetryableError(Exception):
    """This attempt failed, and a retry may succeed."""

    reason: str  # what users read if all retries fail
    kind: FailureKind
    wait_s: float | None = None  # the delay before the next request that the server requests, in seconds
    exhausted: bool = False  # whether the server says that its limit is used up, which concerns all requests


class RequestRefused(Unscored):
    """The server refuses this request itself, with a status such as 400 or 422; `answer` is the error it sent."""

    def __init__(self, reason: str, answer: Mapping[str, Any], status: int = 400) -> None:
        super().__init__(reason)
        self.answer = answer
        self.status = status


Send = Callable[["Connection"], Awaitable[Any]]
"""A function that sends a request over a connection."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How fast this process sends requests to a server."""

    concurrency: int = DEFAULT_CONCURRENCY  # the most requests in flight
    timeout_s: float = DEFAULT_TIMEOUT_S  # the longest wait for one reply
    retries: int = DEFAULT_RETRIES  # attempts after the first one
    rpm: float | None = None  # requests per minute; None for no limit
    tpm: float | None = None  # tokens per minute; None for no limit
    patience_s: float = DEFAULT_PATIENCE_S  # the longest time without any reply before the server is given up


NO_LIMITS: Final = Limits()


class Server(NamedServer, ABC):
    """Answers model requests: a server at a URL, or what a provider makes in its place.

    Two objects of one class with equal `_settings` are one server.
    """

    model: str = ""  # its only model in request keys; "" if it has others, which the options name
    in_flight: int | None = None  # the most requests in flight; None for those of its policy
    policy: RequestPolicy | None = None  # None for the policy of the run
    limits: Limits = NO_LIMITS  # of its requests, in addition to those of the run
    flex: bool = False  # whether requests use the flex tier: a lower price, and slower replies
    _settings: tuple[object, ...]

    @abstractmethod
    def client(self, *, timeout_s: float) -> "Client":
        """Return a client that sends requests to the server; `timeout_s` is the longest wait for a whole reply."""

    @abstractmethod
    async def address(self) -> str:
        """Return the URL for requests; start the server if this package has to."""

    async def renew_key(self, refused: Credentials) -> bool:  # noqa: ARG002 - for servers whose keys expire
        """Return whether there is another key than the refused one: False for a server whose keys do not expire."""
        return False

    def close(self) -> None:
        """Stop the server if `address` has started it."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Server):
            return NotImplemented
        return type(self) is type(other) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"


class _AuthFailure(NamedTuple):
    """A server refused the key: the outcome of the request if there is no other key, and the refused credentials."""

    outcome: Any
    credentials: Credentials


class Client:
    """Sends requests to one server, one attempt each; `timeout_s` is the longest wait for a whole reply."""

    def __init__(self, server: Server, *, timeout_s: float, max_body_bytes: int | None = None) -> None:
        self.server = server
        self._timeout_s = timeout_s
        self._size_limit = {} if max_body_bytes is None else {"max_body_bytes": max_body_bytes}
        self._connection: Connection | None = None
        self._api = responses if server.api == "responses" else completions

    async def address(self) -> str:
        return await self.server.address()

    async def complete(self, request: Request, parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Send a request once, with parameters that are adapted to the server.

        Returns:
            The reply, and the pause in seconds that the server requests, or None.

        Raises:
            RetryableError: this attempt failed, and a retry may succeed.
            RequestRefused: the server refuses this request itself.
            ServerError: no request can succeed: no server, a wrong key or model, or a quota that is used up.
            Unscored: this request failed; other requests may succeed. TooLarge if the reply is too large.
        """
        proxied = request if isinstance(request, ProxiedRequest) else None

        def send(connection: "Connection") -> Awaitable[Any]:
            if proxied is not None:
                return send_proxied_request(connection, proxied)
            return connection.call(
                "POST", self._api.PATH, json=request_body(self.server.api, request, parameters)
            )

        try:
            response = await self._send_with_renewal(request, send)
            reply = self._parse_reply(response.content, proxied.path if proxied else None)
        except RetryableError as failure:
            if proxied is not None and proxied.begun:
                # A part of the reply was passed on to the client, and another attempt would repeat it.
                raise BilledFailure(failure.reason) from None
            raise
        return reply, until_reset(response.headers)

    async def forward(
        self, proxied: ProxiedRequest, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request of any kind once, and return the answer with any status; raise the errors of `complete`."""
        try:
            answer: Answer = await self._send_with_renewal(
                proxied, lambda connection: send_raw(connection, method, proxied.path, content, headers)
            )
        except RetryableError as error:
            raise (Unscored if error.kind == "unreached" else BilledFailure)(error.reason) from None
        return answer._replace(content=self._redact(answer.content.decode("latin-1")).encode("latin-1"))

    async def call(self, request: Request, send: Callable[["Connection"], Awaitable[T]]) -> T:
        """Send a request of any kind once; raise the errors of `complete` for this request."""
        result: T = await self._send_with_renewal(request, send)
        return result

    def parse_body(self, body: bytes) -> Reply:
        return self._parse_reply(body)

    async def _send_with_renewal(self, request: Request, send: Send) -> Any:
        """Send a request; if the key is refused and there is another one, send it again with that key."""
        response = await self._send(request, send)
        if isinstance(response, _AuthFailure) and await self.server.renew_key(response.credentials):
            response = await self._send(request, send)
        if isinstance(response, _AuthFailure):
            response = response.outcome
        if isinstance(response, Exception):
            # Raised outside the handlers, so that the traceback has no frames of the library, which contain the key.
            raise response
        return response

    async def _send(self, request: Request, send: Send) -> Any:
        """Return what `send` returns, or the error as a value."""
        address = await self.address()
        credentials = self.server.credentials
        # Imported here, since it takes 0.1 s, and a run that finds all replies in the cache sends nothing.
        from pytest_rageval.models.connection import Connection  # noqa: PLC0415

        try:
            if self._connection is None:
                self._connection = Connection(
                    address,
                    credentials,
                    timeout_s=self._timeout_s,
                    # The variables of OpenAI's library are for the generator's server.
                    environment=self.server.role == "generator",
                    **self._size_limit,
                )
            self._connection.set_credentials(credentials)
            async with asyncio.timeout(self._timeout_s):
                answer = await send(self._connection)
            refused = isinstance(answer, Answer) and answer.status in AUTH_STATUSES
            return _AuthFailure(answer, credentials) if refused else answer
        except Exception as error:  # noqa: BLE001 - raised without its frames
            host = urlsplit(address).hostname or ""
            blocked = blocked_error(f"{self.server.subject} cannot be reached", host, error)
            return blocked or self._map_error(request, error, credentials)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _parse_reply(self, body: bytes, path: str | None = None) -> Reply:
        """Parse the reply in a body; the path of a proxied request makes the whole body the reply."""
        try:
            if path is not None:
                fields = reply_record(path, _parse_json(body))
                return Reply.from_record({name: self._redact(value) for name, value in fields.items()})
            fields = self._api.reply_fields(_parse_json(body))
            stored = Reply.from_record({name: self._redact(value) for name, value in fields.items()})
            reply = replace(stored, apart=fields["apart"], tier=fields["tier"])
        except responses.ReportedError as error:
            raise RetryableError(
                f"the server reports an error: {self._shorten(str(error))}", "failed"
            ) from error
        except (ValueError, RecursionError) as error:
            why = parse_failure(error)
            reason = f"the server's reply was not understood ({why}): {self._shorten(self._decode_beginning(body))!r}"
            raise RetryableError(reason, "garbled") from error
        size = len(reply.text) + len(reply.refusal) + len(reply.tool_calls)
        if size > MAX_REPLY_LENGTH:
            raise TooLarge(f"the reply has {size:,} characters, and at most {MAX_REPLY_LENGTH:,} are read")
        return reply

    def _map_error(self, request: Request, error: BaseException, credentials: Credentials) -> Any:
        """Return the package's error for an exception of the connection."""
        import httpx2  # noqa: PLC0415 - loaded with the connection

        if isinstance(error, TimeoutError | httpx2.TimeoutException):
            return RetryableError(f"no reply in {self._timeout_s:g} s", "slow")
        if isinstance(error, StreamEndedEarly):
            return RetryableError(self._shorten(str(error)), "garbled")
        if isinstance(error, httpx2.HTTPStatusError):
            return self._map_response(request, error.response, credentials)
        if isinstance(error, httpx2.HTTPError):
            return self._connection_error(error)
        if isinstance(error, TypeError | UnicodeError):
            return Unscored(f"a parameter of the request cannot be sent: {self._redact(str(error))}")
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)

    def _connection_error(self, cause: BaseException) -> RetryableError:
        detail, name = self._shorten(str(cause)), type(cause).__name__
        if name in INTERRUPTION_ERRORS and "without sending a response" not in detail:
            return RetryableError(f"the connection broke off: {detail}", "garbled")
        return RetryableError(f"no connection: {detail}", "dropped" if name in SENT_ERRORS else "unreached")

    def _map_response(self, request: Request, response: "httpx2.Response", credentials: Credentials) -> Any:
        status = response.status_code
        if 300 <= status < 400:  # noqa: PLR2004 - as HTTP numbers redirects
            return self.server.redirect_error(status, self._location(response), self._api.PATH)
        body: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(response.text)
        answer = error_body(body.get("error", body) if isinstance(body, Mapping) else body) or {
            "message": self._decode_beginning(response.content) or f"Error code: {status}"
        }
        mapped = self._map_status(request, status, answer, response.headers)
        return _AuthFailure(mapped, credentials) if status in AUTH_STATUSES else mapped

    def _map_status(  # noqa: PLR0911 - a case per line
        self, request: Request, status: int, answer: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Exception:
        detail = self._shorten(str(answer.get("message") or answer))
        if not request.is_internal and status in REFUSAL_STATUSES:
            plain = json.loads(self._redact(json.dumps(answer)))
            return RequestRefused(f"the server answered {status}: {detail}", plain, status)
        if status in AUTH_STATUSES:
            return self.server.auth_error(status, detail)
        if self.server.api == "chat" and NO_CHAT_COMPLETIONS.search(str(answer)):
            return self.server.no_chat_error(request.model, detail)
        if status == 404 and not NO_PROVIDER.search(str(answer)):  # noqa: PLR2004 - "Not Found"
            return self.server.unknown_model_error(request.model, detail)
        if status == 402 or "insufficient_quota" in str(answer):  # noqa: PLR2004 - "Payment Required"
            return self.server.quota_error(detail)
        reason = f"the server answered {status}: {detail}"
        if status in RETRYABLE_STATUSES:
            kind: FailureKind = "throttled" if status in OVERLOAD_STATUSES else "failed"
            exhausted = until_reset(headers) is not None
            return RetryableError(reason, kind, retry_after(headers), exhausted)
        if CONTEXT_OVERFLOW.search(str(answer)):
            return ContextOverflow(f"the prompt is longer than {request.model} can read ({detail})")
        return RequestRefused(reason, answer) if status in REFUSAL_STATUSES else Unscored(reason)

    def _location(self, response: "httpx2.Response") -> str:
        try:
            location = urljoin(str(response.request.url), response.headers["location"])
            return str(self._redact(public_url(location).partition("?")[0]))
        except (LookupError, ValueError):
            return ""

    def _shorten(self, text: str) -> str:
        line = " ".join(self._redact(text).split()).rstrip(".")
        return line if len(line) <= 200 else f"{line[:199]}…"  # noqa: PLR2004 - fits a terminal

    def _decode_beginning(self, body: bytes) -> str:
        """Return the beginning of a body as text. Secrets are redacted first: half of a key would not be found."""
        return str(self._redact(body.decode("utf-8", "replace")))[:MAX_BODY_CHARACTERS]

    def _redact(self, value: Any) -> Any:
        """Redact the secrets in a text, which a server may quote; return any other value unchanged."""
        return self.server.credentials.redact(value) if isinstance(value, str) else value


def request_body(api: Api, request: Request, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a request for an API, with the entries of the parameter `extra_body` as fields."""
    messages = request.well_formed_messages()
    arguments = (responses if api == "responses" else completions).request_body(messages, parameters)
    body = {"model": request.model, **arguments, **(arguments.get("extra_body") or {})}
    body.pop("extra_body", None)
    return body


def _parse_json(body: bytes) -> Any:
    reasons = {UnicodeDecodeError: "it is not UTF-8", json.JSONDecodeError: "it is not JSON"}
    try:
        return json.loads(body)
    except ValueError as error:
        why = reasons.get(type(error), "a number in it is too long") if body.strip() else "it is empty"
        raise ValueError(why) from None


def error_body(body: object) -> Mapping[str, Any] | None:
    """Return the error object in a body; None if there is none, or if it is nested too deeply."""
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], Mapping):
        # Google's servers put the object into a list.
        body = body[0].get("error", body[0])
    return body if isinstance(body, Mapping) and _is_nested_within(body, MAX_ERROR_DEPTH) else None


def _is_nested_within(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_nested_within(item, levels - 1) for item in inner)
