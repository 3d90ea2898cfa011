"""The gateway of a process that runs tests: started before the application is imported, if an option asks for it."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from pytest_rageval.errors import InputError

if TYPE_CHECKING:
    from pytest_rageval.serving.server import GatewayServer

__all__ = ["GATEWAY", "environment", "start_gateway"]

GATEWAY: "pytest.StashKey[GatewayServer]" = pytest.StashKey()
ENVIRONMENT = pytest.StashKey[Mapping[str, str]]()


def environment(config: pytest.Config) -> Mapping[str, str]:
    """The environment variables of the process, as they were before they led to its own gateway."""
    return config.stash.get(ENVIRONMENT, os.environ)


def start_gateway(config: pytest.Config) -> None:
    """Start the gateway, and lead clients that read the environment there until the process is done with pytest."""
    if _distributes(config):
        # Each worker has its own; they inherit this process's environment.
        return
    from pytest_rageval.serving.server import GatewayServer  # noqa: PLC0415 - few runs have one

    try:
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[GATEWAY] = server
    config.stash[ENVIRONMENT] = dict(os.environ)
    config.add_cleanup(server.close)
    stack = ExitStack()
    stack.enter_context(server.in_environment())
    config.add_cleanup(stack.close)


def _distributes(config: pytest.Config) -> bool:
    """Whether this is xdist's controller, which runs no tests."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        # A worker parses the arguments of the controller; its own role is set only after this.
        return False
    options = config.known_args_namespace
    started = getattr(options, "numprocesses", None) or getattr(options, "tx", None)
    return bool(started) and not getattr(options, "usepdb", False)
