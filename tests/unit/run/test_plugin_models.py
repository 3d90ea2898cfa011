"""What plugins add to the access to models: a source of the replies that are not stored, and providers of servers."""

from pathlib import Path
from typing import Any

import pluggy
import pytest

from pytest_rageval import hookspecs
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.models import ClientPart, ConfiguredModels, ProviderRequest, client_parts
from pytest_rageval.models.client import Server
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.sources import MakeSource, Source
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session


class _Echo(Source):
    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    async def obtain(self, server: Server, request: Request) -> Reply:  # noqa: ARG002 - no server is asked
        return Reply(request.messages[0]["content"])


class _Plugin:
    """Replaces the source of runs without `--rageval flex=true`."""

    @pluggy.HookimplMarker("pytest")
    def pytest_rageval_reply_source(self, settings: Settings) -> MakeSource | None:
        return None if settings.flex else _Echo


def test_a_plugin_replaces_the_source(tmp_path: Path) -> None:
    """It gets the cache, and answers what is not stored; None leaves the source to the core."""
    manager = pluggy.PluginManager("pytest")
    manager.add_hookspecs(hookspecs)
    manager.register(_Plugin())

    def session(**settings: Any) -> Session:
        return Session(Settings(cache_dir=tmp_path, **settings), registry=Registry(manager.hook))

    server = RemoteServer("http://127.0.0.1:9/v1", "key")
    request = Request(server.base_url, "m", ({"role": "user", "content": "Why?"},))
    one, other = session(), session(flex=True)
    try:
        assert one.loop.run(one.gateway.get_reply(server, request)).text == "Why?"
        source = one.gateway.source
        assert isinstance(source, _Echo)
        assert source.parts[0] is one.gateway.cache
        assert not isinstance(other.gateway.source, _Echo)
    finally:
        one.close()
        other.close()


def test_each_role_may_have_its_own() -> None:
    assert client_parts(None) == {}
    assert client_parts(len) == {"generator": (len, "rageval_client"), "judge": (len, "rageval_client")}
    assert client_parts({"judge": len}) == {"judge": (len, "rageval_client['judge']")}
    for wrong in ({}, {"both": len}):
        with pytest.raises(CallableError, match=r"^rageval_client is a mapping with (nothing|.both.)\.\n"):
            client_parts(wrong)


class _Local(RemoteServer):
    def __init__(self, request: ProviderRequest) -> None:
        super().__init__("http://127.0.0.1:9/v1", policy=request.policy, limits=request.limits)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def _models(registry: Registry, client: object = None, **settings: Any) -> ConfiguredModels:
    def gateway() -> Any:
        raise AssertionError

    return ConfiguredModels(Settings(**settings), gateway, client=client, providers=registry.providers)


def test_a_provider_makes_the_server_of_a_model() -> None:
    """It is made once, with the settings of its role, and closed; other models stay at the server of the options."""
    registry = Registry()
    registry.add_provider(lambda request: (request.model or "").startswith("local:"), _Local)
    models = _models(registry, model="local:tiny", judge_model="judge", timeout=7)
    server = models.server("generator")
    assert isinstance(server, _Local)
    assert models.server("generator") is server
    assert (server.policy and server.policy.timeout_s) == 7
    assert not isinstance(models.server("judge"), _Local)
    models.close()
    assert server.closed == 1


def test_a_provider_adapts_a_kind_of_client() -> None:
    """It is tried before those that were added earlier, and gets the client of the role, with its name."""
    registry, found = Registry(), []
    other = RemoteServer("http://127.0.0.1:8/v1")
    registry.add_provider(lambda request: request.client is not None, lambda _: other)

    def matches(request: ProviderRequest) -> bool:
        found.append(request.client)
        return request.client is not None and isinstance(request.client.value, dict)

    registry.add_provider(matches, _Local)
    models = _models(registry, {"generator": {"region": "eu"}, "judge": lambda **_: None}, model="m")
    assert isinstance(models.server("generator"), _Local)
    assert models.server("judge") is other
    assert found[0] == ClientPart({"region": "eu"}, "rageval_client['generator']")


def test_without_a_provider_the_error_says_so() -> None:
    registry = Registry()
    registry.providers.clear()
    with pytest.raises(InputError, match=r"^No extension calls the client in rageval_client\."):
        _models(registry, len, model="m")
    with pytest.raises(InputError, match=r"^No extension provides the embedded model\."):
        _ = _models(registry).generator
    assert _models(registry, model="embedded").server("generator").base_url == "https://api.openai.com/v1"
