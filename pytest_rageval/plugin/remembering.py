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
        self._failed: dict[str, list[str]] = {}
        self._note = ""
        self._changes: list[str] = []
        self._lowers = False
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
            self._failed[results["nodeid"]] = results["out_of_bounds"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file: what is new over what was there, and on a full run nothing else."""
        if self._config.option.collectonly:
            return
        if not self._entries:
            self._note = "baseline: nothing to write, no test that ran has a threshold with max_drop"
        else:
            try:
                self._write(CompletenessPlugin.of(self._config).partial(session))
            except InputError as error:
                self._failure = str(error)
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self._config.option.no_summary and reporter is not None:
            # What an update lowers is said even where nothing else is.
            reporter.ensure_newline()
            self.pytest_terminal_summary(reporter)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written and changed, or that it could not be; with -q only what is lowered or dropped."""
        if self._failure:
            print_lines(terminalreporter, [self._failure], red=True)
        if self._note and (terminalreporter.verbosity >= 0 or self._lowers):
            terminalreporter.section("rageval baseline")
            print_lines(terminalreporter, [self._note])
            print_lines(terminalreporter, [f"  {line}" for line in self._changes], yellow=self._lowers)

    def _write(self, partial: str) -> None:
        """Write the file, and note what changes in it.

        Args:
            partial: why this run knows nothing of the tests that it did not have; empty where it does.

        Raises:
            InputError: the file that is there is no baseline, or cannot be written.
        """
        from pytest_rageval.gate.baseline import Baseline, completed  # noqa: PLC0415 - rare
        from pytest_rageval.gate.update import held_back, moved_scores  # noqa: PLC0415
        from pytest_rageval.reports.baseline import update_text  # noqa: PLC0415

        path, entries = self._settings.baseline, self._entries
        there = Baseline.read(path).tests
        others = sorted(there.keys() - entries.keys())
        for nodeid in self._unfinished & entries.keys() & there.keys():
            entries[nodeid] = completed(entries[nodeid], there[nodeid])
        kept = []
        for nodeid in sorted(entries.keys() & there.keys()):
            entries[nodeid], names = held_back(entries[nodeid], there[nodeid], self._failed[nodeid])
            kept += [
                f"{nodeid} {name}: out of its bounds and lower, the old baseline is kept" for name in names
            ]
        dropped = [] if partial else [f"{nodeid}: dropped, it is gone" for nodeid in others]
        dropped += [
            f"{nodeid} {name}: dropped, no threshold with max_drop bounds it"
            for nodeid in sorted(entries.keys() & there.keys())
            for name in sorted(there[nodeid]["scores"].keys() - entries[nodeid]["scores"].keys())
        ]
        Baseline(entries | ({nodeid: there[nodeid] for nodeid in others} if partial else {})).write(path)
        moved = moved_scores(there, entries)
        self._changes = [*map(update_text, moved), *kept, *dropped]
        self._lowers = bool(kept or dropped or any(each.lowered for each in moved))
        self._note = f"baseline: {path} ({len(entries)} tests written"
        if others:
            fate = (
                f"kept, since this was no full run ({partial})" if partial else "dropped, since they are gone"
            )
            self._note += f"; {len(others)} others {fate}"
        self._note += ")"
