"""The fixtures of `rageval cache`; `ask` makes the real client, connected to the scripted server."""

from collections.abc import Callable, Iterator

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.models.api import LLM
from pytest_rageval.models.client import RequestPolicy
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.server import RemoteServer
from tests.llm_server import LLMServer
from tests.unit.cli.conftest import cache, rageval

__all__ = ["ask", "cache", "rageval"]


@pytest.fixture
def ask(llm: LLMServer, tmp_path) -> Iterator[Callable[..., LLM]]:
    opened: list[LLM] = []

    def make(mode: str = "live") -> LLM:
        gateway = Gateway(
            GatewaySettings(tmp_path / "cache", mode=mode, policy=RequestPolicy(timeout_s=30, retries=0))
        )
        opened.append(LLM(gateway, BackgroundEventLoop(), lambda: (RemoteServer(llm.url, "sk-none"), "m1")))
        return opened[-1]

    yield make
    for client in opened:
        if client._loop.started:
            client._loop.submit(client._gateway.close()).result(60)
        client._loop.close()
