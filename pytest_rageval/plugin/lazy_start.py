"""What every run has of the plugin: it waits for the first test with a mark or a fixture of this package.

Only then are the other modules imported and their hooks registered (`startup`), so that the tests of a project that
have nothing to do with this package do not pay for it. A run that names anything of the package, by an option or in the
environment, starts with all of it.
"""

import inspect
import os
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.options import BASELINE, OPTIONS
from pytest_rageval.plugin.markers import EVALUATED, is_ours, timeout_lines, unknown_mark

if TYPE_CHECKING:
    from pytest_rageval.plugin.runner import GatePlugin

__all__ = ["ENVIRONMENT", "HEADERS", "LazyStart", "gate_of", "is_named"]

ENVIRONMENT = pytest.StashKey[Mapping[str, str]]()
"""The environment variables of the process, before they led to its own gateway or a test module changed them."""

HEADERS: Final = {
    False: "generator embedded model, answers compared in canonical form [embedded models: smoke-test quality]",
    True: "no model is named (--rageval-model), only ranking measures can be scored",
}
"""The value of `Settings.header_line` where nothing is set, without and with a key in the environment."""


def gate_of(config: pytest.Config) -> "GatePlugin":
    """What the tests of this process share."""
    standby = config.pluginmanager.get_plugin(LazyStart.NAME)
    if not isinstance(standby, LazyStart):
        raise pytest.UsageError("the rageval plugin is not active in this process")
    return standby.start()


class LazyStart:
    """The hooks of every run. Those of tests go on to `GatePlugin` once there is one."""

    NAME: ClassVar[str] = "rageval-standby"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._gate: GatePlugin | None = None
        self._running: str | None = None
        # Noted here: once tests run, their output is captured and the terminal out of reach.
        self._columns = shutil.get_terminal_size().columns
        config.stash.setdefault(ENVIRONMENT, dict(os.environ))

    def start(self) -> "GatePlugin":
        """Import the rest of the plugin and register its hooks, at the first call; return what the tests share."""
        if self._gate is None:
            from pytest_rageval.plugin.assertion_rewriting import disable_assertion_rewriting  # noqa: PLC0415 - most runs need nothing

            disable_assertion_rewriting(self._config)
            from pytest_rageval.plugin.startup import start  # noqa: PLC0415 - likewise

            environ = self._config.stash[ENVIRONMENT]
            self._gate = start(self._config, environ, columns=self._columns, running=self._running)
        return self._gate

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        """Warn of a timeout that counts the evaluation; without a named model, print which one is used."""
        lines = timeout_lines(config)
        if self._gate is None:
            has_key = bool(config.stash[ENVIRONMENT].get("OPENAI_API_KEY", "").strip())
            lines.append(f"rageval: {HEADERS[has_key]}")
        return lines

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Start where a module cannot be imported: it may have marked tests, and annotations show it."""
        report = yield
        if report.failed:
            self.start()
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(
        self, collector: pytest.Module | pytest.Class, name: str, obj: object
    ) -> Generator[None, Any, Any]:
        """Give a test with thresholds the fixture `rageval`; refuse a module with a test that has an unknown marker.

        As a mark, and before the item is made: then pytest knows the fixture's own fixtures, and a
        parametrized retriever multiplies the test.
        """
        with _with_fixture(obj) if _is_evaluated(collector, name, obj) else nullcontext():
            made = yield
        for item in made if isinstance(made, list) else [made]:
            if isinstance(item, pytest.Item) and is_ours(item):
                self.start()
                if problem := unknown_mark(item):
                    raise collector.CollectError(problem)
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin a test; a mark may have come after it was collected."""
        self._running = item.nodeid
        if self._gate is not None or is_ours(item):
            self.start().begin(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Compare the scores of a test with its thresholds, before its own statements."""
        if self._gate is not None or any(mark.name in EVALUATED for mark in item.iter_markers()):
            self.start().check(item)


def _is_evaluated(collector: pytest.Module | pytest.Class, name: str, obj: object) -> bool:
    """Whether it is a test function that is evaluated at setup."""
    if not (inspect.isfunction(obj) and collector.funcnamefilter(name)):
        return False
    marks = (*getattr(obj, "pytestmark", ()), *collector.iter_markers())
    return any(mark.name in EVALUATED for mark in marks)


@contextmanager
def _with_fixture(function: object) -> Iterator[None]:
    """Mark a test function with the fixture `rageval` while its items are made.

    The items keep the mark. The function does not: another class that inherits it may have no thresholds.
    """
    decorator = pytest.mark.usefixtures("rageval")
    decorator(function)
    try:
        yield
    finally:
        vars(function)["pytestmark"].remove(decorator.mark)


def is_named(config: pytest.Config) -> bool:
    """Whether a run names anything of this package before its tests are seen."""
    options, environ = config.option, config.stash[ENVIRONMENT]
    return (
        any(getattr(options, option.ini) is not None for option in OPTIONS)
        or any(config.getini(option.ini) for option in OPTIONS if option.in_ini)
        or any(
            text for name, text in environ.items() if name.startswith("RAGEVAL_") or name == "OPENAI_BASE_URL"
        )
        or _has_tables(config.rootpath / "pyproject.toml")
        # A full run reports tests of the baseline that no longer exist.
        or (config.rootpath / BASELINE).exists()
        # The controller of pytest-xdist does not see the tests that its workers collect.
        or getattr(options, "dist", "no") != "no"
        or hasattr(config, "workerinput")
    )


def _has_tables(path: Path) -> bool:
    """Whether a file may have tables of this package; a requirement on it does not count."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return "rageval" in text.replace("pytest-rageval", "")
