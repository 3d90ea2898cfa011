"""Starts the plugin: resolves the settings, and registers the hooks that the run needs.

`runner` has the hooks of tests, `rageval_fixture` the object that tests receive, `files` the files of a run,
`completeness` the tests that it did not run, `summary` its table and reports. Extensions add hooks for their modes.
"""

from argparse import Namespace
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.extensions import all_options
from pytest_rageval.core.resolution import resolve_options
from pytest_rageval.core.settings import Settings
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.plugin.completeness import (
    CompletenessPlugin,
    UnusedEvalSetPlugin,
    WorkerPlugin,
    given_options,
)
from pytest_rageval.plugin.progress import WorkersProgress
from pytest_rageval.plugin.runner import EvaluationPlugin
from pytest_rageval.plugin.summary import SummaryPlugin

# Few runs write these files.
BaselineWriterPlugin: Final = Lazy("plugin.files", "BaselineWriterPlugin")
CassetteWriterPlugin: Final = Lazy("plugin.files", "CassetteWriterPlugin")


def start(
    config: pytest.Config,
    environ: Mapping[str, str],
    parser: pytest.Parser | None,
    *,
    columns: int,
    running_nodeid: str | None,
) -> EvaluationPlugin:
    """Register the hooks that this run needs; return the evaluation plugin."""
    try:
        settings = resolve_settings(config, config.option, environ)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    evaluation_plugin = EvaluationPlugin(config, settings, columns, running_nodeid)
    of_extensions = config.hook.pytest_rageval_start(config=config, settings=settings)
    plugins: list[Any] = [evaluation_plugin, UnusedEvalSetPlugin(config), *chain.from_iterable(of_extensions)]
    if hasattr(config, "workerinput"):
        plugins.append(WorkerPlugin(config))
    elif not settings.is_step:
        workers = WorkersProgress(config)
        completeness = CompletenessPlugin(
            config, settings, workers, lambda: given_options(config, environ, parser)
        )
        cassette = CassetteWriterPlugin(config, settings, completeness) if settings.record else None
        plugins += [completeness, SummaryPlugin(config, settings, workers, completeness, cassette)]
        if settings.update_baseline:
            plugins.append(BaselineWriterPlugin(config, settings, completeness))
        if cassette is not None:
            plugins.append(cassette)
    for plugin in plugins:
        config.pluginmanager.register(plugin)
    return evaluation_plugin


def resolve_settings(config: pytest.Config, options: Namespace, environ: Mapping[str, str]) -> Settings:
    """Return the settings of a run from the parsed command line, the ini file and the environment."""
    return resolve_options(
        {option.name: getattr(options, option.ini, None) for option in all_options()},
        {option.name: config.getini(option.ini) for option in all_options() if option.in_ini},
        environ,
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )
