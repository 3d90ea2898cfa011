"""The gateway of a process that runs tests: started before the application is imported, if an option asks for it."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from pytest_rageval.errors import InputError

if TYPE_CHECKING:
    from pytest_rageval.serving.server import GatewayServer

__all__ = ["GATEWAY", "environment", "start_gateway", "stop_gateway"]

GATEWAY: "pytest.StashKey[GatewayServer]" = pytest.StashKey()
ENVIRONMENT = pytest.StashKey[Mapping[str, str]]()
RUNNING = pytest.StashKey[ExitStack]()


def environment(config: pytest.Config) -> Mapping[str, str]:
    """The environment variables of the process, as they were before they led to its own gateway."""
    return config.stash.get(ENVIRONMENT, os.environ)


def start_gateway(config: pytest.Config) -> None:
    """Start the gateway, and lead clients that read the environment there until the process is done with pytest."""
    from pytest_rageval.serving.server import GatewayServer  # noqa: PLC0415 - few runs have one

    try:
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[GATEWAY] = server
    config.stash[ENVIRONMENT] = dict(os.environ)
    running = config.stash[RUNNING] = ExitStack()
    running.callback(server.close)
    running.enter_context(server.in_environment())
    config.add_cleanup(running.close)


def stop_gateway(config: pytest.Config) -> None:
    """Stop the gateway that was started, if any, and restore the environment."""
    config.stash.get(RUNNING, ExitStack()).close()
