"""One server through the `openai` client: one attempt at a request, with its errors as ours."""

import asyncio
import email.utils
import inspect
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import urljoin

from pytest_rageval.config import public_url
from pytest_rageval.errors import ContextOverflow, ServerError, Unscored
from pytest_rageval.llm.connection import Connection
from pytest_rageval.llm.messages import MOST_TEXT, MOST_TOKENS, Reply, TooLarge, well_formed

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAIError

    from pytest_rageval.llm.messages import Request
    from pytest_rageval.llm.servers import Server

__all__ = ["MAX_WAIT_S", "Client", "Refused", "RetryableError", "retry_after", "until_reset"]

MAX_WAIT_S: Final = 120.0
"""No header makes a run wait for longer at a time."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a refusal asks to wait, by `retry-after-ms`, `retry-after` or an exhausted limit.

    >>> retry_after({"retry-after": "2"}), retry_after({})
    (2.0, None)
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None:
        return _bounded(seconds)
    date = _date(given or "")
    return until_reset(headers) if date is None else _bounded(date - time.time())


def until_reset(headers: Mapping[str, str]) -> float | None:
    """Seconds until an exhausted limit is filled up again, by the `x-ratelimit-…` headers.

    None where no limit is exhausted: `x-ratelimit-remaining-requests` or `-tokens` is above 0, or
    not given. The reset is a duration such as `6m0s` or `20ms`, or a plain number of seconds.

    >>> until_reset({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s"})
    62.0
    """
    waits = []
    for kind in ("requests", "tokens"):
        remaining = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
        if remaining is not None and remaining <= 0:
            reset = _duration(headers.get(f"x-ratelimit-reset-{kind}") or "")
            if reset is not None:
                waits.append(_bounded(reset))
    return max(waits, default=None)


def _duration(text: str) -> float | None:
    plain = _number(text)
    if plain is not None:
        return plain
    if not re.fullmatch(f"(?:{_DURATION.pattern})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


def _date(text: str) -> float | None:
    try:
        parsed = email.utils.parsedate_tz(text)
        return None if parsed is None else email.utils.mktime_tz(parsed)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value >= 0 else None


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), MAX_WAIT_S)


T = TypeVar("T")

PATH: Final = "/chat/completions"
"""Behind the base URL; the library adds it."""

SHOWN: Final = 4000
"""Characters of a body that is not understood: more are neither shown nor searched."""

DEEPEST: Final = 32
"""Levels of an error that is searched for words; real ones have six."""

REASONING: Final = ("reasoning", "thinking")
"""Parts of a message that are no part of what it says."""

BUSY: Final = {429, 503, 529}
"""Too much at once; as opposed to 500, 502 and 504, where something went wrong."""

PASSING: Final = {408, 409, 425, 500, 502, 504, *BUSY}
"""Asked again later, the same request may be answered."""

OVERFLOW: Final = (
    "context_length",
    "context length",
    "context size",
    "context window",
    "exceed_context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
)
"""How servers say that the prompt is longer than the model can read."""

BROKEN_OFF: Final = {"RemoteProtocolError", "DecodingError"}
"""What ends a reply in the midst. By name, as below: the HTTP library is the client library's own choice."""

SENT: Final = {"ReadError", "WriteError", "RemoteProtocolError"}
"""After which a request may have arrived, and have been answered."""


Why = Literal["throttled", "slow", "unreached", "dropped", "garbled", "failed"]


class RetryableError(Exception):
    """This attempt failed in passing.

    Attributes:
        reason: for whom it never passes.
        why: the server has too much to do ("throttled"), did not answer in time ("slow"), was not
            reached ("unreached"), ended the connection instead of replying ("dropped"), gave a reply that
            is none ("garbled"), or something went wrong ("failed").
        wait_s: what the server asks to wait before anything is sent, or None.
    """

    def __init__(self, reason: str, why: Why, *, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.why: Why = why
        self.wait_s = wait_s


class Refused(Unscored):
    """The server will not answer this request as it is (status 400 or 422).

    Attributes:
        answer: the server's, parsed, as far as it can be.
    """

    def __init__(self, reason: str, answer: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.answer = answer


class Client:
    """Sends requests to one server, each once.

    Args:
        server: where to.
        timeout_s: for a whole reply, in seconds.
    """

    def __init__(self, server: "Server", *, timeout_s: float) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._connection: Connection | None = None

    @property
    def url(self) -> str:
        """The server's, as far as it may be shown."""
        return self._server.base_url

    async def complete(self, request: "Request", parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Ask once and wait for the whole reply.

        Args:
            request: its model and messages are sent.
            parameters: those of the request, as this server takes them.

        Returns:
            The reply, and for how long the server wants to be sent nothing more, or None.

        Raises:
            Again: this attempt failed, the next may not.
            Refused: the server will not answer this as it is.
            ServerError: nothing at this server can answer: it is not there, the key or the model is
                wrong, the account is empty.
            TooLarge: the answer is larger than any that can be used.
            Unscored: this request failed, another may not; the reason.
        """
        response = await self._sent(request, parameters)
        if isinstance(response, Exception):
            # Raised outside of the handlers: the frames of the library, in which the key stands, are not kept with it.
            raise response
        return self._reply(response.content), until_reset(response.headers)

    async def _sent(self, request: "Request", parameters: Mapping[str, Any]) -> Any:
        """The library's response to a request, or the error for which there is none."""
        address = await self._server.address()
        import openai  # noqa: PLC0415 - 0.8 s, which a run from the cache must not pay

        try:
            if self._connection is None:
                self._connection = Connection(address, self._server.credentials, timeout_s=self._timeout_s)
                completions = self._connection.client.chat.completions
                # Looked up once: every look-up wraps all methods of the library anew.
                self._create = completions.with_raw_response.create
                self._known = inspect.signature(completions.create).parameters.keys()
            async with asyncio.timeout(self._timeout_s):
                return await self._create(
                    model=request.model,
                    messages=[_sendable(message) for message in request.messages],
                    **self._arguments(parameters),
                )
        except (TimeoutError, openai.APITimeoutError):
            return RetryableError(f"no reply in {self._timeout_s:g} s", "slow")
        except openai.OpenAIError as error:
            return self._read(request, error)
        except (TypeError, UnicodeError) as error:
            return Unscored(f"a parameter of the request cannot be sent: {self._redacted(str(error))}")
        except Exception as error:  # noqa: BLE001 - no fault that is known; it is raised without its frames
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)

    def _arguments(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as the library takes them: what it does not know, the server may."""
        known = {name: value for name, value in parameters.items() if name in self._known}
        unknown = {name: value for name, value in parameters.items() if name not in self._known}
        if unknown:
            known["extra_body"] = {**unknown, **known.get("extra_body", {})}
        return known

    async def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _reply(self, body: bytes) -> Reply:
        """The reply in a body, if it is one, whole."""
        try:
            record = _record(_parsed(body))
            reply = Reply.of({name: self._redacted(value) for name, value in record.items()})
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else error
            reason = f"the server's reply was not understood ({why}): {self._brief(self._beginning(body))!r}"
            raise RetryableError(reason, "garbled") from error
        size = len(reply.text) + len(reply.refusal) + len(reply.tool_calls)
        if size > MOST_TEXT:
            reason = f"the reply has {size:,} characters, and at most {MOST_TEXT:,} are read"
            raise TooLarge(reason)
        return reply

    def _read(self, request: "Request", error: "OpenAIError") -> Exception:  # noqa: PLR0911 - a case a line
        """An error of the library's as ours."""
        import openai  # noqa: PLC0415 - loaded by now

        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            said, kind = self._brief(str(cause)), type(cause).__name__
            if kind in BROKEN_OFF and "without sending a response" not in said:
                return RetryableError(f"the connection broke off: {said}", "garbled")
            return RetryableError(f"no connection: {said}", "dropped" if kind in SENT else "unreached")
        if not isinstance(error, openai.APIStatusError):
            return RetryableError(
                f"the server's reply was not understood: {self._brief(str(error))!r}", "garbled"
            )
        status = error.status_code
        if 300 <= status < 400:  # noqa: PLR2004 - as HTTP numbers redirects
            return ServerError(self._moved(error))
        answer = _refusal(error.body) or {"message": self._beginning(error.response.content) or error.message}
        said = self._brief(str(answer.get("message") or error.message))
        if status in {401, 403}:
            return ServerError(self._refused(status))
        if status == 404:  # noqa: PLR2004 - as HTTP numbers it
            return ServerError(self._unknown(request.model, said))
        if status == 402 or "insufficient_quota" in str(answer):  # noqa: PLR2004 - likewise
            return ServerError(self._empty(said))
        reason = f"the server answered {status}: {said}"
        if status in PASSING:
            why: Why = "throttled" if status in BUSY else "failed"
            return RetryableError(reason, why, wait_s=retry_after(error.response.headers))
        if any(words in str(answer).lower() for words in OVERFLOW):
            return ContextOverflow(f"the prompt is longer than {request.model} can read ({said})")
        return Refused(reason, answer) if status in {400, 422} else Unscored(reason)

    def unreachable(self, reason: str, attempts: int) -> ServerError:
        """The error when there never was a connection."""
        return ServerError(
            f"No server answers at {self._server.base_url} ({reason}; tried {attempts} times).\n"
            "Start it, or name another with --rageval-base-url or OPENAI_BASE_URL. "
            "Replies received before are in the cache."
        )

    def silent(self, last: str, requests: int, seconds: float) -> ServerError:
        """The error when the server has answered nothing for so long."""
        waited = f"{requests} {'request' if requests == 1 else 'requests'} waited"
        return ServerError(
            f"The server at {self._server.base_url} answered nothing for {seconds:g} s, while {waited} "
            f"(last: {last}).\n"
            "Ask less of it (--rageval-concurrency N, --rageval-rpm N), wait longer (--rageval-patience SECONDS), "
            "or run again later: replies received before are in the cache, and the next run asks for the rest."
        )

    def _refused(self, status: int) -> str:
        given = self._server.credentials
        key, remedy = "a request without a key", "Set OPENAI_API_KEY to a key of this server"
        if given.login is not None:
            key, remedy = "the user and the password in the base URL", "Correct them"
        elif given.api_key is not None:
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

    def _unknown(self, model: str, found: str) -> str:
        return (
            f"The server at {self._server.base_url} does not know the model {model!r} or the path: "
            f"{found}.\n"
            "Name a model it serves with --rageval-model (and --rageval-judge-model); "
            "a base URL usually ends in /v1."
        )

    def _empty(self, found: str) -> str:
        return (
            f"The account at {self._server.base_url} has no quota left: {found}.\n"
            "Replies received before are in the cache: a later run goes on from there."
        )

    def _brief(self, text: str) -> str:
        line = " ".join(self._redacted(text).split()).rstrip(".")
        return line if len(line) <= 200 else f"{line[:199]}…"  # noqa: PLR2004 - fits a terminal

    def _beginning(self, body: bytes) -> str:
        """The beginning of a body, without the key: half of one that the end cuts would not be known again."""
        return str(self._redacted(body.decode("utf-8", "replace")))[:SHOWN]

    def _redacted(self, value: Any) -> Any:
        """A text without the secrets, which a server may repeat: what it says is printed and kept."""
        return self._server.credentials.redacted(value) if isinstance(value, str) else value


def _parsed(body: bytes) -> Any:
    """What a body says as JSON.

    Raises:
        ValueError: it is none; why.
        RecursionError: it is nested too deeply.
    """
    if not body.strip():
        raise ValueError("it is empty")
    try:
        return json.loads(body)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError:
        raise ValueError("it is no JSON") from None
    except ValueError:
        raise ValueError("a number in it is too long") from None


def _record(completion: Any) -> dict[str, Any]:
    """A reply's fields in a parsed completion.

    Raises:
        ValueError: it is a reply that broke off, or none; why.
        RecursionError: its tool calls are nested too deeply.
    """
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
        # Some gateways say so with status 200.
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
    """A field that may be missing or null, which is the same as empty.

    Raises:
        ValueError: it is of another kind.
    """
    value = record.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ValueError(f"its {name} is {_kind(value)}")  # noqa: TRY004 - likewise
    return value


def _kind(value: object) -> str:
    """What a value is called in JSON."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "an object")


def _refusal(body: object) -> Mapping[str, Any] | None:
    """What an error's body says, parsed; None where it is no object, or too deep to be searched for words."""
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], Mapping):
        # Google's servers put the object in a list.
        body = body[0].get("error", body[0])
    return body if isinstance(body, Mapping) and _within(body, DEEPEST) else None


def _within(value: object, levels: int) -> bool:
    """Whether a value is nested in at most so many levels."""
    inner: Iterable[object] = value.values() if isinstance(value, Mapping) else ()
    inner = value if isinstance(value, list) else inner
    return levels > 0 and all(_within(item, levels - 1) for item in inner)


def _count(value: object) -> int:
    """A number of tokens; 0 where a server gives none that is a number. The reply counts without."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0
    return int(value) if 0 <= value < MOST_TOKENS else 0


def _sendable(message: Mapping[str, Any]) -> Any:
    """A message in which every text is well formed: the library cannot encode half a character."""
    return {name: well_formed(value) for name, value in message.items()}


def _text(content: object) -> str:
    """A message's content as one text; some servers send it in parts.

    Raises:
        ValueError: it is neither text nor parts, nor null.
    """
    if not isinstance(content, list):
        return _field({"content": content}, "content", str)
    if not all(isinstance(part, Mapping) for part in content):
        raise ValueError("a part of its content is no object")
    return "".join(_field(part, "text", str) for part in content if part.get("type") not in REASONING)
