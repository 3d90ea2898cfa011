"""The pytest plugin: options, markers, fixtures and hooks. It adapts pytest to `session`, which does the work.

pytest imports this module in every run of every project that has the plugin installed. So it imports the rest only
when a run has a marked test.

- `runner`: the hooks of marked tests. `fixtures`: the fixtures, and checks of markers.
- `rageval_fixture`: the object that tests receive as `rageval`.
- `summary`, `terminal`, `progress`, `annotations`: output.
- `artifacts`: the files that a run writes. `batches`: the hooks of runs in batches.
"""

import os
from argparse import SUPPRESS, Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.config import OPTIONS, Option, Settings, resolve
from pytest_rageval.errors import InputError
from pytest_rageval.plugin.artifacts import (
    BaselineWriterPlugin,
    CassetteWriterPlugin,
    CompletenessPlugin,
    WorkerPlugin,
)
from pytest_rageval.plugin.fixtures import (
    MarksPlugin,
    rageval,
    rageval_client,
    rageval_encoder,
    rageval_executor,
    rageval_gateway,
    rageval_generator,
    rageval_judge,
    rageval_llm,
    rageval_prompts,
    rageval_reference_retriever,
    rageval_retriever,
)
from pytest_rageval.plugin.progress import WorkersProgress
from pytest_rageval.plugin.runner import GATEWAY, GATEWAY_RUNS, GatePlugin, PlanningPlugin
from pytest_rageval.plugin.summary import SummaryPlugin

if TYPE_CHECKING:
    from pytest_rageval.evaluations.registry import Registry

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "rageval",
    "rageval_client",
    "rageval_encoder",
    "rageval_executor",
    "rageval_gateway",
    "rageval_generator",
    "rageval_judge",
    "rageval_llm",
    "rageval_prompts",
    "rageval_reference_retriever",
    "rageval_retriever",
]

ENVIRONMENT = pytest.StashKey[Mapping[str, str]]()
"""The environment variables of the process, as they were before they led to its own gateway."""

STEPS: Final = ("submit", "status", "collect")
"""What a run with `--rageval-batch` consists of; `rageval batch` does one of them."""

# Written out: the modules of `Threshold` and `Bounds`, which have the signatures, are for marked tests alone.
MARKERS: Final = """
rageval_evalset(path, *, format=None, sample=None, seed=0, stratify=None, **options): the eval set that scores of this \
test are computed on, from the root directory or from the test file's folder; its format is known by its shape or \
named, options are the format's own.
rageval_threshold(spec, *, min=None, max=None, max_drop=None, max_total_drop=None, max_lost=None, max_ratio=None, \
where=None, by=None, alpha=0.05, burden='drop', strict=False, inconclusive=None, cluster=None, tolerance=0.0, \
comparator=None, label=None, order=None, temperature=None, draws=None, relevant=None): bounds on the mean of a score, \
such as rageval_threshold("recall@5", min=0.8, where={"topic": "billing"}).
rageval_calibration(labels, *, min_kappa=None, min_accuracy=None, min_pearson=None, comparator=None): bounds on how \
far the judge agrees with the people of a labels file, such as rageval_calibration("labels.jsonl", min_kappa=0.6).
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add every option as a flag and, where it may be permanent, as an ini key."""
    group = parser.getgroup("rageval", "RAG retriever evaluation")
    for option in OPTIONS:
        # The default is None: only then is it seen that the command line does not overrule the ini.
        how: dict[str, Any] = {"dest": option.ini, "default": None, "help": _help(option)}
        if not option.metavar:
            group.addoption(option.flag, action="store_const", const="true", **how)
            # Each as an option of its own: one with a value that may be left out would take a path for it.
            for word in option.words:
                group.addoption(
                    f"{option.flag}={word}", action="store_const", const=word, **how | {"help": SUPPRESS}
                )
        else:
            action = "append" if option.many else "store"
            group.addoption(option.flag, action=action, metavar=option.metavar, **how)
        if option.permanent:
            kind: Any = "linelist" if option.many else "string"
            parser.addini(option.ini, _help(option), type=kind, default=None)


class Hooks:
    """The hook that other plugins implement."""

    @staticmethod
    @pytest.hookspec
    def pytest_rageval_register(registry: "Registry") -> None:
        """Add scores, comparators, answer measures, retriever adapters, eval-set formats and reports.

        Called once a process, before the first score is computed or the first report is written.

        Args:
            registry: see `pytest_rageval.evaluations.registry.Registry` for its methods.
        """


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let other plugins add scores and more: `pytest_rageval_register`."""
    pluginmanager.add_hookspecs(Hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the gateway where the options ask for it, before a conftest imports the application."""
    options = early_config.known_args_namespace
    switch = next(option for option in OPTIONS if option.name == "gateway")
    if getattr(options, switch.ini, None) is None and not early_config.getini(switch.ini):
        return
    try:
        settings = _settings(early_config, options)
    except InputError:
        # It is reported when the plugin is configured.
        return
    if settings.gateway:
        _start_gateway(early_config)


def _start_gateway(config: pytest.Config) -> None:
    """Start the gateway, and lead clients that read the environment there until the process is done with pytest."""
    from pytest_rageval.serving.server import GatewayServer  # noqa: PLC0415 - few runs have one

    try:
        server = GatewayServer()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[GATEWAY] = server
    config.stash[ENVIRONMENT] = dict(os.environ)
    running = config.stash[GATEWAY_RUNS] = ExitStack()
    running.callback(server.close)
    running.enter_context(server.in_environment())
    config.add_cleanup(running.close)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and the run's state as a plugin of its own."""
    for marker in MARKERS.strip().splitlines():
        config.addinivalue_line("markers", marker)
    try:
        settings = _settings(config, config.option)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    plugins: list[Any] = [
        GatePlugin(config, settings),
        MarksPlugin(config),
        *_plugins_of_modes(config, settings),
    ]
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


def _plugins_of_modes(config: pytest.Config, settings: Settings) -> list[Any]:
    """The plugins of runs that ask no models, or in batches."""
    workers = getattr(config.option, "numprocesses", None)
    if settings.plan:
        if workers:
            raise pytest.UsageError("--rageval-plan asks nothing and needs no workers: add -n0.")
        return [PlanningPlugin()]
    if not settings.batch or config.option.collectonly or hasattr(config, "workerinput"):
        return []
    from pytest_rageval.plugin import batches  # noqa: PLC0415 - few runs have batches

    if settings.batch not in STEPS:
        return [batches.BatchPlugin(config)]
    if workers:
        raise pytest.UsageError(f"--rageval-batch={settings.batch} needs no workers: add -n0.")
    return [batches.BatchCollectPlugin(config) if settings.collects else batches.BatchLookPlugin(config)]


def _settings(config: pytest.Config, options: Namespace) -> Settings:
    return resolve(
        {option.name: getattr(options, option.ini) for option in OPTIONS},
        {option.name: config.getini(option.ini) for option in OPTIONS if option.permanent},
        config.stash.get(ENVIRONMENT, os.environ),
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )


def _help(option: Option) -> str:
    default = option.default
    shown = "" if default is None or default is False or default == () else f" (default: {default})"
    return f"{option.help}{shown}".replace("%", "%%")
