"""The user's own client, from the fixture `rageval_client`: a function that is called instead of a server.

It is called as `(model, messages, **parameters)` and returns a chat completion, as `litellm.acompletion` or the method
`create` of an `openai` client does.
"""

import asyncio
import copy
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from pytest_rageval.config import ROLES, Api, Role
from pytest_rageval.errors import CallableError, RagevalError, ServerError, Unscored, summary_line
from pytest_rageval.llm.budget import Limits
from pytest_rageval.llm.messages import Reply, Request
from pytest_rageval.llm.proxied_request import CHAT, Answer, ProxiedRequest
from pytest_rageval.llm.servers.client import Client, RetryableError, refusal_in
from pytest_rageval.llm.servers.server import NO_LIMITS, RequestPolicy
from pytest_rageval.secret import Credentials, Secret, is_secret_name, public_url
from pytest_rageval.user_code import accepts, is_async

__all__ = ["UserClient", "UserFunction", "UserServer", "own_functions"]

CALLED: Final = "(model, messages, **parameters)"

COMPLETION: Final = ("model", "choices", "usage")
CHOICE: Final = ("message", "finish_reason")
MESSAGE: Final = ("content", "refusal", "tool_calls", "reasoning_content", "reasoning", "thinking_blocks")
USAGE: Final = ("prompt_tokens", "completion_tokens")
"""The attributes of a completion and its parts that are read."""

STATUSES: Final = ("status_code", "status", "http_status", "code")
"""Attributes in which libraries keep the status of HTTP."""

