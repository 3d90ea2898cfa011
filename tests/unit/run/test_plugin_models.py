"""What plugins add to the access to models: a source of the replies that are not stored."""

from pathlib import Path
from typing import Any

import pluggy

from pytest_rageval import hookspecs
from pytest_rageval.core.options import Settings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer, Server
from pytest_rageval.models.sources import MakeSource, Source
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session


class _Echo(Source):
    """Returns the text of each request."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    async def obtain(self, server: Server, request: Request) -> Reply:  # noqa: ARG002 - no server is asked
        return Reply(request.messages[0]["content"])


class _Plugin:
    """Replaces the source of runs without `--rageval-flex`."""

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
