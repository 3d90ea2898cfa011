"""The proxy's HTTP server, on 127.0.0.1 in a thread of its own; clients need its token.

A run of pytest starts it before the conftests, or in its fixture, and `rageval gateway` for a command.
"""

import argparse
import os
import secrets
import signal
import socket
import subprocess  # nosec B404 # runs the command that the user names
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from types import FrameType
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from pytest_rageval.cli.command_session import command_settings, session_for
from pytest_rageval.cli.console import echo_err, format_count
from pytest_rageval.core.errors import InputError, RagevalError, ServerError, require
from pytest_rageval.extensions.application_calls.application import LOCAL_HOSTS, Application, Backend
from pytest_rageval.models import ConfiguredModels
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.models.client import Server, blocked_error
from pytest_rageval.models.usage import usage_entry, usage_lines
from pytest_rageval.options.settings import ROLES, Settings
from pytest_rageval.plugin.lazy_start import ENVIRONMENT, get_evaluation_plugin, resolve_settings
from pytest_rageval.plugin.runner import fail_on_error
from pytest_rageval.run.session import Session

STORED_AS: Final = "pytest_rageval.serving.server"  # see calls.STORED_AS
LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 1024
STOP_S: Final = 5.0  # how long `close` waits for the thread
KEEP_ALIVE_S: Final = 300
PURPOSE: Final = "The gateway"
TOKEN_BYTES: Final = 24

NOT_YET: Final = (
    "The gateway answers from the start of the session, and this call came while a conftest or a plugin was imported.\n"
    "Make it in a fixture or a test."
)
ENDED: Final = "The session of this gateway has ended."


