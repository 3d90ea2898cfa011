"""The baseline at the end of a run with `--rageval-update-baseline`."""

from typing import Any, ClassVar

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError
from pytest_rageval.plugin.completeness import CompletenessPlugin
from pytest_rageval.plugin.naming import plain_nodeid
from pytest_rageval.plugin.printing import print_lines

__all__ = ["RememberingPlugin"]


class RememberingPlugin:
    """The hooks of the process that writes: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-remembering"

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._entries: dict[str, dict[str, Any]] = {}
        self._unfinished: set[str] = set()
        self._note = ""
        self._moved: list[str] = []
        self._failure = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take over what a test leaves; a rerun replaces what the run before left."""
        if report.when == "setup":
            self._unfinished.discard(plain_nodeid(report.nodeid))
        if not report.passed:
            self._unfinished.add(plain_nodeid(report.nodeid))
        results = getattr(report, "rageval", None) or {}
        if "baseline" in results:
            self._entries[results["nodeid"]] = results["baseline"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file: what is new over what was there, and on a full run nothing else."""
        if self._config.option.collectonly:
            return
        from pytest_rageval.gate.baseline import Baseline, completed  # noqa: PLC0415 - rare
        from pytest_rageval.gate.update import moved_scores  # noqa: PLC0415
        from pytest_rageval.reports.baseline import update_text  # noqa: PLC0415

        if not self._entries:
            self._note = "baseline: nothing to write, no test that ran has a threshold with max_drop"
            return
        path = self._settings.baseline
        partial = CompletenessPlugin.of(self._config).partial(session)
        try:
            there = Baseline.read(path).tests
            others = {nodeid: entry for nodeid, entry in there.items() if nodeid not in self._entries}
            for nodeid in self._unfinished & self._entries.keys() & there.keys():
                self._entries[nodeid] = completed(self._entries[nodeid], there[nodeid])
            Baseline(self._entries | (others if partial else {})).write(path)
            self._moved = [f"  {update_text(moved)}" for moved in moved_scores(there, self._entries)]
        except InputError as error:
            self._failure = str(error)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        self._note = f"baseline: {path} ({len(self._entries)} tests written"
        if others:
            kept = (
                f"kept, since this was no full run ({partial})" if partial else "dropped, since they are gone"
            )
            self._note += f"; {len(others)} others {kept}"
        self._note += ")"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written, or that it could not be."""
        if self._failure:
            print_lines(terminalreporter, [self._failure], red=True)
        if self._note and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval baseline")
            print_lines(terminalreporter, [self._note, *self._moved])
