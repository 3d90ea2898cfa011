"""`rageval gateway`: runs a command whose model calls are cached, limited, counted and replayed."""

import argparse
import os
import signal
import subprocess  # nosec B404 # runs the command that the user names
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pytest_rageval.cli.console import count, note
from pytest_rageval.cli.plugin_stores import registry_for
from pytest_rageval.config import OPTIONS, Settings, resolve
from pytest_rageval.errors import InputError
from pytest_rageval.llm.cassette import read_cassette, write_cassette
from pytest_rageval.llm.servers.rate_limits import StallNotifier
from pytest_rageval.reports.results import usage_entry, usage_lines
from pytest_rageval.serving.server import GatewayServer
from pytest_rageval.session import Session

__all__ = ["gateway_command"]

SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")
KILLED: Final = 128  # added to the number of the signal that ended the command, as shells do


def gateway_command(options: argparse.Namespace) -> int:
    """Run the command, and say what it asked; return its exit status."""
    command: Sequence[str] = options.command[options.command[:1] == ["--"] :]
    if not command:
        raise InputError("No command is named.\nWrite: rageval gateway -- COMMAND, such as python -m my_app.")
    here = Path.cwd()
    given = {option.name: getattr(options, option.name, None) for option in OPTIONS}
    settings = resolve(given, {}, os.environ, invoked_in=here, root=here)
    session_of_run = Session(
        settings, registry=registry_for(settings.cache_location), tick=StallNotifier(note)
    )
    with closing(session_of_run) as session, GatewayServer() as server:
        server.connect(session.backend)
        status = _status(command, {**os.environ, **server.variables()})
        server.disconnect()
        _record(settings, session)
        for line in usage_lines(usage_entry(session.usage)):
            note(line)
    return status


def _status(command: Sequence[str], env: dict[str, str]) -> int:
    """Run a command to its end; signals to this process are passed on to it."""
    try:
        process = subprocess.Popen(command, env=env)  # noqa: S603 - the user's own command
    except OSError as error:
        raise InputError(f"{command[0]!r} cannot be run: {error.strerror or error}.") from None
    with process, _passed_on(process):
        status = process.wait()
    return KILLED - status if status < 0 else status


@contextmanager
def _passed_on(process: "subprocess.Popen[Any]") -> Iterator[None]:
    def forward_signal(number: int, _: FrameType | None) -> None:
        # From a terminal, Ctrl-C has reached the command itself.
        if number != signal.SIGINT or not os.isatty(0):
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.signal(number, forward_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _record(settings: Settings, session: Session) -> None:
    """Write the replies of the run to the cassette with --record, and keep those that are already in it."""
    path = settings.cassette
    if path is None or not settings.record:
        return
    used = session.gateway.used
    kept = read_cassette(path) if path.exists() else {}
    write_cassette(path, {**kept, **used}.values())
    new = len(used.keys() - kept.keys())
    note(f"cassette: {path} ({count(len(used), 'reply')} used, {new} of them new)")
