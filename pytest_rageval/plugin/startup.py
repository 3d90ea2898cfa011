"""Starts the plugin: resolves the settings, starts the gateway, and registers the hooks that the run needs.

`runner` has the hooks of tests, `rageval_fixture` the object that tests receive, `batch_plugins` the hooks of runs in
batches, `artifacts` the files of a run, `completeness` the tests that it did not run, `summary` its table and reports.
"""

from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.options import Settings, resolve
from pytest_rageval.lib.options import OPTIONS
from pytest_rageval.plugin.completeness import CompletenessPlugin, WorkerPlugin, given_options
from pytest_rageval.plugin.files import BaselineWriterPlugin, CassetteWriterPlugin
from pytest_rageval.plugin.progress import WorkersProgress
from pytest_rageval.plugin.runner import GATEWAY_CLEANUP, GATEWAY_SERVER, EvaluationPlugin, PlanningPlugin
from pytest_rageval.plugin.summary import SummaryPlugin
from pytest_rageval.plugin.unused_evalsets import UnusedEvalSetPlugin

BATCH_STEPS: Final = ("submit", "status", "collect")
"""The values of `--rageval-batch` for a single step of a run in batches, as the command `rageval batch` runs it."""


def start(
    config: pytest.Config,
    environ: Mapping[str, str],
    parser: pytest.Parser | None,
    *,
    columns: int,
    running_nodeid: str | None,
) -> EvaluationPlugin:
    """Register the hooks that this run needs; return the evaluation plugin.

    Args:
        config: the configuration of the run.
        environ: the environment variables.
        parser: the parser of pytest's command line; None if it is not known.
        columns: width of the terminal.
        running_nodeid: node id of the running test; None before the first test.
    """
    try:
        settings = _resolve_settings(config, config.option, environ)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    evaluation_plugin = EvaluationPlugin(config, settings, columns, running_nodeid)
    plugins: list[Any] = [evaluation_plugin, UnusedEvalSetPlugin(config), *_mode_plugins(config, settings)]
    if hasattr(config, "workerinput"):
        plugins.append(WorkerPlugin(config))
    elif settings.batch not in BATCH_STEPS:
        workers = WorkersProgress(config)
        completeness = CompletenessPlugin(
            config, settings, workers, lambda: given_options(config, environ, parser)
        )
        cassette = CassetteWriterPlugin(config, settings, completeness)
        plugins += [completeness, SummaryPlugin(config, settings, workers, completeness, cassette)]
        if settings.update_baseline:
            plugins.append(BaselineWriterPlugin(config, settings, completeness))
        if settings.record:
            plugins.append(cassette)
    for plugin in plugins:
        config.pluginmanager.register(plugin)
    return evaluation_plugin


def _mode_plugins(config: pytest.Config, settings: Settings) -> list[Any]:
    """Return the plugin of a run with `--rageval-plan` or `--rageval-batch`; none for other runs."""
    workers = getattr(config.option, "numprocesses", None)
    if settings.plan:
        if workers:
            raise pytest.UsageError("--rageval-plan sends no requests and needs no workers: add -n0.")
        return [PlanningPlugin()]
    if not settings.batch or config.option.collectonly or hasattr(config, "workerinput"):
        return []
    from pytest_rageval.extensions.batches import plugin as batch_plugins  # noqa: PLC0415 - few runs have batches

    if settings.batch not in BATCH_STEPS:
        return [batch_plugins.BatchPlugin(config)]
    if workers:
        raise pytest.UsageError(f"--rageval-batch={settings.batch} needs no workers: add -n0.")
    step_plugin = batch_plugins.BatchSubmitPlugin if settings.collects else batch_plugins.BatchStatusPlugin
    return [step_plugin(config)]


def start_gateway(config: pytest.Config, environ: Mapping[str, str]) -> bool:
    """Start the gateway if an option requests it, and point the variables of model clients in the environment to it.

    Both are undone in pytest's cleanup.

    Returns:
        True if the gateway was started.
    """
    from pytest_rageval.extensions.application_calls.server import GatewayServer  # noqa: PLC0415 - few runs have a gateway

    try:
        if not _resolve_settings(config, config.known_args_namespace, environ).gateway:
            return False
    except InputError:
        # The error is raised again when the plugin is configured.
        return False
    try:
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[GATEWAY_SERVER] = server
    cleanup = config.stash[GATEWAY_CLEANUP] = ExitStack()
    cleanup.callback(server.close)
    cleanup.enter_context(server.in_environment())
    config.add_cleanup(cleanup.close)
    return True


def _resolve_settings(config: pytest.Config, options: Namespace, environ: Mapping[str, str]) -> Settings:
    return resolve(
        {option.name: getattr(options, option.ini) for option in OPTIONS},
        {option.name: config.getini(option.ini) for option in OPTIONS if option.in_ini},
        environ,
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )
