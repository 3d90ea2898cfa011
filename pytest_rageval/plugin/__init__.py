"""The pytest plugin. Importing it imports pytest and little else: it is loaded by every test run."""

import os

import pytest

from pytest_rageval.calibration.bounds import Bounds
from pytest_rageval.errors import InputError
from pytest_rageval.gate.threshold import Threshold
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
from pytest_rageval.plugin.options import add_options, settings_of
from pytest_rageval.plugin.runner import FamilyPlugin, GatePlugin, PlanningPlugin
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `pytest_rageval.config`, for the command line and the ini file."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let other plugins add scores and more: `pytest_rageval_register`."""
    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and the run's state as a plugin of its own."""
    _describe_markers(config)
    try:
        settings = settings_of(config, os.environ)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    register = config.pluginmanager.register
    family = FamilyPlugin()
    register(family, FamilyPlugin.NAME)
    register(GatePlugin(config, settings, family), GatePlugin.NAME)
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
    register(CompletenessPlugin(config), CompletenessPlugin.NAME)
    if not (settings.plan or settings.update_baseline):
        register(MissingTestsPlugin(config, settings), MissingTestsPlugin.NAME)
    if settings.update_baseline:
        register(BaselineWriterPlugin(config, settings), BaselineWriterPlugin.NAME)
    if settings.record:
        register(CassetteWriterPlugin(config, settings), CassetteWriterPlugin.NAME)


def _describe_markers(config: pytest.Config) -> None:
    """Say what the markers are for: `pytest --markers`, and no warning that they are unknown."""
    config.addinivalue_line(
        "markers",
        "rageval_evalset(path, *, format=None, sample=None, seed=0, stratify=None, **options): the eval set "
        "that scores of this test are computed on, from the root directory or from the test file's folder; "
        "its format is known by its shape or named, options are the format's own.",
    )
    config.addinivalue_line(
        "markers",
        f"rageval_threshold({Threshold.signature()}): bounds on the mean of a score, "
        'such as rageval_threshold("recall@5", min=0.8, where={"topic": "billing"}).',
    )
    config.addinivalue_line(
        "markers",
        f"rageval_calibration({Bounds.signature()}): bounds on how far the judge agrees with the people of a "
        'labels file, such as rageval_calibration("labels.jsonl", min_kappa=0.6).',
    )
