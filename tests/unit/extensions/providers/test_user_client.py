"""The user's own client instead of a server."""

import asyncio
import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from pytest_rageval.core.errors import CallableError, ContextOverflow, RagevalError, ServerError, Unscored
from pytest_rageval.extensions.providers.user_client import UserServer
from pytest_rageval.models import ClientPart
from pytest_rageval.models import sender as sender_module
from pytest_rageval.models.client import RequestPolicy
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from tests.unit.models.scripted import Answer, ScriptedServer, completion, error

POLICY = RequestPolicy(concurrency=4, timeout_s=30, retries=1)
PARAMETERS = {"temperature": 0.5, "max_tokens": 16}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "FIRST_DELAY_S", 0.005)


def request(server: UserServer, text: str = "Why?", **parameters: Any) -> Request:
    return Request(server.base_url, "m", ({"role": "user", "content": text},), PARAMETERS | parameters)


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Any]:
    def asked(
        function: Any, *texts: str, policy: RequestPolicy = POLICY, **access: Any
    ) -> tuple[list[Any], Gateway]:
        server = UserServer(ClientPart(function))
        gateway = Gateway(GatewaySettings(tmp_path / "cache", policy=policy, **access))

        async def main() -> list[Any]:
            try:
                asking = (gateway.get_reply(server, request(server, text)) for text in texts or ("Why?",))
                return await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), 60)
            finally:
                await gateway.close()

        return asyncio.run(main()), gateway

    return asked


class Stub:
    def __init__(self, *said: Any) -> None:
        self.said = list(said) or [completion()]
        self.calls: list[dict[str, Any]] = []

    async def ask(self, model: str, messages: list[Any], **parameters: Any) -> Any:
        self.calls.append({"model": model, "messages": messages, **parameters})
        said = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(said, BaseException):
            raise said
        return said


class Dumped:
    def __init__(self, record: Any) -> None:
        self.record = record

    def model_dump(self) -> Any:
        return self.record


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: plain(part) for name, part in value.items()})
    return [plain(part) for part in value] if isinstance(value, list) else value


REPLY = Reply("fine", "m-2024", "stop", 10, 2)


@pytest.mark.parametrize("shape", [dict, Dumped, plain])
def test_a_reply_is_read_whatever_its_shape(ask: Any, shape: Any) -> None:
    """A reply may be a dict, a pydantic model or an object with attributes; it is cached and requested once."""
    stub = Stub(shape(completion()))
    replies, gateway = ask(stub.ask, "Why?", "Why?", "How?")
    assert replies == [REPLY] * 3
    assert stub.calls == [
        {"model": "m", "messages": [{"role": "user", "content": text}], **PARAMETERS}
        for text in ("Why?", "How?")
    ]
    assert (gateway.usage.live, gateway.usage.tokens_in) == (2, 20)
    again, _ = ask(stub.ask, mode="replay")
    assert (again, len(stub.calls)) == ([REPLY], 2)


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
        {"content": "<think>Why?</think>fine"},
        {"content": "fine", "reasoning_content": "Why?"},
    ],
)
def test_fields_of_a_message_are_read_as_from_a_server(ask: Any, message: Any) -> None:
    (reply,), _ = ask(Stub(plain(completion(message=message))).ask)
    assert reply.has_reasoning == ("tool_calls" not in message)
    assert (reply.answer == "fine") == reply.has_reasoning
    assert bool(reply.tool_calls) != reply.has_reasoning


def test_a_sync_function_runs_in_threads(ask: Any) -> None:
    """Calls of a sync client run in several threads at once, and none blocks the event loop."""
    barrier, threads = threading.Barrier(3), set()

    def client(model: str, messages: list[Any], **_: Any) -> dict[str, Any]:
        assert (model, len(messages)) == ("m", 1)
        threads.add(threading.current_thread())
        barrier.wait(30)
        return completion()

    replies, _ = ask(client, "a", "b", "c")
    assert replies == [REPLY] * 3
    assert threading.current_thread() not in threads


