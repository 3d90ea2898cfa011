"""`LLM`, the interface of the model for the user's own code."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.models.api import LLM, REFUSED
from pytest_rageval.models.client import RequestPolicy, Server
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.scripted import ScriptedServer


def _echo(body: dict[str, Any]) -> str:
    return f"to {body['messages'][-1]['content']}"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(_echo) as started:
        yield started


@pytest.fixture
def make(server: ScriptedServer, tmp_path: Path) -> Iterator[Callable[..., LLM]]:
    opened: list[LLM] = []

    def default() -> tuple[Server, str]:
        return RemoteServer(server.url, "sk-secret-key-of-mine"), "default-model"

    def made(chosen: Callable[[], tuple[Server, str]] = default) -> LLM:
        gateway = Gateway(GatewaySettings(tmp_path / "cache", policy=RequestPolicy(timeout_s=30, retries=0)))
        opened.append(LLM(gateway, BackgroundEventLoop(), chosen))
        return opened[-1]

    yield made
    for llm in opened:
        if llm._loop.started:
            llm._loop.submit(llm._gateway.close()).result(60)
        llm._loop.close()


@pytest.fixture
def model(make: Callable[..., LLM]) -> LLM:
    return make()


def test_a_text_is_one_users_message(server: ScriptedServer, model: LLM) -> None:
    assert model.complete("Why?") == Reply("to Why?", "m-2024", "stop", 10, 2)
    assert server.requests == [{"model": "default-model", "messages": [{"role": "user", "content": "Why?"}]}]


def test_a_conversation_is_sent_as_it_is(server: ScriptedServer, model: LLM) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?", "name": "Ann"},
        {"role": "assistant", "content": "Because."},
        {"role": "user", "content": "Sure?"},
    ]
    model.complete(messages, model="other", temperature=0, max_tokens=5, stop=["\n"])
    assert server.requests == [
        {"model": "other", "messages": messages, "temperature": 0, "max_tokens": 5, "stop": ["\n"]}
    ]


def test_a_reply_is_paid_once(server: ScriptedServer, make: Callable[..., LLM]) -> None:
    for model in (make(), make()):
        model.complete("Why?", temperature=0, seed=1)
        model.complete([{"content": "Why?", "role": "user"}], seed=1, temperature=0)
        assert len(server.requests) == 1
    for sample in (0, 1, 1):
        make().complete("Why?", sample=sample, temperature=0, seed=1)
    assert len(server.requests) == 2
    assert server.requests[0] == server.requests[1]


def test_from_many_threads(server: ScriptedServer, model: LLM) -> None:
    model.complete("0")
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda number: model.complete(f"{number % 20}").text, range(200)))
    assert replies == [f"to {number % 20}" for number in range(200)]
    assert len(server.requests) == 20


def test_first_requests_of_many_threads_share_a_loop() -> None:
    async def where() -> int:
        return threading.get_ident()

    for _ in range(30):
        loop, all_here = BackgroundEventLoop(), threading.Barrier(8, timeout=60)

        def ask(loop: BackgroundEventLoop = loop, all_here: threading.Barrier = all_here) -> int:
            all_here.wait()
            return loop.submit(where()).result(60)

        with ThreadPoolExecutor(8) as pool:
            threads = {future.result(60) for future in [pool.submit(ask) for _ in range(8)]}
        loop.close()
        assert len(threads) == 1


def test_from_another_event_loop(server: ScriptedServer, model: LLM) -> None:
    async def main() -> list[Reply]:
        return await asyncio.gather(*(model.acomplete(f"{number % 5}") for number in range(50)))

    replies = asyncio.run(asyncio.wait_for(main(), 60))
    assert [reply.text for reply in replies] == [f"to {number % 5}" for number in range(50)]
    assert len(server.requests) == 5


def test_from_the_runs_own_event_loop(model: LLM) -> None:
    assert model._loop.run(model.acomplete("Why?")).text == "to Why?"


def test_from_the_thread_that_serves_the_run(model: LLM) -> None:
    """`complete` works in a worker thread of the run's event loop, in which a sync generator of the user is called."""

    async def run() -> list[Reply]:
        return await asyncio.gather(*(model._loop.call(model.complete, text) for text in ("a", "b")))

    assert [reply.text for reply in model._loop.run(run())] == ["to a", "to b"]


def test_sync_in_async_code_is_an_error(server: ScriptedServer, model: LLM) -> None:
    """`complete` would deadlock in the run's own event loop: it raises an error that names `acomplete`."""

    async def run() -> Reply:
        return model.complete("Why?")

    with pytest.raises(CallableError, match=r"in async code\.\nWrite: await rageval_llm\.acomplete"):
        model._loop.run(run())
    assert server.requests == []


async def test_a_cancelled_waiter_affects_no_other(server: ScriptedServer, model: LLM) -> None:
    cancelled_task, waiting_task = (asyncio.create_task(model.acomplete("Why?")) for _ in range(2))
    await asyncio.sleep(0.005)
    cancelled_task.cancel()
    assert (await asyncio.wait_for(waiting_task, 60)).text == "to Why?"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("messages", "arguments", "message"),
    [
        *(
            ("Why?", {name: 1}, rf"^rageval_llm\.complete\(\) does not take {name!r}: {re.escape(use)}\.$")
            for name, use in sorted(REFUSED.items())
        ),
        *(
            (messages, {}, r"(?s)not a list of messages\.\nWrite a text, or")
            for messages in ([], [{}], [{"content": "Why?"}], ["Why?"], [None], [[]], None, 5)
        ),
        # The reply would be paid for under a separate key.
        ("Why?", {"sample": -1}, "sample=-1"),
        ("Why?", {"sample": "1"}, "sample='1'"),
        ("Why?", {"sample": True}, "sample=True"),
        ("Why?", {"model": 5}, "model=5"),
        ("Why?", {"model": ""}, "model=''"),
    ],
)
def test_what_requests_cannot_have_is_refused(server, model, messages, arguments, message):
    with pytest.raises(InputError, match=message):
        model.complete(messages, **arguments)
    assert server.requests == []


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, b"bytes"])
def test_what_json_cannot_express_is_refused(server: ScriptedServer, model: LLM, value: Any) -> None:
    with pytest.raises(InputError, match="what JSON cannot express"):
        model.complete("Why?", seed=value)
    with pytest.raises(InputError, match="what JSON cannot express"):
        model.complete([{"role": "user", "content": value}])
    assert server.requests == []


def test_no_default_is_the_users_error(make: Callable[..., LLM]) -> None:
    def none() -> tuple[Server, str]:
        raise InputError("Name a model.")

    with pytest.raises(InputError, match=r"Name a model\."):
        make(none).complete("Why?")


def test_the_key_is_sent_and_written_nowhere(server: ScriptedServer, model: LLM, tmp_path: Path) -> None:
    model.complete("Why?")
    assert server.keys == {"Bearer sk-secret-key-of-mine"}
    model._loop.submit(model._gateway.close()).result(60)
    for file in (tmp_path / "cache").iterdir():
        assert b"sk-secret-key-of-mine" not in file.read_bytes()


def test_results_of_functions_are_cached_with_replies(server, make):
    """A cached function that calls the model is computed once; the second session calls neither of them."""
    calls = []

    def summary(model: LLM, text: str) -> str:
        calls.append(text)
        return model.complete(f"Sum up: {text}").text

    for model in (make(), make()):

        def summed(text: str, model: LLM = model) -> str:
            return summary(model, text)

        assert model.cached(summed, version="1")("abc") == "to Sum up: abc"
    assert calls == ["abc"]
    assert json.dumps(server.requests).count("Sum up") == 1
