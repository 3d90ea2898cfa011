"""`rageval gateway`: runs a command whose model calls are cached, limited, counted and replayed."""

import argparse
import os
import signal
import subprocess  # nosec B404 # runs the command that the user names
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any, Final

from pytest_rageval.cli.command_session import command_settings, session_for
from pytest_rageval.cli.console import echo_err, format_count
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.settings import Settings
from pytest_rageval.extensions.application_calls.application import Backend
from pytest_rageval.extensions.application_calls.server import GatewayServer
from pytest_rageval.models.cassette import read_cassette, write_cassette
from pytest_rageval.reports.build import usage_entry, usage_lines
from pytest_rageval.run.session import Session

FORWARDED_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")
SIGNAL_STATUS: Final = 128  # shells add this to the number of the signal that ended a command


def gateway_command(options: argparse.Namespace) -> int:
    """Run the command and print the usage of models; return the exit status of the command."""
    command: Sequence[str] = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise InputError("No command is named.\nWrite: rageval gateway -- COMMAND, such as python -m my_app.")
    settings = command_settings(options)
    with closing(session_for(settings)) as session, GatewayServer() as server:
        server.connect(lambda: Backend.of(session))
        status = _run_command(command, {**os.environ, **server.variables()})
        server.disconnect()
        _update_cassette(settings, session)
        for line in usage_lines(usage_entry(session.usage)):
            echo_err(line)
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
    """With --record, add the replies that the run used to the cassette."""
    path = settings.cassette
    if path is None or not settings.record:
        return
    used = session.gateway.used
    recorded = read_cassette(path) if path.exists() else {}
    write_cassette(path, {**recorded, **used}.values())
    new = len(used.keys() - recorded.keys())
    echo_err(f"cassette: {path} ({format_count(len(used), 'reply')} used, {new} of them new)")
