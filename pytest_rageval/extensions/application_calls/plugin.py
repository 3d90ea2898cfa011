"""The proxy in a run of pytest: started before the conftests, or by its fixture."""

import os
from contextlib import ExitStack

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.settings import ROLES
from pytest_rageval.extensions.application_calls.application import Backend
from pytest_rageval.extensions.application_calls.server import GatewayServer
from pytest_rageval.plugin.lazy_start import ENVIRONMENT, get_evaluation_plugin, resolve_settings
from pytest_rageval.plugin.runner import fail_on_error
from pytest_rageval.run.default_components import ConfiguredModels

PROXY: "pytest.StashKey[GatewayServer]" = pytest.StashKey()  # the proxy of this process


class ProxyPlugin:
    """The hooks of a run with a proxy; `cleanup` stops it and restores the environment."""

    def __init__(self, config: pytest.Config, server: GatewayServer, cleanup: ExitStack) -> None:
        self._config = config
        self._server = server
        self._cleanup = cleanup
        config.stash[PROXY] = server
        config.add_cleanup(cleanup.close)
        config.pluginmanager.register(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Connect the proxy that was started before the conftests with the models."""
        if self._config.pluginmanager.has_plugin("dsession"):
            # The controller of pytest-xdist needed the proxy only for its conftests. Its workers inherit the
            # environment. With the environment restored, their own proxies call the real server.
            self._cleanup.close()
            return
        try:
            session = get_evaluation_plugin(self._config).session
        except pytest.fail.Exception as error:
            # Each test that needs the session has this error too.
            self._server.refuse(str(error))
        else:
            self._server.connect(lambda: Backend.of(session))

    def pytest_rageval_client(self, models: ConfiguredModels) -> None:
        """Refuse a client that would call the proxy, which would call the client again.

        The environment may point the client to the proxy.
        """
        self._server.refuse_itself(*map(models.server, ROLES))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Disconnect the proxy, before the session of the models is closed."""
        self._server.disconnect()


def start_proxy(config: pytest.Config) -> None:
    """Start the proxy, and point the variables of model clients in the environment to it until pytest's cleanup."""
    environ = dict(os.environ)
    try:
        if not resolve_settings(config, config.known_args_namespace, environ).gateway:
            return
    except InputError:
        # The error is raised again when the plugin is configured.
        return
    try:
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    cleanup = ExitStack()
    cleanup.callback(server.close)
    cleanup.enter_context(server.in_environment())
    config.stash[ENVIRONMENT] = environ
    ProxyPlugin(config, server, cleanup)


def proxy_to(config: pytest.Config, client: object) -> GatewayServer:
    """Return the proxy for model calls of the application under test; start it at the first call.

    A proxy that is started here calls `client`. A proxy that was started before the conftests calls the server of
    the options: the environment points the user's client to that proxy, so that it must not call the client.
    """
    if PROXY not in config.stash:
        server = fail_on_error(GatewayServer)
        cleanup = ExitStack()
        cleanup.callback(server.close)
        ProxyPlugin(config, server, cleanup)
        session = get_evaluation_plugin(config).session
        server.connect(lambda: Backend.of(session, client))
    return config.stash[PROXY]
