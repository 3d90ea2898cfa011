"""One attempt at a request: one HTTP call, its errors turned into ours."""

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeVar
from urllib.parse import urljoin

from pytest_rageval.config import Api, Role
from pytest_rageval.errors import ContextOverflow, ServerError, Unscored
from pytest_rageval.lazy import lazy_pattern
from pytest_rageval.llm.messages import (
    MAX_REPLY_LENGTH,
    BilledFailure,
    Reply,
    Request,
    TooLarge,
)
from pytest_rageval.llm.proxied_request import (
    Answer,
    ProxiedRequest,
    StreamEndedEarly,
    reply_record,
    send_proxied_request,
    send_raw,
)
from pytest_rageval.llm.servers import completions, responses
from pytest_rageval.llm.servers.rate_limits import retry_after, until_reset
from pytest_rageval.plural import counted
from pytest_rageval.secret import Credentials, public_url

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

    from pytest_rageval.llm.servers.connection import Connection

__all__ = ["URL_OPTIONS", "Client", "Endpoint", "Refused", "RetryableError", "refusal_in", "request_body"]

T = TypeVar("T")

SHOWN: Final = 4000  # characters of an unreadable body that are shown and searched
DEEPEST: Final = 32  # levels of nesting in which an error is searched for words; real errors have six
URL_OPTIONS: Final[Mapping[Role, str]] = {
    "generator": "--rageval-base-url or OPENAI_BASE_URL",
    "judge": "--rageval-judge-base-url or RAGEVAL_JUDGE_BASE_URL",
}
"""What names the server of a model."""

KEY_REFUSED: Final = {401, 403}
BUSY: Final = {429, 503, 529}  # statuses of a server with too much load
REFUSALS: Final = {400, 404, 422}  # statuses that the client of a proxied request is to see
RETRYABLE: Final = {408, 409, 425, 500, 502, 504, *BUSY}

OVERFLOW: Final = lazy_pattern(
    r"context[_ ]length|context (size|window)|exceed_context|(prompt|input) is too long|too many tokens",
    re.IGNORECASE,
)
"""Words for a prompt that is longer than the model can read."""

NO_CHAT: Final = lazy_pattern(
    r"only (supported|available|works?) (in|on|with|through|via) [^.]*responses|(not a|no) chat model"
    r"|chat_?completions? operation does not work|not supported in the v1/chat/completions",
    re.IGNORECASE,
)
"""Words for a model that has no chat completions."""

NO_ENDPOINT: Final = lazy_pattern(r"no endpoints found that (support|can handle)", re.IGNORECASE)
"""OpenRouter's words, with status 404, for parameters that no provider of a model supports."""

BROKEN_OFF: Final = {"RemoteProtocolError", "DecodingError"}
"""Errors in the middle of a reply; by name, as the client library chooses its HTTP library."""

SENT: Final = {"ReadError", "WriteError", "RemoteProtocolError"}
"""Errors after which the request may have arrived and been answered."""


FailureKind = Literal["throttled", "slow", "unreached", "dropped", "garbled", "failed"]
"""The server has too much load, did not answer in time, was not reached, closed the connection without a reply, sent
an unreadable reply, or reported another error."""


@dataclass(eq=False)
class RetryableError(Exception):
    """This attempt failed; a retry may succeed."""

    reason: str  # what users read when all retries fail
    kind: FailureKind
    wait_s: float | None = None  # how long the server asks to wait before the next request
    exhausted: bool = False  # whether it says that its limit is used up, which holds for all requests


class Refused(Unscored):
    """The server refuses this request as it is, with this answer: a status such as 400 or 422 and the error."""

    def __init__(self, reason: str, answer: Mapping[str, Any], status: int = 400) -> None:
        super().__init__(reason)
        self.answer = answer
        self.status = status


Send = Callable[["AsyncOpenAI"], Awaitable[Any]] | None
"""Another way to send than that of this package's own requests."""


class Endpoint(Protocol):
    """What a client knows about its server."""

    @property
    def base_url(self) -> str:
        """A name that does not change, part of every request's key."""

    @property
    def credentials(self) -> Credentials:
        """Sent with each request, never shown or kept."""

    @property
    def api(self) -> Api:
        """The path that its models are asked at."""

    @property
    def role(self) -> Role:
        """The model whose settings name it."""

    @property
    def key_name(self) -> str:
        """The environment variable where its key is looked for."""

    @property
    def key_command(self) -> tuple[str, ...]:
        """The command that prints its key; empty for none."""

    async def address(self) -> str:
        """Return the URL for requests; starts the embedded server."""

    async def renew_key(self, refused: Credentials) -> bool:
        """Return whether there is another key than the refused one."""