def test_a_sync_function_may_return_a_coroutine(ask: Any) -> None:
    stub = Stub()

    def client(**kwargs: Any) -> Any:
        return stub.ask(**kwargs)

    replies, _ = ask(client)
    assert replies == [REPLY]


class Status(Exception):  # noqa: N818 - short
    def __init__(self, status_code: int, message: str = "scripted", headers: Any = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.response = SimpleNamespace(status_code=status_code, headers=headers or {})


class ClientError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"An error occurred (ValidationException) when calling Converse: {message}")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status}}


class RateLimitError(Exception):
    retry_after = "0.01"


class APITimeoutError(Exception):
    """An exception of a library that has no status."""


class APIConnectionError(Exception):
    """An exception of a library that has no status."""


def wrapped(cause: Exception) -> Exception:
    outer = RuntimeError("it failed")
    outer.original_exception = cause
    return outer


@pytest.mark.parametrize(
    "raised",
    [
        Status(429, headers={"Retry-After": "0.01"}),
        Status(503),
        Status(500),
        RateLimitError("slow down"),
        wrapped(Status(429, headers={"retry-after": "0.01"})),
        ClientError(429, "Too many requests"),
        APITimeoutError("late"),
        TimeoutError("late"),
        APIConnectionError("gone"),
        ConnectionResetError("gone"),
    ],
    ids=repr,
)
def test_what_may_pass_is_tried_again(ask: Any, raised: Exception) -> None:
    stub = Stub(raised, completion())
    replies, _ = ask(stub.ask)
    assert (replies, len(stub.calls)) == ([REPLY], 2)


@pytest.mark.parametrize(
    "raised",
    [
        Status(400, "`temperature` is deprecated for this model."),
        ClientError(
            400, "The model returned the following errors: `temperature` is deprecated for this model."
        ),
        type("UnsupportedParamsError", (Exception,), {})("x does not support parameters: ['temperature']"),
    ],
    ids=repr,
)
def test_a_refused_parameter_is_left_out(ask: Any, raised: Exception) -> None:
    stub = Stub(raised, completion())
    (reply,), _ = ask(stub.ask)
    assert reply.without == "temperature"
    assert "temperature" not in stub.calls[1]


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (Status(400, "no such thing"), Unscored, "the server answered 400: no such thing"),
        (
            Status(400, "This model's maximum context length is 10 tokens"),
            ContextOverflow,
            "the prompt is longer",
        ),
        (
            LookupError("no model"),
            Unscored,
            "rageval_client raised LookupError: no model (test_user_client.py:",
        ),
        (SystemExit(3), Unscored, "rageval_client raised SystemExit: 3 (test_user_client.py:"),
        (asyncio.CancelledError(), Unscored, "rageval_client raised CancelledError: (test_user_client.py:"),
        (GeneratorExit("x"), Unscored, "rageval_client raised GeneratorExit: x (test_user_client.py:"),
        (Unscored("not today"), Unscored, "not today"),
        (Status(401, "wrong key"), ServerError, "has no key that the server takes (status 401): wrong key."),
        (Status(404, "no such model"), ServerError, "does not know the model 'm': no such model."),
        (
            Status(404, "This model is only supported in v1/responses and not in v1/chat/completions."),
            ServerError,
            "has no chat completions for the model 'm'",
        ),
    ],
    ids=repr,
)
def test_other_exceptions_are_read_too(ask: Any, raised: BaseException, kind: Any, text: str) -> None:
    stub = Stub(raised)
    (outcome,), _ = ask(stub.ask)
    assert isinstance(outcome, kind)
    assert text in str(outcome)
    if isinstance(outcome, RagevalError):
        assert str(outcome).startswith("rageval_client (")
    assert len(stub.calls) == 1


