"""One server, through the `openai` client: one attempt at a request, and its errors as ours."""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from pytest_rageval.errors import ContextOverflow, ServerError, Unscored
from pytest_rageval.llm.reply import MOST_TOKENS, Reply, well_formed
from pytest_rageval.llm.waits import retry_after, until_reset

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAIError

    from pytest_rageval.llm.request import Request
    from pytest_rageval.llm.servers import Server

__all__ = ["Again", "Client", "Refused"]

NO_KEY: Final = "none"
"""Local servers want no key, but the client library wants one."""

SECRET_LENGTH: Final = 8

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


Why = Literal["throttled", "slow", "unreached", "dropped", "garbled", "failed"]


class Again(Exception):  # noqa: N818 - no error of the user's, a state of the conversation
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
        self._opened: AsyncOpenAI | None = None

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
            Unscored: this request failed, another may not; the reason.
        """
        address = await self._server.address()
        import openai  # noqa: PLC0415 - 0.8 s, which a run from the cache must not pay

        if self._opened is None:
            self._opened = openai.AsyncOpenAI(
                base_url=address,
                api_key=self._server.api_key or NO_KEY,
                timeout=self._timeout_s,
                # Repeating is the sender's: it must see every refusal in order to go slower.
                max_retries=0,
            )
            # Looked up once: every look-up wraps all methods of the library anew.
            self._create = self._opened.chat.completions.with_raw_response.create
            self._known = inspect.signature(self._opened.chat.completions.create).parameters.keys()
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._create(
                    model=request.model,
                    messages=[_sendable(message) for message in request.messages],
                    **self._arguments(parameters),
                )
        except (TimeoutError, openai.APITimeoutError) as error:
            raise Again(f"no reply in {self._timeout_s:g} s", "slow") from error
        except openai.OpenAIError as error:
            raise self._read(request, error) from error
        except (TypeError, UnicodeError) as error:
            reason = f"a parameter of the request cannot be sent: {error}"
            raise Unscored(reason) from error
        return self._reply(response.content), until_reset(response.headers)

    def _arguments(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as the library takes them: what it does not know, the server may."""
        known = {name: value for name, value in parameters.items() if name in self._known}
        unknown = {name: value for name, value in parameters.items() if name not in self._known}
        if unknown:
            known["extra_body"] = {**unknown, **known.get("extra_body", {})}
        return known

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def _reply(self, body: bytes) -> Reply:
        """The reply in a body, if it is one, whole."""
        try:
            # Strictly: a character that was lost on the way would be kept for good.
            return Reply.of(_record(json.loads(body.decode("utf-8-sig")), self._redacted))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            reason = f"the server's reply was not understood: {self._brief(body.decode(errors='replace'))!r}"
            raise Again(reason, "garbled") from error

    def _read(self, request: "Request", error: "OpenAIError") -> Exception:  # noqa: PLR0911 - a case a line
        """An error of the library's as ours."""
        import openai  # noqa: PLC0415 - loaded by now

        if isinstance(error, openai.APIConnectionError):
            why: Why = "dropped" if _was_sent(error.__cause__) else "unreached"
            return Again(f"no connection: {self._brief(str(error.__cause__ or error))}", why)
        if not isinstance(error, openai.APIStatusError):
            return Again(f"the server's reply was not understood: {self._brief(str(error))!r}", "garbled")
        status = error.status_code
        answer = error.body if isinstance(error.body, Mapping) else {"message": error.message}
        said = self._brief(str(answer.get("message") or error.message))
        if status in {401, 403}:
            return ServerError(self._refused(status))
        if status == 404:  # noqa: PLR2004 - as HTTP numbers it
            return ServerError(self._unknown(request.model, said))
        if status == 402 or "insufficient_quota" in str(answer):  # noqa: PLR2004 - likewise
            return ServerError(self._empty(said))
        reason = f"the server answered {status}: {said}"
        if status in PASSING:
            why = "throttled" if status in BUSY else "failed"
            return Again(reason, why, wait_s=retry_after(error.response.headers))
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

    def _refused(self, status: int) -> str:
        key = "the key in OPENAI_API_KEY" if self._server.api_key else "a request without a key"
        return (
            f"The server at {self._server.base_url} refused {key} (status {status}).\n"
            "Set OPENAI_API_KEY to a key of this server, or name another with --rageval-base-url."
        )

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

    def _redacted(self, text: str) -> str:
        """Without the key, which a server may repeat: what it says is printed and kept."""
        key = self._server.api_key or ""
        # A short one is a word that stands for a key, such as "none", and occurs in every text.
        return text.replace(key, "[key]") if len(key) >= SECRET_LENGTH else text


def _was_sent(error: BaseException | None) -> bool:
    """Whether a request was on its way when its connection broke: then the server may have answered it."""
    # By name: httpx2 is the openai library's choice, and not a dependency of this package.
    return type(error).__name__ in {"ReadError", "WriteError", "RemoteProtocolError"}


def _record(completion: Any, redacted: Callable[[str], str]) -> dict[str, Any]:
    """A reply's fields in a parsed completion.

    Raises:
        ValueError: it is a reply that broke off, or none; as LookupError, TypeError and AttributeError.
    """
    choice = completion["choices"][0]
    message, usage = choice["message"], completion.get("usage") or {}
    calls, reason = message.get("tool_calls"), choice.get("finish_reason")
    if reason == "error" or (reason is None and not message.get("content") and not calls):
        # Some gateways say so with status 200.
        raise ValueError("the reply broke off")
    return {
        "text": redacted(_text(message.get("content"))),
        "model": completion.get("model") or "",
        "finish_reason": reason or "stop",
        "tokens_in": _count(usage.get("prompt_tokens")),
        "tokens_out": _count(usage.get("completion_tokens")),
        "refusal": redacted(message.get("refusal") or ""),
        "tool_calls": json.dumps(calls) if calls else "",
    }


def _count(value: object) -> int:
    """A number of tokens; 0 where a server gives none that is a number. The reply counts without."""
    return int(value) if isinstance(value, int | float) and 0 <= value < MOST_TOKENS else 0


def _sendable(message: Mapping[str, Any]) -> Any:
    """A message in which every text is well formed: the library cannot encode half a character."""
    return {name: well_formed(value) for name, value in message.items()}


def _text(content: object) -> str:
    """A message's content as one text; some servers send it in parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content)
    return well_formed(content) if isinstance(content, str) else ""
