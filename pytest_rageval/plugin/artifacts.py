"""Writes the cassette and the baseline at the end of a run; lists tests that are missing from a full run."""

import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.plugin.progress import WorkersProgress
from pytest_rageval.plugin.runner import GatePlugin
from pytest_rageval.plugin.terminal import fail_run, plain_nodeid, print_lines, terminal_width
from pytest_rageval.plural import counted, plural

if TYPE_CHECKING:
    from pytest_rageval.gate.baseline import BaselineEntry
    from pytest_rageval.gate.comparison import Pin

__all__ = [
    "BaselineWriterPlugin",
    "CassetteWriterPlugin",
    "CompletenessPlugin",
    "WorkerPlugin",
]

SELECTING: Final = ("lf", "stepwise", "ignore", "ignore_glob", "setuponly", "setupplan")
"""Options of pytest by which tests are left out, or not run."""


class _SelectionPlugin:
    """Counts the tests that were collected and left out.

    `pytest_deselected` is not enough: plugins that split tests over machines remove them without it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected = 0
        self.collected: set[str] = set()
        """The tests that have scores, those included that are left out."""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Count a test."""
        self._deselected += 1
        if "rageval" in getattr(item, "fixturenames", ()):
            self.collected.add(plain_nodeid(item.nodeid))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Subtract those that are run."""
        self._deselected = max(0, self._deselected - len(session.items))


class WorkerPlugin(_SelectionPlugin):
    """In an xdist worker: its replies go to the controller."""

    NAME: ClassVar[str] = "rageval-worker"

    def pytest_sessionfinish(self) -> None:
        """Hand over the replies and the number of deselected tests."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        output["rageval_recorded"] = GatePlugin.of(self._config).recorded()
        output["rageval_deselected"] = self._deselected
        output["rageval_collected"] = sorted(self.collected)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Send a test's results as JSON in ASCII.

        xdist takes long for many objects, and sends no half of a surrogate pair.
        """
        data = yield
        if data and "rageval" in data:
            # Examples of a baseline are read from a spool.
            data["rageval"] = json.dumps(data["rageval"], default=dict)
        return data


class CompletenessPlugin(_SelectionPlugin):
    """Lists what this run left out; runs in the process that writes files (the only one, or xdist's controller).

    After a full run it names the tests and scores of the baseline that were not compared.
    """

    NAME: ClassVar[str] = "rageval-completeness"

    def __init__(self, config: pytest.Config, settings: Settings, workers: WorkersProgress) -> None:
        super().__init__(config)
        self._incomplete = Counter[tuple[str, str]]()
        self._crashed = False
        self._settings = settings
        self._compared: dict[str, set[str]] = {}
        self._excused: set[str] = set()
        self._lines: list[str] = []
        self._progress = workers

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send an xdist worker the run's name, which its processes share, the terminal's width, and a channel."""
        node.workerinput["rageval_run"] = GatePlugin.of(self._config).run
        node.workerinput["rageval_width"] = terminal_width()
        self._progress.connect(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(self, data: dict[str, Any]) -> None:
        """Read a test's results as a worker sends them."""
        if isinstance(results := data.get("rageval"), str):
            data["rageval"] = json.loads(results)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that may not have asked for all that it uses; note the scores that a test compares."""
        if report.skipped or report.failed:
            outcome = "skipped" if report.skipped else "failed" if report.when == "call" else "in error"
            self._incomplete[outcome, "test"] += 1
        nodeid = plain_nodeid(report.nodeid)
        if not report.passed:
            self._excused.add(nodeid)
        if results := getattr(report, "rageval", None):
            from pytest_rageval.reports.results import compared_names  # noqa: PLC0415 - few runs have results

            self._compared[nodeid] = compared_names(results["scores"])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that was skipped or cannot be imported: its tests still exist."""
        if not report.passed:
            self._incomplete["not collected", "module"] += 1
            self._excused.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the number of an xdist worker, each of which collects all tests; one without crashed."""
        output = getattr(node, "workeroutput", {})
        self._crashed |= "rageval_deselected" not in output
        self._deselected = max(self._deselected, output.get("rageval_deselected", 0))
        self.collected.update(output.get("rageval_collected", ()))

    def partial(self, session: pytest.Session) -> str:
        """Why this run may not have used all that the tests use; empty where all tests ran and passed."""
        incomplete = [
            f"{count} {plural(count, what)} {outcome}"
            for (outcome, what), count in sorted(self._incomplete.items())
        ]
        return ", ".join([*incomplete, *self.selected(session)])

    def selected(self, session: pytest.Session) -> list[str]:
        """Why this run did not run all tests; empty where it did, however they ended."""
        config, sources = self._config, pytest.Config.ArgsSource
        reasons = [f"{counted(self._deselected, 'test')} deselected"] if self._deselected else []
        if config.args_source is sources.ARGS:
            reasons.append("tests named on the command line")
        elif config.args_source is sources.INVOCATION_DIR and config.invocation_params.dir != config.rootpath:
            reasons.append("it was started in a folder below the root directory")
        reasons += [f"--{name.replace('_', '-')}" for name in SELECTING if getattr(config.option, name, None)]
        complete = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if not complete or session.shouldstop or session.shouldfail or self._crashed:
            reasons.append("it was interrupted")
        return reasons

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After a full run, check the baseline against what was compared."""
        # The merge knows what a shard has compared.
        if self._settings.plan or self._settings.update_baseline or self._settings.shard:
            return
        # Few projects have one, and reading it takes imports.
        if self._config.option.collectonly or not os.path.exists(self._settings.baseline):  # noqa: PTH110 - never raises
            return
        if not self.selected(session):
            from pytest_rageval.session.file_updates import uncompared_lines  # noqa: PLC0415 - see above

            path, required = self._settings.baseline, self._settings.require_baseline
            known = GatePlugin.of(self._config).baseline
            lines = uncompared_lines(
                path, self._compared, excused=self._excused, required=required, known=known
            )
            self._lines = list(lines)
            if self._lines and required:
                fail_run(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List them, also with -q."""
        required = self._settings.require_baseline
        print_lines(terminalreporter, self._lines, red=required, yellow=not required)


class _FilePlugin:
    """Writes one file at the end of a run, in the process that writes files."""

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        self._config = config
        self._settings = settings
        self._completeness = completeness


class CassetteWriterPlugin(_FilePlugin):
    """Writes the cassette."""

    NAME: ClassVar[str] = "rageval-cassette"

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        super().__init__(config, settings, completeness)
        self._lines: dict[str, str] = {}
        self._notes: list[str] = []
        self._failure: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the replies of an xdist worker."""
        output = getattr(node, "workeroutput", {})
        if "rageval_recorded" not in output:
            self._notes.append("a worker crashed: what it used is not on the cassette (it is in the cache)")
        self._lines.update(output.get("rageval_recorded", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the cassette."""
        path = self._settings.cassette
        if path is None or self._config.option.collectonly or self._settings.shard:
            # The report of a shard has the replies.
            return
        from pytest_rageval.session.file_updates import update_cassette  # noqa: PLC0415 - rare

        left_out = {
            "--rageval-early-stop": self._settings.stops_early,
            "--rageval-sample": self._settings.sample < 1,
        }
        partial = self._completeness.partial(session)
        partial = partial or ", ".join(name for name, is_set in left_out.items() if is_set)
        try:
            self._notes += update_cassette(
                path,
                self.recorded,
                drop_unused=self._settings.drop_unused,
                partial=partial,
                every_key=self._config.get_verbosity() > 0,
            )
        except StoreError as error:
            self._failure.append(str(error))
            fail_run(session)

    @property
    def recorded(self) -> dict[str, str]:
        """The replies that the run used, as lines of a cassette by key."""
        return {**self._lines, **GatePlugin.of(self._config).recorded()}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was written, or why it could not be."""
        print_lines(terminalreporter, self._failure, red=True)
        if self._notes and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval cassette")
            print_lines(terminalreporter, self._notes)


class BaselineWriterPlugin(_FilePlugin):
    """Updates the baseline."""

    NAME: ClassVar[str] = "rageval-baseline"

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        super().__init__(config, settings, completeness)
        self._entries: dict[str, BaselineEntry] = {}
        self._unfinished: set[str] = set()
        self._failed: dict[str, list[str]] = {}
        self._note = ""
        self._changes: list[str] = []
        self._lowers = False
        self._failure: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take over a test's entry; a rerun replaces that of the run before."""
        nodeid = plain_nodeid(report.nodeid)
        if report.when == "setup":
            self._unfinished.discard(nodeid)
        if not report.passed:
            self._unfinished.add(nodeid)
        results = getattr(report, "rageval", None) or {}
        if "baseline" in results:
            self._entries[results["nodeid"]] = results["baseline"]
            self._failed[results["nodeid"]] = results["out_of_bounds"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file: new entries over the old ones, and after a full run nothing else."""
        if self._config.option.collectonly:
            return
        if not self._entries:
            why = "no test that ran has a threshold with max_drop"
            if not self._completeness.collected:
                why = "no marked test was collected"
            path = self._settings.baseline
            self._note = f"baseline: nothing to write, {why}" + f"; {path} is as before" * path.exists()
        else:
            try:
                self._write(self._completeness.partial(session))
            except InputError as error:
                self._failure.append(str(error))
                fail_run(session)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if self._config.option.no_summary and reporter is not None:
            # What an update lowers is printed also with --no-summary.
            reporter.ensure_newline()
            self.pytest_terminal_summary(reporter)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was written and what changed, or the error; with -q what is lowered or dropped, or why not."""
        print_lines(terminalreporter, self._failure, red=True)
        if self._note and (terminalreporter.verbosity >= 0 or self._lowers or not self._entries):
            terminalreporter.section("rageval baseline")
            print_lines(terminalreporter, [self._note])
            print_lines(terminalreporter, [f"  {line}" for line in self._changes], yellow=self._lowers)

    def _write(self, partial: str) -> None:
        """Write the file, and note what changes in it.

        Args:
            partial: why tests without an entry may still exist; empty after a full run.

        Raises:
            InputError: the existing file is not a baseline, or the file cannot be written.
        """
        from pytest_rageval.session.file_updates import update_baseline  # noqa: PLC0415 - rare

        self._note, self._changes, self._lowers = update_baseline(
            self._settings.baseline,
            self._entries,
            unfinished=self._unfinished,
            failed=self._failed,
            partial=partial,
            pin=_pin(self._config.rootpath) if self._settings.pin_baseline else None,
        )


def _pin(root: Path) -> "Pin":
    """Today, and the commit of git, where there is one."""
    from datetime import UTC, datetime  # noqa: PLC0415 - rare

    from pytest_rageval.gate.comparison import Pin  # noqa: PLC0415 - rare
    from pytest_rageval.revision import head_commit  # noqa: PLC0415 - rare

    return Pin(head_commit(root), datetime.now(UTC).date().isoformat())