def test_a_client_that_takes_too_long_is_cancelled(ask: Any) -> None:
    cancelled = []

    async def client(model: str, **_: Any) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(model)
            raise

    (outcome,), _ = ask(client, policy=RequestPolicy(timeout_s=0.02, retries=0))
    assert (str(outcome), cancelled) == ("no reply in 0.02 s, 1 time", ["m"])


async def test_closing_cancels_what_is_in_flight(tmp_path: Path) -> None:
    started, cancelled = asyncio.Event(), []

    async def client(model: str, **_: Any) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.append(model)

    server, gateway = UserServer(ClientPart(client)), Gateway(GatewaySettings(tmp_path / "cache"))
    asking = asyncio.create_task(gateway.get_reply(server, request(server)))
    await asyncio.wait_for(started.wait(), 30)
    await gateway.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert cancelled == ["m"]


@pytest.mark.parametrize(
    "returned", ["fine", None, {"text": "fine"}, object(), {"choices": []}, {"choices": "no"}]
)
def test_a_result_that_is_not_a_completion_is_an_error(ask: Any, returned: Any) -> None:
    (outcome, *_), gateway = ask(Stub(returned).ask, "a", "b")
    assert isinstance(outcome, CallableError)
    assert f"returned {type(returned).__name__} " in str(outcome)
    assert "choices[0].message.content" in str(outcome)
    assert gateway.usage.live == 0


def test_no_key_is_shown(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", "of-the-environment")
    (outcome,), _ = ask(Stub(ValueError("Bearer of-the-environment")).ask)
    assert str(outcome).startswith("rageval_client raised ValueError: Bearer *** (")
    client = openai.AsyncOpenAI(api_key="of-the-library", base_url="http://127.0.0.1:9/v1")
    server = UserServer(ClientPart(functools.partial(client.chat.completions.create, store=False)))
    assert server.credentials.redact("of-the-library") == "***"
    assert "of-the-library" not in repr(server)


async def test_the_method_of_a_library_has_the_address_of_its_client(tmp_path: Path) -> None:
    """Its replies have the same keys as those of that base URL."""
    with ScriptedServer(Answer(400, error("Unknown parameter: 'top_k'.")), "fine") as scripted:
        gateway = Gateway(GatewaySettings(tmp_path / "cache", policy=POLICY))
        client = openai.AsyncOpenAI(api_key="sk-nobody", base_url=f"{scripted.url}/", max_retries=0)
        server = UserServer(ClientPart(client.chat.completions.create))
        assert server.base_url == scripted.url
        reply = await gateway.get_reply(server, request(server, top_k=3))
        await gateway.close()
        await client.close()
    assert reply.without == "top_k"
    assert [body.get("top_k") for body in scripted.requests] == [3, None]


async def module_level(model: str, messages: list[Any], **parameters: Any) -> Any:
    """A client with a name."""


def test_the_name_of_a_client_is_the_same_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(function: Any) -> str:
        return UserServer(ClientPart(function)).base_url

    assert named(module_level) == f"client:{__name__}.module_level"
    assert named(functools.partial(module_level, api_key="sk-secret")) == f"client:{__name__}.module_level"
    monkeypatch.setitem(sys.modules, "tests", SimpleNamespace(module_level=module_level))
    assert named(module_level) == "client:tests.module_level"
    fingerprinted = functools.partial(module_level)
    fingerprinted.fingerprint = "bedrock, eu-west-1"
    assert named(fingerprinted) == "client:bedrock, eu-west-1"


@pytest.mark.parametrize(
    ("function", "expected_message"),
    [
        (
            openai.AsyncOpenAI(api_key="k"),
            "such as litellm.acompletion or the method chat.completions.create of an openai client",
        ),
        (
            lambda model, messages: (model, messages),
            "(model, messages), and is called with these arguments by name",
        ),
    ],
)
def test_what_cannot_be_called_so_is_an_error(function: Any, expected_message: str) -> None:
    with pytest.raises(CallableError) as caught:
        UserServer(ClientPart(function))
    assert expected_message in str(caught.value)
