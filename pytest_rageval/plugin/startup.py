"""Starts the plugin, in a run that has something for it to do: its settings, its gateway, and the hooks of its modes.

`runner` has the hooks of tests, `rageval_fixture` the object that tests receive, `batches` the hooks of runs in
batches, `artifacts` the files of a run, `summary` its table and reports.
"""

from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest

from pytest_rageval.config import Settings, resolve
from pytest_rageval.errors import InputError
from pytest_rageval.options import OPTIONS
from pytest_rageval.plugin.artifacts import (
    BaselineWriterPlugin,
    CassetteWriterPlugin,
    CompletenessPlugin,
    WorkerPlugin,
)
from pytest_rageval.plugin.progress import WorkersProgress
from pytest_rageval.plugin.runner import GATEWAY, GATEWAY_RUNS, GatePlugin, PlanningPlugin
from pytest_rageval.plugin.summary import SummaryPlugin
from pytest_rageval.plugin.unused_evalsets import UnusedEvalSetPlugin

__all__ = ["start", "start_gateway"]

STEPS: Final = ("submit", "status", "collect")
"""What a run with `--rageval-batch` consists of; `rageval batch` does one of them."""


def start(
    config: pytest.Config, environ: Mapping[str, str], *, columns: int, running: str | None
) -> GatePlugin:
    """Register the hooks that this run needs; return what its tests share.

    Args:
        config: of the run.
        environ: the environment variables.
        columns: of the terminal.
        running: the test that runs, if one does.
    """
    try:
        settings = _settings(config, config.option, environ)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    gate = GatePlugin(config, settings, columns, running)
    plugins: list[Any] = [gate, UnusedEvalSetPlugin(config), *_plugins_of_modes(config, settings)]
    if hasattr(config, "workerinput"):
        plugins.append(WorkerPlugin(config))
    elif settings.batch not in STEPS:
        workers = WorkersProgress(config)
        completeness = CompletenessPlugin(config, settings, workers)
        plugins += [SummaryPlugin(config, settings, workers, completeness), completeness]
        if settings.update_baseline:
            plugins.append(BaselineWriterPlugin(config, settings, completeness))
        if settings.record:
            plugins.append(CassetteWriterPlugin(config, settings, completeness))
    for plugin in plugins:
        config.pluginmanager.register(plugin, plugin.NAME)
    return gate


def _plugins_of_modes(config: pytest.Config, settings: Settings) -> list[Any]:
    """The plugins of runs that ask no models, or in batches."""
    workers = getattr(config.option, "numprocesses", None)
    if settings.plan:
        if workers:
            raise pytest.UsageError("--rageval-plan sends no requests and needs no workers: add -n0.")
        return [PlanningPlugin()]
    if not settings.batch or config.option.collectonly or hasattr(config, "workerinput"):
        return []
    from pytest_rageval.plugin import batches  # noqa: PLC0415 - few runs have batches

    if settings.batch not in STEPS:
        return [batches.BatchPlugin(config)]
    if workers:
        raise pytest.UsageError(f"--rageval-batch={settings.batch} needs no workers: add -n0.")
    return [batches.BatchCollectPlugin(config) if settings.collects else batches.BatchLookPlugin(config)]


def start_gateway(config: pytest.Config, environ: Mapping[str, str]) -> bool:
    """Start the gateway if it is asked for, and lead clients that read the environment there.

    Until the process is done with pytest. Returns whether it was started.
    """
    from pytest_rageval.serving.server import GatewayServer  # noqa: PLC0415 - few runs have one

    try:
        if not _settings(config, config.known_args_namespace, environ).gateway:
            return False
    except InputError:
        # It is reported when the plugin is configured.
        return False
    try:
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[GATEWAY] = server
    running = config.stash[GATEWAY_RUNS] = ExitStack()
    running.callback(server.close)
    running.enter_context(server.in_environment())
    config.add_cleanup(running.close)
    return True


def _settings(config: pytest.Config, options: Namespace, environ: Mapping[str, str]) -> Settings:
    return resolve(
        {option.name: getattr(options, option.ini) for option in OPTIONS},
        {option.name: config.getini(option.ini) for option in OPTIONS if option.in_ini},
        environ,
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )
