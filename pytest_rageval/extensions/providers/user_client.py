"""The user's own client, from the fixture `rageval_client`: a function that is called in place of a server.

It is called as `(model, messages, **parameters)` and returns a chat completion, as `litellm.acompletion` and the method
`create` of an `openai` client do.
"""

import asyncio
import copy
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pytest_rageval.calls.user_code import call_errors, is_cancelled
from pytest_rageval.core.errors import CallableError, RagevalError, ServerError, Unscored, summary_line
from pytest_rageval.lib.foreign_values import (
    JsonObject,
    accepts_arguments,
    format_signature,
    is_async,
    signature_of,
)
from pytest_rageval.lib.secret import Credentials, Secret, is_secret_name, public_url
from pytest_rageval.models import ClientPart, ProviderRequest
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.chat_apis import error_body
from pytest_rageval.models.client import (
    NO_LIMITS,
    Client,
    RequestPolicy,
    RetryableError,
    Server,
    blocked_error,
)
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.proxied_request import CHAT, Answer, ProxiedRequest
from pytest_rageval.options.settings import Role

CALL_FORM: Final = "(model, messages, **parameters)"

COMPLETION: Final = ("model", "choices", "usage")
CHOICE: Final = ("message", "finish_reason")
MESSAGE: Final = ("content", "refusal", "tool_calls", "reasoning_content", "reasoning", "thinking_blocks")
USAGE: Final = ("prompt_tokens", "completion_tokens")
"""The attributes that are read from a completion, a choice, a message, and the usage."""

STATUS_ATTRIBUTES: Final = ("status_code", "status", "http_status", "code")
"""Attributes of exceptions in which client libraries store the HTTP status."""

EXCEPTION_STATUSES: Final = {
    "RateLimit": 429,
    "Throttling": 429,
    "Authentication": 401,
    "PermissionDenied": 403,
    "NotFound": 404,
    "InvalidRequest": 400,
    "BadRequest": 400,
    "ContextLength": 400,
    "UnsupportedParams": 400,
    "ServiceUnavailable": 503,
}
"""Beginnings of the names of exceptions without an HTTP status, and the status that they mean."""


