"""What all tests share: no network beyond this machine, no key of the developer's."""

import contextlib
import os
import socket
from collections.abc import Iterator

import anyio._backends._asyncio  # noqa: F401 - see below
import httpcore2  # noqa: F401
import numpy as np  # noqa: F401
import openai  # noqa: F401
import pytest
import scipy.special  # noqa: F401
from hypothesis import HealthCheck, settings

# pytester takes every module away that a run inside imported, and numpy and its like cannot be
# imported twice: so they are here before the first of them.
with contextlib.suppress(ImportError):
    import torch  # noqa: F401 - of the extra dense

pytest_plugins = ["pytester"]

# How long an example takes is the machine's matter: one that pauses for a moment falsifies nothing.
settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("patient")

OWN = ("OPENAI_", "RAGEVAL_", "CI", "BUILD_NUMBER", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""How the names begin of what a developer's environment may say to the code under test."""

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections that leave the machine, and forget the developer's own settings."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test connects to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    for name in list(os.environ):
        if name.upper().startswith(OWN) and name != "RAGEVAL_TEST_DATA":
            monkeypatch.delenv(name)


@pytest.fixture
def llm() -> Iterator["LLMServer"]:
    """A running chat server with the scripted model."""
    with LLMServer() as server:
        yield server


from tests.llm_server import LLMServer  # noqa: E402 - after the fixtures that it has no part in
