"""`LazyStart`: the hooks of every run. They start the rest of the plugin at the first test that uses it.

Until then the other modules are not imported and their hooks are not registered, so that a run without marked tests is
not slowed down. A run that configures the package, by an option or in the environment, starts the whole plugin at once.
With pytest-xdist each worker does so, and the controller starts the plugin after them (`workers`).
"""

import argparse
import inspect
import os
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import BASELINE, all_options
from pytest_rageval.plugin.markers import (
    EVALUATED_MARKERS,
    timeout_warnings,
    unknown_marker_error,
    uses_plugin,
)

if TYPE_CHECKING:
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.plugin.runner import EvaluationPlugin
    from pytest_rageval.plugin.workers import Workers

# Few runs write these files.
BaselineWriterPlugin: Final = Lazy("plugin.files", "BaselineWriterPlugin")
CassetteWriterPlugin: Final = Lazy("plugin.files", "CassetteWriterPlugin")

ENVIRONMENT = pytest.StashKey[Mapping[str, str]]()
"""The environment variables at the start of the process, before the proxy or a test module changed them."""

PARSER: "pytest.StashKey[pytest.Parser]" = pytest.StashKey()  # of pytest's command line

LAZY_START: "pytest.StashKey[LazyStart]" = pytest.StashKey()  # the object with the hooks of every run


def get_evaluation_plugin(config: pytest.Config) -> "EvaluationPlugin":
    return config.stash[LAZY_START].start()