class UserServer(Server):
    """The user's client in place of a server; CallableError unless it takes `(model, messages, **parameters)`."""

    def __init__(
        self,
        part: ClientPart,
        *,
        role: Role = "generator",
        policy: RequestPolicy | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        function, name = part
        if not callable(function):
            raise CallableError(
                f"{name} is {type(function).__name__}, which cannot be called.\n"
                f"Return a function {CALL_FORM} that returns a chat completion, sync or async, such as "
                "litellm.acompletion or the method chat.completions.create of an openai client."
            )
        names = _parameter_names(function)
        if not accepts_arguments(function, model="", messages=[]) or not (
            names is None or "extra_body" in names
        ):
            raise CallableError(
                f"{name} is {format_signature(function)}, and is called with these arguments by name: {CALL_FORM}.\n"
                "The parameters are temperature, max_tokens and others, which it passes on."
            )
        self.function = function
        self.name = name
        self.role: Role = role
        self.policy = policy
        self.limits = limits
        self.base_url: str = _client_name(function)
        self.credentials: Credentials = Credentials(Secret("", _client_secrets(function)))
        self._settings = (id(function), name, role, policy, limits)

    def client(self, *, timeout_s: float) -> "UserClient":
        return UserClient(self, timeout_s=timeout_s)

    async def address(self) -> str:
        return self.base_url

    @property
    def subject(self) -> str:
        return f"{self.name} ({self.base_url.removeprefix('client:')})"

    def unknown_model_error(self, model: str, detail: str) -> ServerError:
        return ServerError(
            f"{self.subject} does not know the model {model!r}: {detail}.\n"
            "Name one as this client names it, with --rageval-model (and --rageval-judge-model)."
        )

    def auth_error(self, status: int, detail: str) -> ServerError:
        return ServerError(
            f"{self.subject} has no key that the server takes (status {status}): {detail}.\n"
            "Give it one, or leave the fixture out for the server of --rageval-base-url."
        )

    def unreachable_error(self, reason: str, attempts: int) -> ServerError:
        return ServerError(
            f"{self.subject} reaches no server ({reason}; tried {attempts} times).\n"
            "Check the address that it uses. Replies received before are in the cache."
        )


def user_server(request: ProviderRequest) -> UserServer:
    part = cast("ClientPart", request.client)
    return UserServer(part, role=request.role, policy=request.policy, limits=request.limits)


class UserClient(Client):
    """Calls the user's client once per attempt, and maps its exceptions like the HTTP statuses of a server."""

    def __init__(self, server: UserServer, *, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._function = server.function
        self._name = server.name
        self._is_async = is_async(server.function)
        self._parameter_names = _parameter_names(server.function)

    async def complete(
        self, request: Request, parameters: Mapping[str, object]
    ) -> tuple[Reply, float | None]:
        path = request.path if isinstance(request, ProxiedRequest) else None
        if path not in {None, CHAT}:
            raise self._unsupported_path_error(f"/v1{path}")
        result = await self._call(request, parameters)
        if isinstance(result, BaseException):
            raise result
        return self.parse_reply(result, path), None

    async def forward(
        self,
        proxied: ProxiedRequest,
        method: str,
        content: bytes,  # noqa: ARG002 - the signature of `Client`
        headers: Mapping[str, str],  # noqa: ARG002 - the signature of `Client`
    ) -> Answer:
        raise self._unsupported_path_error(f"{method} /v1{proxied.path}")

    def _unsupported_path_error(self, path: str) -> Unscored:
        return Unscored(
            f"{self.server.subject} gives chat completions only, and cannot answer {path}: lead that client to a "
            "server."
        )

    async def close(self) -> None:
        """Do nothing: the client belongs to the user, and stays open."""

    async def _call(self, request: Request, parameters: Mapping[str, object]) -> bytes | Exception:
        messages = request.well_formed_messages()
        # The parameters are copied, since some libraries modify their arguments.
        arguments = {"model": request.model, "messages": messages, **copy.deepcopy(dict(parameters))}
        if self._parameter_names is not None:
            arguments = _wrap_extra_arguments(arguments, self._parameter_names)
        call = functools.partial(self._function, **arguments)
        try:
            async with asyncio.timeout(self._timeout_s) as timeout:
                returned = call() if self._is_async else await asyncio.to_thread(call)
                if inspect.isawaitable(returned):
                    returned = await returned
        except TimeoutError as error:
            if not timeout.expired():
                # The user's code has raised it.
                return self._map_exception(request, error)
            return RetryableError(f"no reply in {self._timeout_s:g} s", "slow")
        except (RagevalError, Unscored) as error:
            return error
        except call_errors() as error:
            if is_cancelled(error):
                raise
            return self._map_exception(request, error)
        return self._as_json(returned)

    def _as_json(self, returned: object) -> bytes | CallableError:
        try:
            completion = _fields(returned, COMPLETION)
            listed = completion.get("choices")
            choices = [
                _fields(choice, CHOICE) for choice in (listed if isinstance(listed, list | tuple) else ())
            ]
            for choice in choices:
                choice["message"] = _fields(choice.get("message"), MESSAGE)
            completion |= {"choices": choices, "usage": _fields(completion.get("usage"), USAGE)}
            if choices:
                return json.dumps(completion, default=_json_default).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError, RecursionError):
            pass
        shown = self._shorten(f"{type(returned).__name__} {returned!r:.100}")
        return CallableError(
            f"{self.server.subject} returned {shown}, and not a chat completion.\n"
            "Return an object or a dict with choices[0].message.content, as OpenAI's clients do; not a stream."
        )

    def _map_exception(self, request: Request, error: BaseException) -> Exception:
        host = urlsplit(self.server.base_url).hostname or "HOST"
        if blocked := blocked_error(f"{self.server.subject} reaches no server", host, error):
            return blocked
        status, text = _status(error), self._shorten(summary_line(error))
        if status is not None and status >= 400:  # noqa: PLR2004 - HTTP numbers errors from 400 on
            answer = error_body(getattr(error, "body", None)) or {"message": str(error)}
            return self._map_status(request, status, answer, _headers(error))
        name = type(error).__name__
        if "Timeout" in name:
            return RetryableError(f"no reply: {text}", "slow")
        if isinstance(error, ConnectionError) or "Connect" in name:
            return RetryableError(f"no connection: {text}", "unreached")
        return Unscored(f"{self._name} raised {text}")


def _parameter_names(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of a function's parameters; None if it accepts any keyword, or has no signature."""
    signature = signature_of(function)
    if signature is None:
        return None
    parameters = signature.parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _wrap_extra_arguments(arguments: JsonObject, names: Collection[str]) -> dict[str, object]:
    """Move the arguments that a function does not have into `extra_body`, which the openai client sends as they are."""
    known = {name: value for name, value in arguments.items() if name in names}
    unknown = {name: value for name, value in arguments.items() if name not in names}
    extra = {"extra_body": {**unknown, **known.get("extra_body", {})}} if unknown else {}
    return known | extra


def _client_name(function: Any) -> str:
    """Return a name of a client that is the same in every run and has no secrets: it is part of request keys.

    It is the attribute `fingerprint` of the function; or the base URL of the `openai` client that the function is a
    method of, as if the URL was set by option; else the shortest importable module of the function, and its name.
    """
    fingerprint = getattr(function, "fingerprint", None)
    if isinstance(fingerprint, str):
        return f"client:{fingerprint}"
    if isinstance(function, functools.partial):
        return _client_name(function.func)
    base_url = getattr(_library_client(function), "base_url", None)
    if base_url is not None:
        return public_url(str(base_url)).rstrip("/")
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"client:{_importable_module(named)}.{named.__qualname__}"


def _library_client(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(getattr(function, "__self__", None), "_client", None)


def _importable_module(named: Any) -> str:
    """Return the shortest module with this object: the module that defines it may change with a version."""
    parts = named.__module__.split(".")
    for n in range(1, len(parts)):
        module = ".".join(parts[:n])
        if getattr(sys.modules.get(module), named.__qualname__, None) is named:
            return module
    return str(named.__module__)


def _client_secrets(function: object) -> Iterator[str]:
    """Yield the keys that an exception of the client may quote: keys in the environment, and an `openai` client's."""
    for name, value in os.environ.items():
        if is_secret_name(name):
            yield value.strip()
    key = getattr(_library_client(function), "api_key", None)
    if isinstance(key, str):
        yield key


def _fields(value: Any, names: tuple[str, ...]) -> dict[str, object]:
    """Return a part of a completion as a dict: from a mapping, a model of pydantic, or attributes of these names."""
    if isinstance(value, Mapping):
        return dict(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dict(dump())
    return {name: getattr(value, name, None) for name in names}


def _json_default(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    return dict(value) if isinstance(value, Mapping) else getattr(value, "__dict__", None) or str(value)


def _causes(error: BaseException) -> Iterator[Any]:
    yield error
    for cause in (getattr(error, "original_exception", None), error.__cause__):
        if isinstance(cause, BaseException):
            yield cause


def _status(error: BaseException) -> int | None:
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, Mapping):
            # The AWS library has a mapping.
            metadata = response.get("ResponseMetadata")
            values = [metadata.get("HTTPStatusCode")] if isinstance(metadata, Mapping) else []
        else:
            values = [getattr(cause, name, None) for name in STATUS_ATTRIBUTES] + [
                getattr(response, "status_code", None)
            ]
        for value in values:
            if isinstance(value, int) and 100 <= value < 600:  # noqa: PLR2004 - the range of HTTP
                return int(value)
    name = type(error).__name__
    return next(
        (status for beginning, status in EXCEPTION_STATUSES.items() if name.startswith(beginning)), None
    )


def _headers(error: BaseException) -> dict[str, str]:
    for cause in _causes(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        if isinstance(headers, Mapping) and headers:
            return {str(name).lower(): str(value) for name, value in headers.items()}
    retry_after = getattr(error, "retry_after", None)
    return {} if retry_after is None else {"retry-after": str(retry_after)}
