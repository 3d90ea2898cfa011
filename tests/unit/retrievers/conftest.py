"""What the tests of retrieval with a model share: the real client, at the scripted server."""

from collections.abc import Callable, Iterator

import pytest

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.llm.api import LLM
from pytest_rageval.llm.gateway import Gateway, GatewaySettings
from pytest_rageval.llm.servers.server import RemoteServer, RequestPolicy
from tests.llm_server import LLMServer


@pytest.fixture
def ask(llm: LLMServer, tmp_path) -> Iterator[Callable[..., LLM]]:
    """Makes clients, each of a run of its own on the same cache folder."""
    opened: list[LLM] = []

    def made(mode: str = "live") -> LLM:
        gateway = Gateway(
            GatewaySettings(tmp_path / "cache", mode=mode, policy=RequestPolicy(timeout_s=30, retries=0))
        )
        opened.append(LLM(gateway, BackgroundEventLoop(), lambda: (RemoteServer(llm.url, "sk-none"), "m1")))
        return opened[-1]

    yield made
    for client in opened:
        if client._loop.started:
            client._loop.submit(client._gateway.close()).result(60)
        client._loop.close()
