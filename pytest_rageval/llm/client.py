"""One attempt at a request: one HTTP call through the `openai` client, its errors turned into ours."""

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import urljoin

from pytest_rageval.config import public_url
from pytest_rageval.errors import ContextOverflow, ServerError, Unscored
from pytest_rageval.llm.exchange import (
    Answer,
    BrokenOff,
    EndedEarly,
    Exchange,
    record_of,
    send_exchange,
    send_raw,
)
from pytest_rageval.llm.messages import MOST_TEXT, MOST_TOKENS, Billed, Reply, Request, TooLarge, well_formed
from pytest_rageval.llm.rate_limits import retry_after, until_reset
from pytest_rageval.llm.servers import Server

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI, OpenAIError

    from pytest_rageval.llm.connection import Connection

__all__ = ["Client", "Refused", "RetryableError"]

T = TypeVar("T")

PATH: Final = "/chat/completions"  # what the library appends to the base URL
SHOWN: Final = 4000  # characters of an unreadable body that are shown and searched
DEEPEST: Final = 32  # levels of nesting in which an error is searched for words; real errors have six
REASONING: Final = ("reasoning", "thinking")  # types of message parts that are not part of the answer
JSON_TYPES: Final = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
BUSY: Final = {429, 503, 529}  # statuses of a server with too much load
RETRYABLE: Final = {408, 409, 425, 500, 502, 504, *BUSY}

OVERFLOW: Final = re.compile(
    r"context[_ ]length|context (size|window)|exceed_context|(prompt|input) is too long|too many tokens",
    re.IGNORECASE,
)
"""Words for a prompt that is longer than the model can read."""

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


class Refused(Unscored):
    """The server refuses this request as it is, with this answer: a status such as 400 or 422 and the error."""

    def __init__(self, reason: str, answer: Mapping[str, Any], status: int = 400) -> None:
        super().__init__(reason)
        self.answer = answer
        self.status = status


class Client:
    """Sends requests to one server, each once; `timeout_s` is for a whole reply."""

    def __init__(self, server: Server, *, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._connection: Connection | None = None

    @property
    def url(self) -> str:
        """The server's URL without secrets."""
        return self._server.base_url

    async def complete(self, request: Request, parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Send a request once, with its parameters as this server takes them, and wait for the whole reply.

        The pause in seconds that the server asks for, or None, is returned with the reply.

        Raises:
            RetryableError: this attempt failed; a retry may succeed.
            Refused: the server refuses the request as it is.
            ServerError: no request can succeed: no server, a wrong key or model, an empty account.
            Unscored: this request failed, others may succeed; TooLarge where its answer is too large to be used.
        """
        response = await self._respond(request, parameters)
        if isinstance(response, Exception):
            # Raised outside the handlers: without the library's frames, which hold the key.
            raise response
        reply = self._reply(response.content, request.path if isinstance(request, Exchange) else None)
        return reply, until_reset(response.headers)

    async def pass_on(
        self, exchange: Exchange, method: str, content: bytes, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request of any kind once, and return the answer, whatever its status; raises as `complete`."""
        answer = await self._respond(
            exchange, {}, lambda client: send_raw(client, method, exchange.path, content, headers)
        )
        if isinstance(answer, RetryableError):
            raise (Unscored if answer.kind == "unreached" else Billed)(answer.reason)
        if isinstance(answer, Exception):
            raise answer
        found: Answer = answer
        return found._replace(content=self._redacted(found.content.decode("latin-1")).encode("latin-1"))

    async def _respond(  # noqa: PLR0911 - a case a line
        self,
        request: Request,
        parameters: Mapping[str, Any],
        send: "Callable[[AsyncOpenAI], Awaitable[Answer]] | None" = None,
    ) -> Any:
        """Return the library's response, or that of `send`, or the error as a value."""
        address = await self._server.address()
        # Imported here: 0.8 s, which a run from the cache must not pay.
        import openai  # noqa: PLC0415

        from pytest_rageval.llm.connection import Connection  # noqa: PLC0415

        try:
            if self._connection is None:
                self._connection = Connection(address, self._server.credentials, timeout_s=self._timeout_s)
                completions = self._connection.client.chat.completions
                # Kept, since each look-up wraps all methods of the library anew.
                self._create = completions.with_raw_response.create
                self._known = inspect.signature(completions.create).parameters.keys()
            if send is None and isinstance(request, Exchange):
                exchange = request
                send = lambda client: send_exchange(client, exchange)  # noqa: E731 - one of two ways
            async with asyncio.timeout(self._timeout_s):
                if send is not None:
                    return await send(self._connection.client)
                messages: Any = [
                    {name: well_formed(value) for name, value in message.items()}
                    for message in request.messages
                ]
                return await self._create(
                    model=request.model, messages=messages, **self._arguments(parameters)
                )
        except (TimeoutError, openai.APITimeoutError):
            reason = f"no reply in {self._timeout_s:g} s"
            begun = isinstance(request, Exchange) and request.begun
            return BrokenOff(reason) if begun else RetryableError(reason, "slow")
        except EndedEarly as error:
            return RetryableError(self._brief(str(error)), "garbled")
        except openai.OpenAIError as error:
            return self._mapped(request, error)
        except (TypeError, UnicodeError) as error:
            return Unscored(f"a parameter of the request cannot be sent: {self._redacted(str(error))}")
        except Exception as error:  # noqa: BLE001 - raised without its frames
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)

    def _arguments(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Split off the parameters that only the server knows into `extra_body`."""
        known = {name: value for name, value in parameters.items() if name in self._known}
        unknown = {name: value for name, value in parameters.items() if name not in self._known}
        extra = {"extra_body": {**unknown, **known.get("extra_body", {})}} if unknown else {}
        return known | extra

    async def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _reply(self, body: bytes, path: str | None = None) -> Reply:
        """Parse the reply in a body; with the path of an exchange it is the whole answer."""
        try:
            record = _record(_parsed(body)) if path is None else record_of(path, _parsed(body))
            reply = Reply.of({name: self._redacted(value) for name, value in record.items()})
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            reason = f"the server's reply was not understood ({why}): {self._brief(self._beginning(body))!r}"
            raise RetryableError(reason, "garbled") from error
        size = len(reply.text) + len(reply.refusal) + len(reply.tool_calls)
        if path is None and size > MOST_TEXT:
            raise TooLarge(f"the reply has {size:,} characters, and at most {MOST_TEXT:,} are read")
        return reply

    def _mapped(self, request: Request, error: "OpenAIError") -> Exception:  # noqa: PLR0911 - a case a line
        """Turn an error of the library into ours."""
        import openai  # noqa: PLC0415 - loaded by now

        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            detail, name = self._brief(str(cause)), type(cause).__name__
            if name in BROKEN_OFF and "without sending a response" not in detail:
                return RetryableError(f"the connection broke off: {detail}", "garbled")
            return RetryableError(f"no connection: {detail}", "dropped" if name in SENT else "unreached")
        if not isinstance(error, openai.APIStatusError):
            return RetryableError(
                f"the server's reply was not understood: {self._brief(str(error))!r}", "garbled"
            )
        status, url = error.status_code, self._server.base_url
        if 300 <= status < 400:  # noqa: PLR2004 - as HTTP numbers redirects
            return ServerError(self._moved(error))
        answer = _refusal(error.body) or {"message": self._beginning(error.response.content) or error.message}
        detail = self._brief(str(answer.get("message") or error.message))
        if status in {401, 403}:
            return ServerError(self._refused(status))
        if status == 404:  # noqa: PLR2004 - as HTTP numbers it
            return ServerError(
                f"The server at {url} does not know the model {request.model!r} or the path: {detail}.\n"
                "Name a model it serves with --rageval-model (and --rageval-judge-model); "
                "a base URL usually ends in /v1."
            )
        if status == 402 or "insufficient_quota" in str(answer):  # noqa: PLR2004 - likewise
            return ServerError(
                f"The account at {url} has no quota left: {detail}.\n"
                "Replies received before are in the cache: a later run goes on from there."
            )
        reason = f"the server answered {status}: {detail}"
        if status in RETRYABLE:
            kind: FailureKind = "throttled" if status in BUSY else "failed"
            return RetryableError(reason, kind, wait_s=retry_after(error.response.headers))
        if _overflows(request, answer):
            return ContextOverflow(f"the prompt is longer than {request.model} can read ({detail})")
        redacted = json.loads(self._redacted(json.dumps(answer)))
        return Refused(reason, redacted, status) if status in {400, 422} else Unscored(reason)

    def unreachable(self, reason: str, attempts: int) -> ServerError:
        """Return the error for a server that was never reached."""
        return ServerError(
            f"No server answers at {self._server.base_url} ({reason}; tried {attempts} times).\n"
            "Start it, or name another with --rageval-base-url or OPENAI_BASE_URL. "
            "Replies received before are in the cache."
        )

    def silent(self, last: str, requests: int, seconds: float) -> ServerError:
        """Return the error for a server that has answered nothing for so long."""
        waited = f"{requests} {'request' if requests == 1 else 'requests'} waited"
        return ServerError(
            f"The server at {self._server.base_url} answered nothing for {seconds:g} s, while {waited} "
            f"(last: {last}).\n"
            "Ask less of it (--rageval-concurrency N, --rageval-rpm N), wait longer (--rageval-patience SECONDS), "
            "or run again later: replies received before are in the cache, and the next run asks for the rest."
        )

    def _refused(self, status: int) -> str:
        credentials = self._server.credentials
        key, remedy = "a request without a key", "Set OPENAI_API_KEY to a key of this server"
        if credentials.login is not None:
            key, remedy = "the user and the password in the base URL", "Correct them"
        elif credentials.api_key is not None:
            key = "the key in OPENAI_API_KEY"
        return (
            f"The server at {self._server.base_url} refused {key} (status {status}).\n"
            f"{remedy}, or name another server with --rageval-base-url."
        )

    def _moved(self, error: "APIStatusError") -> str:
        here = f"The server at {self._server.base_url} answers with a redirect (status {error.status_code})"
        remedy = "Set the base URL (--rageval-base-url or OPENAI_BASE_URL) to"
        try:
            location = urljoin(str(error.request.url), error.response.headers["location"])
            there = self._redacted(public_url(location).partition("?")[0])
        except (LookupError, ValueError):
            return f"{here} that names no location.\n{remedy} that of a server that answers."
        base = (
            there.removesuffix(PATH) if there.endswith(PATH) else "that of the models there, if there are any"
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


def _overflows(request: Request, answer: Mapping[str, Any]) -> bool:
    """Whether the prompt is too long; the client of an exchange reads the server's own words."""
    return request.adaptable and OVERFLOW.search(str(answer)) is not None


def _parsed(body: bytes) -> Any:
    """Parse a body; ValueError says why it is not JSON."""
    reasons = {UnicodeDecodeError: "it is not UTF-8", json.JSONDecodeError: "it is no JSON"}
    try:
        return json.loads(body)
    except ValueError as error:
        why = reasons.get(type(error), "a number in it is too long") if body.strip() else "it is empty"
        raise ValueError(why) from None


def _record(completion: Any) -> dict[str, Any]:
    """Return the fields of a `Reply` from a parsed completion; ValueError says why there is none."""
    if not isinstance(completion, Mapping):
        raise ValueError("it is no object")  # noqa: TRY004 - the text is at fault, not an argument's type
    choices, usage, model = (completion.get(name) for name in ("choices", "usage", "model"))
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise ValueError("its choice has no message")  # noqa: TRY004 - likewise
    text, calls = _text(message.get("content")), _field(message, "tool_calls", list)
    reason = _field(choice, "finish_reason", str)
    if reason == "error" or not (reason or text or calls):
        # Some proxies report an error with status 200.
        raise ValueError("it broke off")
    counts = usage if isinstance(usage, Mapping) else {}
    return {
        "text": text,
        "model": model if isinstance(model, str) else "",
        "finish_reason": reason or "stop",
        "tokens_in": _count(counts.get("prompt_tokens")),
        "tokens_out": _count(counts.get("completion_tokens")),
        "refusal": _field(message, "refusal", str),
        "tool_calls": json.dumps(calls) if calls else "",
    }


def _field(record: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of this type; empty where it is missing or null."""
    value = record.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        found = JSON_TYPES.get(type(value), "an object")
        raise ValueError(f"its {name} is {found}")  # noqa: TRY004 - likewise
    return value


def _refusal(body: object) -> Mapping[str, Any] | None:
    """Return an error's body; None where it is no object or nested too deeply."""
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], Mapping):
        # Google's servers put the object in a list.
        body = body[0].get("error", body[0])
    return body if isinstance(body, Mapping) and _within(body, DEEPEST) else None


def _within(value: object, levels: int) -> bool:
    """Whether a value has at most so many levels of nesting."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return levels > 0 and all(_within(item, levels - 1) for item in inner)


def _count(value: Any) -> int:
    """Return a number of tokens; 0 where the server gives none."""
    return int(value) if type(value) in {int, float} and 0 <= value < MOST_TOKENS else 0


def _text(content: object) -> str:
    """Return a message's content as one text; some servers send it in parts."""
    if not isinstance(content, list):
        return _field({"content": content}, "content", str)
    if not all(isinstance(part, Mapping) for part in content):
        raise ValueError("a part of its content is no object")
    return "".join(_field(part, "text", str) for part in content if part.get("type") not in REASONING)
