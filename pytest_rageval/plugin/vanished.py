"""Tests that the baseline lists and that compare nothing with it any more: a gate that is gone is green for ever."""

import os
from collections.abc import Iterator
from typing import ClassVar

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError
from pytest_rageval.plugin.completeness import CompletenessPlugin
from pytest_rageval.plugin.naming import plain_nodeid
from pytest_rageval.plugin.printing import print_lines

__all__ = ["VanishedPlugin"]


class VanishedPlugin:
    """The hooks of the process that reports: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-vanished"

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._compared: dict[str, set[str]] = {}
        self._excused: set[str] = set()
        self._lines: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """The tests of a module that was skipped or could not be imported are not gone."""
        if not report.passed:
            self._excused.add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of what a test compares; one that did not pass may have ended before it did."""
        nodeid = plain_nodeid(report.nodeid)
        if not report.passed:
            self._excused.add(nodeid)
        results = getattr(report, "rageval", None)
        if results is not None:
            from pytest_rageval.reports.entries import entry_name  # noqa: PLC0415 - few runs have results

            self._compared[nodeid] = {
                entry_name(entry)
                for entry in results["scores"]
                if (entry["threshold"] or {}).get("max_drop") is not None
            }

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After a full run, hold the baseline against what was compared."""
        # Few projects have one, and reading it takes imports.
        if self._config.option.collectonly or not os.path.exists(self._settings.baseline):  # noqa: PTH110 - never raises
            return
        if CompletenessPlugin.of(self._config).selected(session):
            return
        self._lines = list(self._vanished())
        if self._lines and self._settings.require_baseline and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List them, also with -q."""
        required = self._settings.require_baseline
        print_lines(terminalreporter, self._lines, red=required, yellow=not required)

    def _vanished(self) -> Iterator[str]:
        from pytest_rageval.gate.baseline import Baseline  # noqa: PLC0415 - see above

        path = self._settings.baseline
        try:
            tests = Baseline.read(path).tests
        except InputError as error:
            # A test that compares with it says so too, but there may be none.
            yield str(error)
            return
        gone = []
        for nodeid in sorted(tests):
            if any(nodeid == each or nodeid.startswith((f"{each}::", f"{each}/")) for each in self._excused):
                continue
            scores = sorted(tests[nodeid]["scores"].keys() - self._compared.get(nodeid, set()))
            if nodeid not in self._compared:
                gone.append(f"  {nodeid}")
            elif scores:
                gone.append(f"  {nodeid}: {', '.join(scores)}")
        if gone:
            forbidden = ", which --rageval-require-baseline forbids (the default under CI=true)"
            why = forbidden if self._settings.require_baseline else ""
            yield f"{path} lists what nothing in this run is compared with{why}:"
            yield from gone
            yield "Is a test gone, or its max_drop? If that is meant, pytest --rageval-update-baseline takes it out."