NAMED: Final = {
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
"""Beginnings of the names of exceptions that carry no status, and the status that they stand for."""


class UserFunction(NamedTuple):
    """A function that is asked, and what the fixture calls it, for errors."""

    function: object
    name: str = "rageval_client"


def own_functions(client: object) -> dict[Role, UserFunction]:
    """Return the functions in the value of the fixture `rageval_client`, by the role of the model that they ask.

    It is one function for both, or a mapping with a function for "generator", "judge" or each; None means no function.

    Raises:
        CallableError: it is a mapping with other names.
    """
    if client is None:
        return {}
    if not isinstance(client, Mapping):
        return dict.fromkeys(ROLES, UserFunction(client))
    if not client or not client.keys() <= set(ROLES):
        found = ", ".join(map(repr, client)) or "nothing"
        raise CallableError(
            f"rageval_client is a mapping with {found}.\n"
            'Return {"generator": function, "judge": function}, one of these, or one function for both.'
        )
    return {role: UserFunction(function, f"rageval_client[{role!r}]") for role, function in client.items()}


class UserServer:
    """What the user's client reaches. Two with the same function and settings are one server.

    Raises:
        CallableError: the function cannot be called as a client is.
    """

    api: Api = "chat"
    key_name = ""
    key_command = ()
    in_flight: int | None = None
    flex = False

    def __init__(
        self,
        own: UserFunction,
        *,
        role: Role = "generator",
        policy: RequestPolicy | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        function, name = own
        if not callable(function):
            raise CallableError(
                f"{name} is {type(function).__name__}, which cannot be called.\n"
                f"Return a function {CALLED} that returns a chat completion, sync or async, such as "
                "litellm.acompletion or the method chat.completions.create of an openai client."
            )
        known = _parameters(function)
        if not accepts(function, model="", messages=[]) or not (known is None or "extra_body" in known):
            shown = (
                f"{getattr(function, '__qualname__', type(function).__name__)}{inspect.signature(function)}"
            )
            raise CallableError(
                f"{name} is {shown}, and is called with these arguments by name: {CALLED}.\n"
                "The parameters are temperature, max_tokens and others, which it passes on."
            )
        self.function = function
        self.name = name
        self.role = role
        self.policy = policy
        self.limits = limits
        self.base_url = _address(function)
        self.credentials = Credentials(Secret("", _secrets(function)))
        self._settings = (id(function), name, role, policy, limits)

    def __eq__(self, other: object) -> bool:
        return self._settings == other._settings if isinstance(other, UserServer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._settings)

    def __repr__(self) -> str:
        return f"OwnServer({self.base_url!r})"

    @property
    def label(self) -> str:
        """Its name in reports."""
        return self.base_url if self.role == "generator" else f"{self.base_url} ({self.role})"

    def client(self, *, timeout_s: float) -> "UserClient":
        """Return what calls the function."""
        return UserClient(self, timeout_s=timeout_s)

    async def address(self) -> str:
        """Return its name: the client knows the address."""
        return self.base_url

    async def renew_key(self, refused: Credentials) -> bool:  # noqa: ARG002 - as of a server
        """The client has its key."""
        return False

    def close(self) -> None:
        """Nothing was started."""


class UserClient(Client):
    """Calls the user's client, once for each attempt; its exceptions are read like the statuses of a server."""

    def __init__(self, server: UserServer, *, timeout_s: float) -> None:
        super().__init__(server, timeout_s=timeout_s)
        self._function = server.function
        self._name = server.name
        self._is_async = is_async(server.function)
        self._parameters = _parameters(server.function)

    async def complete(self, request: Request, parameters: Mapping[str, Any]) -> tuple[Reply, float | None]:
        """Call it, in a thread if it is sync, and return the reply in what it returns.

        Raises:
            RetryableError, Refused, ServerError, Unscored: as for a server.
            CallableError: it returned something else than a chat completion.
        """
        path = request.path if isinstance(request, ProxiedRequest) else None
        if path not in {None, CHAT}:
            raise self._only_chat(f"/v1{path}")
        outcome = await self._outcome(request, parameters)
        if isinstance(outcome, BaseException):
            raise outcome
        return self._reply(outcome, path), None

    async def forward(
        self,
        proxied: ProxiedRequest,
        method: str,
        content: bytes,  # noqa: ARG002 - as of a server
        headers: Mapping[str, str],  # noqa: ARG002 - likewise
    ) -> Answer:
        """Raise Unscored: there is no server to pass a request on to."""
        raise self._only_chat(f"{method} /v1{proxied.path}")

    def _only_chat(self, asked: str) -> Unscored:
        return Unscored(
            f"{self._where} gives chat completions only, and cannot answer {asked}: lead that client to a server."
        )

    async def close(self) -> None:
        """The client is the user's, and stays open."""

    async def _outcome(self, request: Request, parameters: Mapping[str, Any]) -> bytes | Exception:
        """Return the completion as JSON, or the error as a value."""
        messages = request.well_formed_messages()
        # The parameters are copied, since libraries change what they are given.
        arguments = {"model": request.model, "messages": messages, **copy.deepcopy(dict(parameters))}
        if self._parameters is not None:
            arguments = _known_first(arguments, self._parameters)
        call = functools.partial(self._function, **arguments)
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                returned = call() if self._is_async else await asyncio.to_thread(call)
                if inspect.isawaitable(returned):
                    returned = await returned
        except TimeoutError as error:
            own = not limit.expired()
            return (
                self._raised(request, error)
                if own
                else RetryableError(f"no reply in {self._timeout_s:g} s", "slow")
            )
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Unscored(f"{self._name} was cancelled")
        except (RagevalError, Unscored) as error:
            return error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - SystemExit would end the thread of the event loop
            return self._raised(request, error)
        return self._as_json(returned)

    def _as_json(self, returned: object) -> bytes | CallableError:
        try:
            completion = _fields(returned, COMPLETION)
            found = completion.get("choices")
            choices = [
                _fields(choice, CHOICE) for choice in (found if isinstance(found, list | tuple) else ())
            ]
            for choice in choices:
                choice["message"] = _fields(choice.get("message"), MESSAGE)
            completion |= {"choices": choices, "usage": _fields(completion.get("usage"), USAGE)}
            if choices:
                return json.dumps(completion, default=_jsonable).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError, RecursionError):
            pass
        shown = self._brief(f"{type(returned).__name__} {returned!r:.100}")
        return CallableError(
            f"{self._name} ({self._label}) returned {shown}, and not a chat completion.\n"
            "Return an object or a dict with choices[0].message.content, as OpenAI's clients do; not a stream."
        )

    def _raised(self, request: Request, error: BaseException) -> Exception:
        """Our error for an exception of the user's client, by the status that it carries."""
        status, text = _status(error), self._brief(summary_line(error))
        if status is not None and status >= 400:  # noqa: PLR2004 - as HTTP numbers errors
            answer = refusal_in(getattr(error, "body", None)) or {"message": str(error)}
            return self._by_status(request, status, answer, _headers(error))
        name = type(error).__name__
        if "Timeout" in name:
            return RetryableError(f"no reply: {text}", "slow")
        if isinstance(error, ConnectionError) or "Connect" in name:
            return RetryableError(f"no connection: {text}", "unreached")
        return Unscored(f"{self._name} raised {text}")

    @property
    def _label(self) -> str:
        return self._server.base_url.removeprefix("client:")

    @property
    def _where(self) -> str:
        return f"{self._name} ({self._label})"

    def _unknown(self, request: Request, detail: str) -> str:
        return (
            f"{self._where} does not know the model {request.model!r}: {detail}.\n"
            "Name one as this client names it, with --rageval-model (and --rageval-judge-model)."
        )

    def _refused(self, status: int, detail: str) -> str:
        return (
            f"{self._where} has no key that the server takes (status {status}): {detail}.\n"
            "Give it one, or leave the fixture out for the server of --rageval-base-url."
        )

    def unreachable(self, reason: str, attempts: int) -> ServerError:
        """Return the error for a client that never reached a server."""
        return ServerError(
            f"{self._where} reaches no server ({reason}; tried {attempts} times).\n"
            "Check the address that it uses. Replies received before are in the cache."
        )


def _parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """The parameters that a function takes by name; None where it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _known_first(arguments: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Split off the arguments that a method of the library does not have, for the server, into `extra_body`."""
    known = {name: value for name, value in arguments.items() if name in names}
    unknown = {name: value for name, value in arguments.items() if name not in names}
    extra = {"extra_body": {**unknown, **known.get("extra_body", {})}} if unknown else {}
    return known | extra


def _address(function: Any) -> str:
    """A name for a client that is the same in every run: part of request keys, without secrets.

    The text in its attribute `fingerprint`; the base URL of an `openai` client, as if it were named by option; else
    the function's module and name, as short as it can be imported.
    """
    fingerprint = getattr(function, "fingerprint", None)
    if isinstance(fingerprint, str):
        return f"client:{fingerprint}"
    if isinstance(function, functools.partial):
        return _address(function.func)
    base_url = getattr(_library_client(function), "base_url", None)
    if base_url is not None:
        return public_url(str(base_url)).rstrip("/")
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"client:{_module(named)}.{named.__qualname__}"


def _library_client(function: Any) -> Any:
    """The `openai` client that a function is a method of, if it is one."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(getattr(function, "__self__", None), "_client", None)


def _module(named: Any) -> str:
    """The shortest module that has an object under its name: where it is defined may change with a version."""
    parts = named.__module__.split(".")
    for n in range(1, len(parts)):
        module = ".".join(parts[:n])
        if getattr(sys.modules.get(module), named.__qualname__, None) is named:
            return module
    return str(named.__module__)


def _secrets(function: object) -> Iterator[str]:
    """Yield the keys that an exception of the client may quote: those in the environment, and an `openai` client's."""
    for name, value in os.environ.items():
        if is_secret_name(name):
            yield value.strip()
    key = getattr(_library_client(function), "api_key", None)
    if isinstance(key, str):
        yield key


def _fields(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """A part of a completion as a dict, whether it is one, a model of pydantic, or has attributes."""
    if isinstance(value, Mapping):
        return dict(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dict(dump())
    return {name: getattr(value, name, None) for name in names}


def _jsonable(value: Any) -> Any:
    if callable(dump := getattr(value, "model_dump", None)):
        return dump()
    return dict(value) if isinstance(value, Mapping) else getattr(value, "__dict__", None) or str(value)


def _causes(error: BaseException) -> Iterator[Any]:
    """Yield an exception, and those that it was made from."""
    yield error
    for cause in (getattr(error, "original_exception", None), error.__cause__):
        if isinstance(cause, BaseException):
            yield cause


def _status(error: BaseException) -> int | None:
    """The status of HTTP that an exception carries, or that its name stands for."""
    for cause in _causes(error):
        response = getattr(cause, "response", None)
        if isinstance(response, Mapping):
            # Of AWS's library.
            found = response.get("ResponseMetadata")
            values = [found.get("HTTPStatusCode")] if isinstance(found, Mapping) else []
        else:
            values = [getattr(cause, name, None) for name in STATUSES] + [
                getattr(response, "status_code", None)
            ]
        for value in values:
            if isinstance(value, int) and 100 <= value < 600:  # noqa: PLR2004 - the range of HTTP
                return int(value)
    name = type(error).__name__
    return next((status for beginning, status in NAMED.items() if name.startswith(beginning)), None)


def _headers(error: BaseException) -> dict[str, str]:
    """The headers of the response in an exception, by names in lower case."""
    for cause in _causes(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        if isinstance(headers, Mapping) and headers:
            return {str(name).lower(): str(value) for name, value in headers.items()}
    wait = getattr(error, "retry_after", None)
    return {} if wait is None else {"retry-after": str(wait)}