class GatewayServer:
    """An OpenAI-compatible server for the application under test.

    It listens from its creation, and responds with an error until `connect` is called. `url` ends in /v1 and contains
    the token. The same URL without the token works if the client's API key is `token`.

    Attributes:
        token: the API key for clients whose URL has no token.

    Raises:
        InputError: the packages of the extra `gateway` are not installed.
        ServerError: another plugin forbids this test to open sockets.
    """

    def __init__(self) -> None:
        uvicorn = require("uvicorn", extra="gateway", purpose=PURPOSE)
        require("starlette", extra="gateway", purpose=PURPOSE)
        self.token: str = secrets.token_urlsafe(TOKEN_BYTES)
        self._backend: Backend | RagevalError = InputError(NOT_YET)
        # With an explicit protocol, asyncio disables Nagle's algorithm, which would delay each response by 40 ms.
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        except Exception as error:  # noqa: BLE001 - raised again
            raise blocked_error("The gateway cannot listen", LOOPBACK, error) or error from None
        self._socket.bind((LOOPBACK, 0))
        self._socket.listen(BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            Application(self.token, self._get_backend),
            log_config=None,
            access_log=False,
            log_level="critical",
            lifespan="off",
            ws="none",
            interface="asgi3",
            server_header=False,
            # Longer than clients keep idle connections: otherwise the server could close one while a client sends.
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,
        )
        # Import uvicorn's modules in this thread: the server's thread would import them while the run imports and
        # removes modules.
        config.load()
        self._server: Any = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="rageval-gateway", daemon=True
        )
        self._thread.start()

    def __repr__(self) -> str:
        return f"GatewayServer(port={self.port})"

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/v1"

    def connect(self, make_backend: Callable[[], Backend]) -> None:
        """From now on, answer requests from a backend; if it cannot be made, respond with the error."""
        try:
            backend = make_backend()
            self.refuse_itself(backend.server)
            self._backend = backend
        except RagevalError as error:
            self._backend = error

    def refuse(self, why: str) -> None:
        self._backend = InputError(why)

    def _get_backend(self) -> Backend:
        backend = self._backend
        if isinstance(backend, RagevalError):
            # Without the traceback of an earlier request.
            raise backend.with_traceback(None)
        return backend

    def disconnect(self) -> None:
        self.refuse(ENDED)

    def close(self) -> None:
        self.disconnect()
        self._server.should_exit = True
        self._thread.join(STOP_S)
        self._socket.close()

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """Within the block, set the environment variables that make clients use this server."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables().items():
                patch.setenv(name, value)
            yield

    def variables(self) -> dict[str, str]:
        """Return the environment variables that make clients use this server."""
        variables = {"OPENAI_BASE_URL": self.url, "OPENAI_API_BASE": self.url, "OPENAI_API_KEY": self.token}
        for name in ("NO_PROXY", "no_proxy"):
            # Clients must not use a proxy for this machine. They read either spelling.
            value = os.environ.get(name) or os.environ.get(name.swapcase(), "")
            variables[name] = ",".join(dict.fromkeys(filter(None, [*value.split(","), LOOPBACK])))
        return variables

    def refuse_itself(self, *servers: Server) -> None:
        urls = [urlsplit(server.base_url) for server in servers]
        if any(url.hostname in LOCAL_HOSTS and url.port == self.port for url in urls):
            raise ServerError(
                "The gateway would send requests to itself: the base URL of the model is its own.\n"
                "Name the real server with --rageval-base-url; or, where the fixture rageval_client calls models, as "
                "base_url of your client."
            )


FORWARDED_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNAL_STATUS: Final = 128  # shells add this to the number of the signal that ended a command


def gateway_command(options: argparse.Namespace) -> int:
    command: Sequence[str] = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise InputError("No command is named.\nWrite: rageval gateway -- COMMAND, such as python -m my_app.")
    settings = command_settings(options)
    with closing(session_for(settings)) as session, closing(GatewayServer()) as server:
        server.connect(lambda: Backend.of(session))
        status = _run_command(command, {**os.environ, **server.variables()})
        server.disconnect()
        _update_cassette(settings, session)
        echo_err(*usage_lines(usage_entry(session.usage)))
    return status


def _run_command(command: Sequence[str], env: dict[str, str]) -> int:
    try:
        process = subprocess.Popen(command, env=env)  # noqa: S603 - the user's own command
    except OSError as error:
        raise InputError(f"{command[0]!r} cannot be run: {error.strerror or error}.") from None
    with process, _forward_signals(process):
        status = process.wait()
    return SIGNAL_STATUS - status if status < 0 else status


@contextmanager
def _forward_signals(process: "subprocess.Popen[Any]") -> Iterator[None]:
    def forward(number: int, _: FrameType | None) -> None:
        # A terminal sends the SIGINT of Ctrl-C to both processes.
        if number != signal.SIGINT or not os.isatty(0):
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in FORWARDED_SIGNALS if hasattr(signal, name)]
    handlers = {number: signal.signal(number, forward) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _update_cassette(settings: Settings, session: Session) -> None:
    path = settings.cassette
    if path is None or "keeps replies" not in settings.effects:
        return
    used = session.gateway.used
    recorded = read_cassette(path) if path.exists() else {}
    write_cassette(path, {**recorded, **used}.values())
    new = len(used.keys() - recorded.keys())
    echo_err(f"cassette: {path} ({format_count(len(used), 'reply')} used, {new} of them new)")


PROXY: "pytest.StashKey[GatewayServer]" = pytest.StashKey()  # the proxy of this process


class ProxyPlugin:
    """The hooks of a run with a proxy; `cleanup` stops it and restores the environment."""

    def __init__(self, config: pytest.Config, server: GatewayServer) -> None:
        self._config = config
        self._server = server
        self.cleanup = ExitStack()
        self.cleanup.callback(server.close)
        config.stash[PROXY] = server
        config.add_cleanup(self.cleanup.close)
        config.pluginmanager.register(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Connect the proxy that was started before the conftests with the models."""
        if self._config.pluginmanager.has_plugin("dsession"):
            # The controller of pytest-xdist needed the proxy only for its conftests. Its workers inherit the
            # environment. With the environment restored, their own proxies call the real server.
            self.cleanup.close()
            return
        try:
            session = get_evaluation_plugin(self._config).process.session
        except pytest.fail.Exception as error:
            # Each test that needs the session has this error too.
            self._server.refuse(str(error))
        else:
            self._server.connect(lambda: Backend.of(session))

    def pytest_rageval_client(self, models: ConfiguredModels) -> None:
        """Refuse a client that would call the proxy, as the environment may tell it to: the proxy would call it."""
        self._server.refuse_itself(*map(models.server, ROLES))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Disconnect the proxy, before the session of the models is closed."""
        self._server.disconnect()


def start_proxy(config: pytest.Config) -> None:
    """Start the proxy, and point the variables of model clients in the environment to it until pytest's cleanup.

    UsageError is raised here, since without the proxy a conftest may fail, with an error that hides this one.
    """
    environ = dict(os.environ)
    try:
        if not resolve_settings(config, config.known_args_namespace, environ).value_of("gateway"):
            return
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[ENVIRONMENT] = environ
    ProxyPlugin(config, server).cleanup.enter_context(server.in_environment())


def proxy_to(config: pytest.Config, client: object) -> GatewayServer:
    """Return the proxy for model calls of the application under test; start it at the first call.

    A proxy that is started here calls `client`. A proxy that was started before the conftests calls the server of
    the options: the environment points the user's client to that proxy, so that it must not call the client.
    """
    if PROXY not in config.stash:
        server = fail_on_error(GatewayServer)
        ProxyPlugin(config, server)
        session = get_evaluation_plugin(config).process.session
        server.connect(lambda: Backend.of(session, client))
    return config.stash[PROXY]
