"""Settings and session of a command that sends requests to models: `judge`, `gateway`, `evalset generate`/`nuggets`."""

import argparse
import os
from pathlib import Path
from typing import Any

from pytest_rageval.cli.console import echo, echo_err, format_count
from pytest_rageval.cli.plugin_stores import stores_for
from pytest_rageval.lib.secret import StoreURL
from pytest_rageval.models.rate_limits import StallNotifier
from pytest_rageval.options import all_options
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.registry import Registry
from pytest_rageval.run.session import Session


def command_settings(options: argparse.Namespace, **overrides: Any) -> Settings:
    """Return the settings from the command's arguments, pyproject.toml, the environment and the defaults."""
    values = {option.name: getattr(options, option.name, None) for option in all_options()} | overrides
    here = Path.cwd()
    return resolve_options(values, {}, os.environ, invoked_in=here, root=here)


def session_for(settings: Settings) -> Session:
    """Return a session that reports stalled requests on stderr; the caller closes it."""
    return Session(settings, registry=registry_for(settings.cache_location), tick=StallNotifier(echo_err))


def registry_for(place: Path | StoreURL) -> Registry:
    registry = Registry()
    registry.stores.update(stores_for(place))
    return registry


def echo_request_count(session: Session) -> None:
    """Print the number of replies that the session requested, and how many were cached and live."""
    usage = session.usage
    echo(f"{format_count(usage.requests, 'reply')}: {usage.cached:,} cached, {usage.live:,} live")
