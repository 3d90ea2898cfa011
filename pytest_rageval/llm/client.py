"""One server, through the `openai` client: requests to replies, its errors to ours."""

from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.errors import ServerError, Unscored
from pytest_rageval.llm.reply import Reply

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from pytest_rageval.llm.request import Request
    from pytest_rageval.llm.servers import Server

__all__ = ["Client"]

NO_KEY: Final = "none"
"""Local servers want no key, but the client library wants one."""


class Client:
    """Sends requests to one server.

    The library behind it repeats a request on 408, 409, 429, 5xx and dropped
    connections, after the server's Retry-After or with exponential backoff.

    Args:
        server: where to.
        timeout_s: of one attempt, in seconds.
        retries: attempts after the first.
    """

    def __init__(self, server: "Server", *, timeout_s: float, retries: int) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._retries = retries
        self._opened: AsyncOpenAI | None = None

    async def complete(self, request: "Request") -> Reply:
        """Ask once and wait for the whole reply.

        Raises:
            ServerError: nothing at this server can answer: it is not there, the key or the model is
                wrong.
            Unscored: this request failed, another may not; the reason.
        """
        address = await self._server.address()
        import openai  # noqa: PLC0415 - 0.8 s, which a run from the cache must not pay

        if self._opened is None:
            self._opened = openai.AsyncOpenAI(
                base_url=address,
                api_key=self._server.api_key or NO_KEY,
                timeout=self._timeout_s,
                max_retries=self._retries,
            )
        parameters: dict[str, Any] = dict(request.parameters)
        try:
            completion = await self._opened.chat.completions.create(
                model=request.model,
                messages=[dict(message) for message in request.messages],  # type: ignore[misc]
                **parameters,
            )
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise ServerError(self._refused(error.status_code)) from error
        except openai.NotFoundError as error:
            raise ServerError(self._unknown(request.model, error.message)) from error
        except openai.APITimeoutError as error:
            reason = f"no reply in {self._timeout_s:g} s, {self._retries + 1} times"
            raise Unscored(reason) from error
        except openai.APIConnectionError as error:
            raise ServerError(self._unreachable(error)) from error
        except openai.APIStatusError as error:
            reason = f"the server answered {error.status_code}: {_brief(error.message)}"
            raise Unscored(reason) from error
        except openai.APIError as error:
            reason = f"the server's reply was not understood: {_brief(error.message)}"
            raise Unscored(reason) from error
        choices = getattr(completion, "choices", None)
        if not choices:
            reason = "the server's reply was not understood: it has no choices"
            raise Unscored(reason)
        usage = completion.usage
        return Reply(
            text=choices[0].message.content or "",
            model=completion.model or "",
            finish_reason=choices[0].finish_reason or "stop",
            tokens_in=usage.prompt_tokens if usage else 0,
            tokens_out=usage.completion_tokens if usage else 0,
        )

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def _refused(self, status: int) -> str:
        key = "the key in OPENAI_API_KEY" if self._server.api_key else "a request without a key"
        return (
            f"The server at {self._server.base_url} refused {key} (status {status}).\n"
            "Set OPENAI_API_KEY to a key of this server, or name another with --rageval-base-url."
        )

    def _unknown(self, model: str, found: str) -> str:
        return (
            f"The server at {self._server.base_url} does not know the model {model!r} or the path: "
            f"{_brief(found)}.\n"
            "Name a model it serves with --rageval-model (and --rageval-judge-model); "
            "a base URL usually ends in /v1."
        )

    def _unreachable(self, error: Exception) -> str:
        return (
            f"No server answers at {self._server.base_url} ({_brief(str(error.__cause__ or error))}; "
            f"tried {self._retries + 1} times).\n"
            "Start it, or name another with --rageval-base-url or OPENAI_BASE_URL. "
            "Replies received before are in the cache."
        )


def _brief(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= 200 else f"{line[:199]}…"  # noqa: PLR2004 - fits a terminal
