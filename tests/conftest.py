"""What all tests share: no network beyond this machine, no key of the developer's."""

import functools
import gc
import importlib.metadata
import os
import pkgutil
import socket
import ssl
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

import pytest_rageval

pytest_plugins = ["pytester"]

# How long an example takes is the machine's matter: one that pauses for a moment falsifies nothing.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("patient")

OWN = (
    "OPENAI_",
    "RAGEVAL_",
    "GITHUB_",
    "OTEL_",
    "CI",
    "BUILD_NUMBER",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
"""How the names begin of what a developer's environment may say to the code under test."""

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the garbage collection: it stays to the end."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _own_settings() -> Iterator[None]:
    """Forget what the environment says to the code under test, before any other fixture runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith(OWN) and name != "RAGEVAL_TEST_DATA":
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections that leave the machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test connects to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    # Every client reads all certificate authorities, which takes longer than most tests.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)


@pytest.fixture(scope="session")
def _inner_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prepare this process for runs of pytest in it.

    A run forgets what it imported. The next one would import it again, a second each, and numpy and its like
    cannot be imported twice: so all of it is imported before the first run. A run also reads the metadata of
    every installed package, more than once: these are read once.
    """
    for module in pkgutil.walk_packages(pytest_rageval.__path__, "pytest_rageval."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in ("anyio._backends._asyncio", "httpcore2", "openai", "scipy.optimize", "scipy.stats"):
        import_module(name)
    # Of the extra dense, which only slow tests need: it takes seconds.
    if find_spec("torch") and any(item.get_closest_marker("slow") for item in request.session.items):
        import_module("torch")

    packages = list(importlib.metadata.distributions())
    distributions, kind = importlib.metadata.distributions, importlib.metadata.Distribution
    with pytest.MonkeyPatch.context() as patch:
        for name in ("entry_points", "files"):
            patch.setattr(kind, name, property(functools.cache(getattr(kind, name).fget)))
        patch.setattr(
            importlib.metadata, "distributions", lambda **which: distributions(**which) if which else packages
        )
        yield


@pytest.fixture
def pytester(_inner_runs: None, pytester: pytest.Pytester) -> pytest.Pytester:
    """Prepare the process for many runs in it."""
    return pytester


@pytest.fixture
def llm() -> Iterator["LLMServer"]:
    """A running chat server with the scripted model."""
    with LLMServer() as server:
        yield server


from tests.llm_server import LLMServer  # noqa: E402 - after the fixtures that it has no part in