class _KeyRefused(NamedTuple):
    """What a refused request ends with, unless there is another key than that of the credentials sent with it."""

    outcome: Any
    credentials: Credentials


class Client:
    """Sends requests to one server, each once; `timeout_s` is for a whole reply, `most_bytes` for its body."""

    def __init__(self, server: Endpoint, *, timeout_s: float, most_bytes: int | None = None) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._most_bytes = {} if most_bytes is None else {"most_bytes": most_bytes}
        self._connection: Connection | None = None
        self._api = responses if server.api == "responses" else completions

    @property
    def url(self) -> str:
        """The server's URL without secrets."""
        return self._server.base_url

    async def address(self) -> str:
        """Return the URL for requests."""
        return await self._server.address()

    async def complete(self, request: Request, parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Send a request once, with its parameters as this server takes them, and wait for the whole reply.

        The pause in seconds that the server asks for, or None, is returned with the reply.

        Raises:
            RetryableError: this attempt failed; a retry may succeed.
            Refused: the server refuses the request as it is.
            ServerError: no request can succeed: no server, a wrong key or model, an empty account.
            Unscored: this request failed, others may succeed; TooLarge where its answer is too large to be used.
        """
        try:
            response = await self._response(request, parameters)
            reply = self._reply(
                response.content, request.path if isinstance(request, ProxiedRequest) else None
            )
        except RetryableError as failure:
            if isinstance(request, ProxiedRequest) and request.begun:
                # Another attempt would send twice what has been passed on.
                raise BilledFailure(failure.reason) from None
            raise
        return reply, until_reset(response.headers)

    async def forward(
        self, proxied: ProxiedRequest, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request of any kind once, and return the answer, whatever its status; raises as `complete`."""
        try:
            answer: Answer = await self._response(
                proxied, {}, lambda client: send_raw(client, method, proxied.path, content, headers)
            )
        except RetryableError as error:
            raise (Unscored if error.kind == "unreached" else BilledFailure)(error.reason) from None
        return answer._replace(content=self._redacted(answer.content.decode("latin-1")).encode("latin-1"))

    async def call(self, request: Request, do: Callable[["AsyncOpenAI"], Awaitable[T]]) -> T:
        """Do something else with the library's client, once, about such a request; raises as `complete`."""
        result: T = await self._response(request, {}, do)
        return result

    def read(self, body: bytes) -> Reply:
        """Return the reply in the body of an answer; raises as `complete`."""
        return self._reply(body)

    async def _response(self, request: Request, parameters: Mapping[str, Any], send: Send = None) -> Any:
        """Return the library's response, or that of `send`; with another key where one is refused."""
        response = await self._respond(request, parameters, send)
        if isinstance(response, _KeyRefused) and await self._server.renew_key(response.credentials):
            response = await self._respond(request, parameters, send)
        if isinstance(response, _KeyRefused):
            response = response.outcome
        if isinstance(response, Exception):
            # Raised outside the handlers: without the library's frames, which hold the key.
            raise response
        return response

    async def _respond(  # noqa: PLR0911 - a case per line
        self, request: Request, parameters: Mapping[str, Any], send: Send
    ) -> Any:
        """Return the library's response, or the error as a value."""
        address = await self.address()
        credentials = self._server.credentials
        # Imported here: 0.1 s, which a run from the cache must not pay.
        import httpx2  # noqa: PLC0415

        from pytest_rageval.llm.servers.connection import Connection  # noqa: PLC0415

        try:
            if self._connection is None:
                self._connection = Connection(
                    address,
                    credentials,
                    timeout_s=self._timeout_s,
                    # What the environment has for OpenAI's library is not for the server of a judge.
                    environment=self._server.role == "generator",
                    **self._most_bytes,
                )
            self._connection.use(credentials)
            if send is None and isinstance(request, ProxiedRequest):
                proxied = request
                send = lambda client: send_proxied_request(client, proxied)  # noqa: E731 - one of two ways
            async with asyncio.timeout(self._timeout_s):
                if send is not None:
                    answer = await send(self._connection.client)
                    refused = isinstance(answer, Answer) and answer.status in KEY_REFUSED
                    return _KeyRefused(answer, credentials) if refused else answer
                body = request_body(self._server.api, request, parameters)
                response = await self._connection.post(self._api.PATH, body)
            if response.is_success:
                return response
            return self._by_response(request, response, credentials)
        except (TimeoutError, httpx2.TimeoutException):
            return RetryableError(f"no reply in {self._timeout_s:g} s", "slow")
        except StreamEndedEarly as error:
            return RetryableError(self._brief(str(error)), "garbled")
        except httpx2.HTTPError as error:
            return self._unconnected(error)
        except (TypeError, UnicodeError) as error:
            return Unscored(f"a parameter of the request cannot be sent: {self._redacted(str(error))}")
        except Exception as error:  # noqa: BLE001 - raised without its frames
            return self._of_library(request, error, credentials)

    async def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _reply(self, body: bytes, path: str | None = None) -> Reply:
        """Parse the reply in a body; with the path of a proxied request it is the whole answer."""
        try:
            if path is not None:
                whole = reply_record(path, _parsed(body))
                return Reply.from_record({name: self._redacted(value) for name, value in whole.items()})
            record = self._api.record(_parsed(body))
            kept = Reply.from_record({name: self._redacted(value) for name, value in record.items()})
            reply = replace(kept, apart=record["apart"], tier=record["tier"])
        except responses.ReportedError as error:
            raise RetryableError(
                f"the server reports an error: {self._brief(str(error))}", "failed"
            ) from error
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            reason = f"the server's reply was not understood ({why}): {self._brief(self._beginning(body))!r}"
            raise RetryableError(reason, "garbled") from error
        size = len(reply.text) + len(reply.refusal) + len(reply.tool_calls)
        if size > MAX_REPLY_LENGTH:
            raise TooLarge(f"the reply has {size:,} characters, and at most {MAX_REPLY_LENGTH:,} are read")
        return reply

    def _of_library(self, request: Request, error: Exception, credentials: Credentials) -> Any:
        """Turn an error of the library's client into ours."""
        openai = sys.modules.get("openai")
        if openai is None or not isinstance(error, openai.OpenAIError):
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)
        if isinstance(error, openai.APITimeoutError):
            return RetryableError(f"no reply in {self._timeout_s:g} s", "slow")
        if isinstance(error, openai.APIConnectionError):
            return self._unconnected(error.__cause__ or error)
        if isinstance(error, openai.APIStatusError):
            return self._by_response(request, error.response, credentials)
        return RetryableError(
            f"the server's reply was not understood: {self._brief(str(error))!r}", "garbled"
        )

    def _unconnected(self, cause: BaseException) -> RetryableError:
        """Return our error for one of the connection."""
        detail, name = self._brief(str(cause)), type(cause).__name__
        if name in BROKEN_OFF and "without sending a response" not in detail:
            return RetryableError(f"the connection broke off: {detail}", "garbled")
        return RetryableError(f"no connection: {detail}", "dropped" if name in SENT else "unreached")

    def _by_response(self, request: Request, response: "httpx2.Response", credentials: Credentials) -> Any:
        """Return the package's error for an answer with an error status."""
        status = response.status_code
        if 300 <= status < 400:  # noqa: PLR2004 - as HTTP numbers redirects
            return ServerError(self._moved(response))
        body: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(response.text)
        answer = refusal_in(body.get("error", body) if isinstance(body, Mapping) else body) or {
            "message": self._beginning(response.content) or f"Error code: {status}"
        }
        mapped = self._by_status(request, status, answer, response.headers)
        return _KeyRefused(mapped, credentials) if status in KEY_REFUSED else mapped

    def _by_status(  # noqa: PLR0911 - a case per line
        self, request: Request, status: int, answer: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Exception:
        """Return our error for a status of HTTP other than 200, with the error that came with it."""
        detail = self._brief(str(answer.get("message") or answer))
        if not request.is_internal and status in REFUSALS:
            plain = json.loads(self._redacted(json.dumps(answer)))
            return Refused(f"the server answered {status}: {detail}", plain, status)
        if status in KEY_REFUSED:
            return ServerError(self._refused(status, detail))
        if self._server.api == "chat" and NO_CHAT.search(str(answer)):
            return ServerError(
                f"{self._where} has no chat completions for the model {request.model!r}: {detail}.\n"
                'Ask it through the Responses API: write api = "responses" into the table '
                "[tool.rageval.models.generator], or .judge, of pyproject.toml; or name another model."
            )
        if status == 404 and not NO_ENDPOINT.search(str(answer)):  # noqa: PLR2004 - as HTTP numbers it
            return ServerError(self._unknown(request, detail))
        if status == 402 or "insufficient_quota" in str(answer):  # noqa: PLR2004 - likewise
            return ServerError(
                f"The account at {self._server.base_url} has no quota left: {detail}.\n"
                "Replies received before are in the cache: a later run goes on from there."
            )
        reason = f"the server answered {status}: {detail}"
        if status in RETRYABLE:
            kind: FailureKind = "throttled" if status in BUSY else "failed"
            exhausted = until_reset(headers) is not None
            return RetryableError(reason, kind, retry_after(headers), exhausted)
        if OVERFLOW.search(str(answer)):
            return ContextOverflow(f"the prompt is longer than {request.model} can read ({detail})")
        return Refused(reason, answer) if status in REFUSALS else Unscored(reason)

    def unreachable(self, reason: str, attempts: int) -> ServerError:
        """Return the error for a server that was never reached."""
        return ServerError(
            f"No server answers at {self._server.base_url} ({reason}; tried {counted(attempts, 'time')}).\n"
            f"Start it, or name another with {URL_OPTIONS[self._server.role]}. "
            "Replies received before are in the cache."
        )

    def silent(self, last: str, requests: int, seconds: float) -> ServerError:
        """Return the error for a server that has answered nothing for so long."""
        waited = f"{requests} {'request' if requests == 1 else 'requests'} waited"
        return ServerError(
            f"{self._where} answered nothing for {seconds:g} s, while {waited} "
            f"(last: {last}).\n"
            "Ask less of it (--rageval-concurrency N, --rageval-rpm N), wait longer (--rageval-patience SECONDS), "
            "or run again later: replies received before are in the cache, and the next run asks for the rest."
        )

    @property
    def _where(self) -> str:
        return f"The server at {self._server.base_url}"

    def _unknown(self, request: Request, detail: str) -> str:
        other = (
            ""
            if self._server.api == "chat"
            else '; not every server has the Responses API (api = "responses")'
        )
        return (
            f"{self._where} does not know the model {request.model!r} or the path: {detail}.\n"
            "Name a model it serves with --rageval-model (and --rageval-judge-model); "
            f"a base URL usually ends in /v1{other}."
        )

    def _refused(self, status: int, detail: str) -> str:  # noqa: ARG002 - it may hold a part of the key
        credentials = self._server.credentials
        server, name = self._server, self._server.key_name
        key, remedy = "a request without a key", f"Set {name} to a key of this server"
        if credentials.login is not None:
            key, remedy = "the user and the password in the base URL", "Correct them"
        elif server.key_command:
            key, remedy = f"the key that {server.key_command[0]!r} printed", "Run that command in a terminal"
        elif credentials.api_key is not None:
            key = f"the key in {name}"
        return (
            f"The server at {server.base_url} refused {key} (status {status}).\n"
            f"{remedy}, or name another server with {URL_OPTIONS[server.role]}."
        )

    def _moved(self, response: "httpx2.Response") -> str:
        here = (
            f"The server at {self._server.base_url} answers with a redirect (status {response.status_code})"
        )
        remedy = f"Set the base URL ({URL_OPTIONS[self._server.role]}) to"
        try:
            location = urljoin(str(response.request.url), response.headers["location"])
            there = self._redacted(public_url(location).partition("?")[0])
        except (LookupError, ValueError):
            return f"{here} that names no location.\n{remedy} that of a server that answers."
        path = self._api.PATH
        base = (
            there.removesuffix(path) if there.endswith(path) else "that of the models there, if there are any"
        )
        return f"{here} to {there}, and redirects are not followed.\n{remedy} {base}."

    def _brief(self, text: str) -> str:
        line = " ".join(self._redacted(text).split()).rstrip(".")
        return line if len(line) <= 200 else f"{line[:199]}…"  # noqa: PLR2004 - fits a terminal

    def _beginning(self, body: bytes) -> str:
        """Return the beginning of a body; redacted first, as half of a key would not be recognised."""
        return str(self._redacted(body.decode("utf-8", "replace")))[:SHOWN]

    def _redacted(self, value: Any) -> Any:
        """Remove secrets, which a server may repeat, from a text."""
        return self._server.credentials.redacted(value) if isinstance(value, str) else value


def request_body(api: Api, request: Request, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a request for an API, with the entries of the parameter `extra_body` as fields."""
    messages = request.well_formed_messages()
    arguments = (responses if api == "responses" else completions).arguments(messages, parameters)
    body = {"model": request.model, **arguments, **(arguments.get("extra_body") or {})}
    body.pop("extra_body", None)
    return body


def _parsed(body: bytes) -> Any:
    """Parse a body; ValueError says why it is not JSON."""
    reasons = {UnicodeDecodeError: "it is not UTF-8", json.JSONDecodeError: "it is not JSON"}
    try:
        return json.loads(body)
    except ValueError as error:
        why = reasons.get(type(error), "a number in it is too long") if body.strip() else "it is empty"
        raise ValueError(why) from None


def refusal_in(body: object) -> Mapping[str, Any] | None:
    """Return an error's body; None if it is not an object or nested too deeply."""
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], Mapping):
        # Google's servers put the object in a list.
        body = body[0].get("error", body[0])
    return body if isinstance(body, Mapping) and _within(body, DEEPEST) else None


def _within(value: object, levels: int) -> bool:
    """Whether a value has at most so many levels of nesting."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_within(item, levels - 1) for item in inner)
