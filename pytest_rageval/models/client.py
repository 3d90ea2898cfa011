"""A model server (`Server`), and one attempt at a request to it (`Client`): one HTTP call, with its errors mapped."""

import asyncio
import contextlib
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

from pytest_rageval.core.errors import ContextOverflow, ServerError, Unscored, exception_chain
from pytest_rageval.lib.secret import Credentials, public_url
from pytest_rageval.lib.text import counted, parse_failure
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.chat_apis import (
    CHAT_APIS,
    ReportedError,
    error_body,
    parse_json_body,
    request_body,
)
from pytest_rageval.models.messages import MAX_REPLY_LENGTH, BilledFailure, Reply, Request, TooLarge
from pytest_rageval.models.proxied_request import (
    Answer,
    ProxiedRequest,
    StreamEndedEarly,
    proxied_reply,
    send_proxied_request,
)
from pytest_rageval.models.rate_limits import retry_after, until_reset
from pytest_rageval.options import (
    DEFAULT_CONCURRENCY,
    DEFAULT_PATIENCE_S,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
)
from pytest_rageval.options.settings import Api, Role

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

    from pytest_rageval.models.connection import Connection

T = TypeVar("T")

MAX_BODY_CHARACTERS: Final = 4000  # of an unreadable body, for messages and searches
AUTH_STATUSES: Final = {401, 403}
OVERLOAD_STATUSES: Final = {429, 503, 529}  # the server has too much load
REFUSAL_STATUSES: Final = {400, 404, 422}  # the request itself is wrong
RETRYABLE_STATUSES: Final = {408, 409, 425, 500, 502, 504, *OVERLOAD_STATUSES}

CONTEXT_OVERFLOW: Final = re.compile(
    r"context[_ ]length|context (size|window)|exceed_context|(prompt|input) is too long|too many tokens",
    re.IGNORECASE,
)
"""Matches an error about a prompt that is longer than the context window of the model."""

NO_CHAT_COMPLETIONS: Final = re.compile(
    r"only (supported|available|works?) (in|on|with|through|via) [^.]*responses|(not a|no) chat model"
    r"|chat_?completions? operation does not work|not supported in the v1/chat/completions",
    re.IGNORECASE,
)
"""Matches an error about a model that has no chat completions."""

NO_PROVIDER: Final = re.compile(r"no endpoints found that (support|can handle)", re.IGNORECASE)
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

    def __init__(self, reason: str, answer: Mapping[str, object], status: int = 400) -> None:
        super().__init__(reason)
        self.answer = answer
        self.status = status


Send = Callable[["Connection"], Awaitable[Any]]  # a function that sends a request over a connection


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

REMEDIES: Final = {
    "pytest_socket": "Allow the host with --allow-hosts={host} or @pytest.mark.allow_hosts(['{host}']), or all sockets "
    "of the test with @pytest.mark.enable_socket",
    "pytest_recording": "Allow that host, or a pattern of hosts, with --allowed-hosts or "
    "@pytest.mark.block_network(allowed_hosts=[…])",
}
"""What to do about each plugin, by the name of its package. `{host}` is the host of the server."""

URL_OPTIONS: Final[Mapping[Role, str]] = {
    "generator": "--rageval-base-url or OPENAI_BASE_URL",
    "judge": "--rageval judge_base_url=URL or RAGEVAL_JUDGE_BASE_URL",
}
"""The option and the environment variable that name the server of a model, for messages."""

PAID: Final = "Replies received before are in the cache"


class Server(ABC):
    """Answers model requests: a server at a URL, or what a provider makes in its place.

    Two objects of one class with equal `_settings` are one server.
    """

    base_url: str  # in request keys and reports: the same in every run, without secrets
    credentials: Credentials = Credentials()  # sent with each request, never printed or stored
    api: Api = "chat"
    role: Role = "generator"  # the model whose settings name the server
    key_name: str = ""  # the environment variable of its key
    key_command: tuple[str, ...] = ()  # the command that prints its key; empty for none
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

    def close(self) -> None:  # noqa: B027 - most have nothing to stop
        """Stop the server if `address` has started it."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Server):
            return NotImplemented
        return type(self) is type(other) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(self._settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    @property
    def label(self) -> str:
        return self.base_url if self.role == "generator" else f"{self.base_url} ({self.role})"

    @property
    def subject(self) -> str:
        return f"The server at {self.base_url}"

    def unreachable_error(self, reason: str, attempts: int) -> ServerError:
        return ServerError(
            f"No server answers at {self.base_url} ({reason}; tried {counted(attempts, 'time')}).\n"
            f"Start it, or name another with {URL_OPTIONS[self.role]}. {PAID}."
        )

    def silence_error(self, last: str, requests: int, seconds: float) -> ServerError:
        waited = f"{counted(requests, 'request')} waited"
        return ServerError(
            f"{self.subject} answered nothing for {seconds:g} s, while {waited} (last: {last}).\n"
            "Send it fewer requests (--rageval concurrency=N, --rageval rpm=N), wait longer "
            "(--rageval patience=SECONDS), or run again later: replies received before are in the cache, and the next "
            "run requests the rest."
        )

    def unknown_model_error(self, model: str, detail: str) -> ServerError:
        other = "" if self.api == "chat" else '; not every server has the Responses API (api = "responses")'
        return ServerError(
            f"{self.subject} does not know the model {model!r} or the path: {detail}.\n"
            "Name a model it serves with --rageval-model (and --rageval-judge-model); "
            f"a base URL usually ends in /v1{other}."
        )

    def no_chat_error(self, model: str, detail: str) -> ServerError:
        return ServerError(
            f"{self.subject} has no chat completions for the model {model!r}: {detail}.\n"
            'Use the Responses API for it: write api = "responses" into the table '
            "[tool.rageval.models.generator], or .judge, of pyproject.toml; or name another model."
        )

    def quota_error(self, detail: str) -> ServerError:
        return ServerError(
            f"The account at {self.base_url} has no quota left: {detail}.\n{PAID}: a later run goes on from there."
        )

    def auth_error(self, status: int, detail: str) -> ServerError:  # noqa: ARG002 - it may quote a part of the key
        key, remedy = "a request without a key", f"Set {self.key_name} to a key of this server"
        if self.credentials.login is not None:
            key, remedy = "the user and the password in the base URL", "Correct them"
        elif self.key_command:
            key, remedy = f"the key that {self.key_command[0]!r} printed", "Run that command in a terminal"
        elif self.credentials.api_key is not None:
            key = f"the key in {self.key_name}"
        return ServerError(
            f"The server at {self.base_url} refused {key} (status {status}).\n"
            f"{remedy}, or name another server with {URL_OPTIONS[self.role]}."
        )

    def redirect_error(self, status: int, location: str, path: str) -> ServerError:
        """Return the error about a redirect to a location, "" if it names none, of a request to a path of the API."""
        here = f"{self.subject} answers with a redirect (status {status})"
        remedy = f"Set the base URL ({URL_OPTIONS[self.role]}) to"
        if not location:
            return ServerError(f"{here} that names no location.\n{remedy} that of a server that answers.")
        models = "that of the models there, if there are any"
        base = location.removesuffix(path) if location.endswith(path) else models
        return ServerError(f"{here} to {location}, and redirects are not followed.\n{remedy} {base}.")


def blocked_error(what: str, host: str, error: BaseException) -> ServerError | None:
    """Return the error about a plugin that blocks sockets; None if an exception has another cause.

    `what` begins the message. Libraries raise the exception from the plugin's own, or in a group.
    """
    for cause in exception_chain(error):
        package = _raising_package(cause)
        if package in REMEDIES:
            return ServerError(
                f"{what}: {package.replace('_', '-')} blocks the sockets of this test ({str(cause).rstrip('.')}).\n"
                f"{REMEDIES[package].format(host=host)}; a run with --rageval-replay needs none."
            )
    return None


def _raising_package(error: BaseException) -> str:
    """Return the top-level package whose code raised an exception; empty if its traceback is not known."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


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
        self._api = CHAT_APIS[server.api]

    async def address(self) -> str:
        return await self.server.address()

    async def complete(
        self, request: Request, parameters: Mapping[str, object]
    ) -> tuple[Reply, float | None]:
        """Send a request once; return the reply, and the pause in seconds that the server requests, or None.

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
            return connection.post(self._api.path, request_body(self.server.api, request, parameters))

        try:
            response = await self._send_with_renewal(request, send)
            reply = self.parse_reply(response.content, proxied.path if proxied else None)
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

        async def send(connection: "Connection") -> Answer:
            response = await connection.send(method, proxied.path, content=content, headers=headers)
            return Answer(response.content, response.headers, response.status_code)

        try:
            answer: Answer = await self._send_with_renewal(proxied, send)
        except RetryableError as error:
            raise (Unscored if error.kind == "unreached" else BilledFailure)(error.reason) from None
        return answer._replace(content=self._redact(answer.content.decode("latin-1")).encode("latin-1"))

    async def call(self, request: Request, function: Callable[["AsyncOpenAI"], Awaitable[T]]) -> T:
        result: T = await self._send_with_renewal(request, lambda connection: function(connection.client))
        return result

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

    def parse_reply(self, body: bytes, path: str | None = None) -> Reply:
        """Parse the reply in a body; the path of a proxied request makes the whole body the reply."""
        try:
            answer = parse_json_body(body)
            if path is not None:
                return proxied_reply(path, answer).with_texts(self._redact)
            reply = self._api.reply(answer).with_texts(self._redact)
        except ReportedError as error:
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

    def _map_error(self, request: Request, error: BaseException, credentials: Credentials) -> Any:  # noqa: PLR0911
        """Return the package's error for an exception of the connection, or of the `openai` client above it."""
        import httpx2  # noqa: PLC0415 - loaded with the connection

        openai = sys.modules.get("openai")
        if openai is not None and isinstance(error, openai.APIConnectionError):
            error = error.__cause__ or error
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
        if openai is not None and isinstance(error, openai.APIStatusError):
            return self._map_response(request, error.response, credentials)
        if openai is not None and isinstance(error, openai.OpenAIError):
            return RetryableError(
                f"the server's reply was not understood: {self._shorten(str(error))!r}", "garbled"
            )
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
            return self.server.redirect_error(status, self._location(response), self._api.path)
        body: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(response.text)
        answer = error_body(body.get("error", body) if isinstance(body, Mapping) else body) or {
            "message": self._decode_beginning(response.content) or f"Error code: {status}"
        }
        mapped = self._map_status(request, status, answer, response.headers)
        return _AuthFailure(mapped, credentials) if status in AUTH_STATUSES else mapped

    def _map_status(  # noqa: PLR0911 - a case per line
        self, request: Request, status: int, answer: Mapping[str, object], headers: Mapping[str, str]
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
        return self.server.credentials.redact(value) if isinstance(value, str) else value