class LazyStart:
    """The hooks of every run. After the start they pass tests to `EvaluationPlugin`."""

    _workers: "Workers | None" = None

    def __init__(self, config: pytest.Config, off: Sequence[str]) -> None:
        self._config = config
        self._off = off
        config.stash[LAZY_START] = self
        self._plugin: EvaluationPlugin | None = None
        self._running_nodeid: str | None = None
        given = getattr(config, "workerinput", {})
        # The name of the run, equal in all of its processes.
        self._run: str = given.get("rageval_run") or os.urandom(16).hex()
        # While tests run, pytest captures their output, and the width of the terminal cannot be read.
        self._columns: int = given.get("rageval_columns") or shutil.get_terminal_size().columns
        config.stash.setdefault(ENVIRONMENT, dict(os.environ))
        # Neither a worker of pytest-xdist nor a run without workers has this option.
        if getattr(config.option, "dist", "no") != "no":
            from pytest_rageval.plugin.workers import Workers  # noqa: PLC0415 - most runs have no workers

            self._workers = Workers(config, self._worker_inputs, self.start)
            config.pluginmanager.register(self._workers)

    def _worker_inputs(self) -> dict[str, object]:
        return {
            "rageval_run": self._run,
            "rageval_columns": self._columns,
            "rageval_starts": self._plugin is not None,
        }

    def start(self) -> "EvaluationPlugin":
        """Return the evaluation plugin; the first call imports the rest of the plugin and registers its hooks."""
        if self._plugin is None:
            self._plugin = self._start()
        return self._plugin

    def _start(self) -> "EvaluationPlugin":
        # Most runs do not need these modules, and few of the others write files.
        from pytest_rageval.core.errors import InputError  # noqa: PLC0415
        from pytest_rageval.plugin.completeness import (  # noqa: PLC0415
            CompletenessPlugin,
            WorkerPlugin,
            given_options,
        )
        from pytest_rageval.plugin.runner import EvaluationPlugin, Process  # noqa: PLC0415
        from pytest_rageval.plugin.summary import SummaryPlugin  # noqa: PLC0415

        config, environ = self._config, self._config.stash[ENVIRONMENT]
        try:
            settings = resolve_settings(config, config.option, environ)
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
        process = Process(config, settings, self._run, self._columns, self._running_nodeid)
        evaluation_plugin = EvaluationPlugin(config, process)
        of_extensions = config.hook.pytest_rageval_start(config=config, settings=settings)
        plugins: list[Any] = [process, evaluation_plugin, *chain.from_iterable(of_extensions)]
        if hasattr(config, "workerinput"):
            plugins.append(WorkerPlugin(config))
        elif "is a step" not in settings.effects:
            given = partial(given_options, config, environ, config.stash.get(PARSER, None))
            completeness = CompletenessPlugin(config, settings, given)
            records = "keeps replies" in settings.effects
            cassette = CassetteWriterPlugin(config, settings, completeness) if records else None
            plugins += [completeness, SummaryPlugin(config, settings, self._workers, completeness, cassette)]
            if "replaces the baseline" in settings.effects:
                plugins.append(BaselineWriterPlugin(config, settings, completeness))
            if cassette is not None:
                plugins.append(cassette)
        for plugin in plugins:
            config.pluginmanager.register(plugin)
        return evaluation_plugin

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        off = [f"rageval: switched off: {', '.join(self._off)}"] if self._off else []
        return [*timeout_warnings(config), *off]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Start the plugin if a module cannot be imported: it may have marked tests, and annotations show its error."""
        report = yield
        if report.failed:
            self.start()
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Module | pytest.Class, name: str, obj: object
    ) -> Generator[None, Any, Any]:
        """Add the fixture `rageval` to a test with thresholds; raise an error about a test with an unknown marker.

        The fixture is added as a mark before the item is created, so that pytest resolves the fixtures that `rageval`
        requests, and creates one item per parameter of a parametrized retriever.
        """
        with _with_fixture(obj) if _is_evaluated(collector, name, obj) else nullcontext():
            items = yield
        for item in items if isinstance(items, list) else [items]:
            if isinstance(item, pytest.Item) and uses_plugin(item):
                self.start()
                if problem := unknown_marker_error(item):
                    raise collector.CollectError(problem)
        return items

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Prepare a test for its evaluation. A mark may have been added after the collection."""
        self._running_nodeid = item.nodeid
        if self._plugin is not None or uses_plugin(item):
            self.start().prepare(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        if self._plugin is not None or any(mark.name in EVALUATED_MARKERS for mark in item.iter_markers()):
            self.start().check_thresholds(item)


def resolve_settings(
    config: pytest.Config, options: argparse.Namespace, environ: Mapping[str, str]
) -> "Settings":
    from pytest_rageval.options.resolution import resolve_options  # noqa: PLC0415 - see `LazyStart`

    return resolve_options(
        {option.name: getattr(options, option.ini, None) for option in all_options()},
        {option.name: config.getini(option.ini) for option in all_options() if option.in_ini},
        environ,
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )


def _is_evaluated(collector: pytest.Module | pytest.Class, name: str, obj: object) -> bool:
    if not (inspect.isfunction(obj) and collector.funcnamefilter(name)):
        return False
    marks = (*getattr(obj, "pytestmark", ()), *collector.iter_markers())
    return any(mark.name in EVALUATED_MARKERS for mark in marks)


@contextmanager
def _with_fixture(function: object) -> Iterator[None]:
    """Mark a test function with the fixture `rageval` while pytest creates its items.

    Only the items retain the mark: another class that inherits the function may have no thresholds.
    """
    decorator = pytest.mark.usefixtures("rageval")
    decorator(function)
    try:
        yield
    finally:
        vars(function)["pytestmark"].remove(decorator.mark)


def needs_eager_start(config: pytest.Config) -> bool:
    """Return True if the run configures the package or has a baseline; in a worker, if the controller did."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput.get("rageval_starts"))
    options, environ = config.option, config.stash[ENVIRONMENT]
    return (
        any(getattr(options, option.ini, None) is not None for option in all_options())
        or any(config.getini(option.ini) for option in all_options() if option.in_ini)
        or any(
            text for name, text in environ.items() if name.startswith("RAGEVAL_") or name == "OPENAI_BASE_URL"
        )
        or _has_tables(config.rootpath / "pyproject.toml")
        # A full run lists tests of the baseline that no longer exist.
        or (config.rootpath / BASELINE).exists()
    )


def _has_tables(path: Path) -> bool:
    """Return True if a `pyproject.toml` may have tables of this package; a requirement on it does not count."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return "rageval" in text.replace("pytest-rageval", "")
