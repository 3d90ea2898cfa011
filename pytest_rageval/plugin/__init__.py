"""The pytest plugin: options, markers, fixtures and hooks. It adapts pytest to `session`, which does the work.

pytest imports it in every run of every project that has it installed: heavy imports wait for a marked test.
`fixtures` has the fixtures, `runner` the hooks of tests, `rageval_fixture` the object that tests receive,
`artifacts` the files of a run, `summary` its table and reports, `xdist` what concerns several processes.
"""

import os
from argparse import SUPPRESS
from typing import Any, Final

import pytest

from pytest_rageval.config import OPTIONS, Option, Settings, resolve
from pytest_rageval.errors import InputError
from pytest_rageval.plugin import hookspecs as hooks
from pytest_rageval.plugin.artifacts import (
    BaselineWriterPlugin,
    CassetteWriterPlugin,
    CompletenessPlugin,
    MissingTestsPlugin,
    WorkerPlugin,
)
from pytest_rageval.plugin.fixtures import (
    MarksPlugin,
    rageval,
    rageval_encoder,
    rageval_generator,
    rageval_judge,
    rageval_llm,
    rageval_prompts,
    rageval_retriever,
)
from pytest_rageval.plugin.runner import GatePlugin, PlanningPlugin
from pytest_rageval.plugin.summary import SummaryPlugin
from pytest_rageval.plugin.xdist import ControllerPlugin

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_configure",
    "rageval",
    "rageval_encoder",
    "rageval_generator",
    "rageval_judge",
    "rageval_llm",
    "rageval_prompts",
    "rageval_retriever",
]

# As `Threshold.signature()` and `Bounds.signature()` say, whose modules few runs need.
THRESHOLD: Final = (
    "spec, *, min=None, max=None, max_drop=None, where=None, by=None, alpha=0.05, strict=False, comparator=None, "
    "label=None, order=None"
)
BOUNDS: Final = "labels, *, min_kappa=None, min_accuracy=None, min_pearson=None, comparator=None"


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
        if not option.permanent:
            continue
        if option.many:
            parser.addini(option.ini, _help(option), type="linelist", default=None)
        else:
            parser.addini(option.ini, _help(option), type="string", default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let other plugins add scores and more: `pytest_rageval_register`."""
    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and the run's state as a plugin of its own."""
    _describe_markers(config)
    try:
        settings = _settings(config)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    register = config.pluginmanager.register
    register(GatePlugin(config, settings), GatePlugin.NAME)
    register(MarksPlugin(config), MarksPlugin.NAME)
    if settings.plan:
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError("--rageval-plan asks nothing and needs no workers: add -n0.")
        register(PlanningPlugin(), PlanningPlugin.NAME)
    if hasattr(config, "workerinput"):
        register(WorkerPlugin(config), WorkerPlugin.NAME)
        return
    register(ControllerPlugin(), ControllerPlugin.NAME)
    register(SummaryPlugin(config, settings), SummaryPlugin.NAME)
    completeness = CompletenessPlugin(config)
    register(completeness, CompletenessPlugin.NAME)
    if not (settings.plan or settings.update_baseline):
        register(MissingTestsPlugin(config, settings, completeness), MissingTestsPlugin.NAME)
    if settings.update_baseline:
        register(BaselineWriterPlugin(config, settings, completeness), BaselineWriterPlugin.NAME)
    if settings.record:
        register(CassetteWriterPlugin(config, settings, completeness), CassetteWriterPlugin.NAME)


def _settings(config: pytest.Config) -> Settings:
    return resolve(
        {option.name: config.getoption(option.ini) for option in OPTIONS},
        {option.name: config.getini(option.ini) for option in OPTIONS if option.permanent},
        os.environ,
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )


def _help(option: Option) -> str:
    default = option.default
    shown = "" if default is None or default is False or default == () else f" (default: {default})"
    return f"{option.help}{shown}".replace("%", "%%")


def _describe_markers(config: pytest.Config) -> None:
    """Declare the markers, for `pytest --markers` and `--strict-markers`."""
    config.addinivalue_line(
        "markers",
        "rageval_evalset(path, *, format=None, sample=None, seed=0, stratify=None, **options): the eval set "
        "that scores of this test are computed on, from the root directory or from the test file's folder; "
        "its format is known by its shape or named, options are the format's own.",
    )
    config.addinivalue_line(
        "markers",
        f"rageval_threshold({THRESHOLD}): bounds on the mean of a score, "
        'such as rageval_threshold("recall@5", min=0.8, where={"topic": "billing"}).',
    )
    config.addinivalue_line(
        "markers",
        f"rageval_calibration({BOUNDS}): bounds on how far the judge agrees with the people of a "
        'labels file, such as rageval_calibration("labels.jsonl", min_kappa=0.6).',
    )
