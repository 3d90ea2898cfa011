"""The hooks that write the cassette and the baseline, and list baseline entries that a full run did not compare."""

import json
import os
from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.plugin.progress import WorkersProgress
from pytest_rageval.plugin.runner import EvaluationPlugin
from pytest_rageval.plugin.terminal import fail_run, plain_nodeid, print_lines, terminal_width
from pytest_rageval.plural import counted, plural

if TYPE_CHECKING:
    from pytest_rageval.gate.baseline import BaselineEntry

__all__ = [
    "BaselineWriterPlugin",
    "CassetteWriterPlugin",
    "CompletenessPlugin",
    "WorkerPlugin",
]

SELECTING_OPTIONS: Final = ("lf", "stepwise", "ignore", "ignore_glob", "setuponly", "setupplan")
"""The options of pytest that cause tests to be left out or not to run."""

TESTMON: Final = "--testmon"
"""The reason for the tests that pytest-testmon left out. It does not collect files whose tests are all left out."""

TESTMON_REMEDY: Final = (
    "pytest-testmon left them out: it sees changes of Python code, and not of data, an index or a model. Run the tests "
    "with thresholds without it: pytest --no-testmon"
)


class _SelectionPlugin:
    """Counts the tests that were collected and then deselected.

    The hook `pytest_deselected` is not enough: plugins that split tests over machines do not call it.

    Attributes:
        collected: node ids of the collected tests with the fixture `rageval`, including deselected tests.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected = 0
        self.collected: set[str] = set()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Count a collected test as deselected until the collection is finished."""
        self._deselected += 1
        if "rageval" in getattr(item, "fixturenames", ()):
            self.collected.add(plain_nodeid(item.nodeid))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Subtract the selected tests."""
        self._deselected = max(0, self._deselected - len(session.items))


class WorkerPlugin(_SelectionPlugin):
    """In an xdist worker: sends results and recorded replies to the controller."""

    def pytest_sessionfinish(self) -> None:
        """Send the recorded replies and the number of deselected tests."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        output["rageval_recorded"] = EvaluationPlugin.get(self._config).recorded_lines()
        output["rageval_deselected"] = self._deselected
        output["rageval_collected"] = sorted(self.collected)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Send the results of a test as JSON in ASCII.

        xdist serializes many objects slowly, and cannot send a lone surrogate.
        """
        data = yield
        if data and "rageval" in data:
            # The examples of a baseline are mappings that read from a spool: `dict` converts them.
            data["rageval"] = json.dumps(data["rageval"], default=dict)
        return data


class CompletenessPlugin(_SelectionPlugin):
    """Determines whether the run was a full run; lists the baseline entries that a full run did not compare.

    It runs in the process that writes files: the only process, or xdist's controller.

    Args:
        config: the configuration of the run.
        settings: the resolved options.
        workers: the progress of xdist's workers.
    """

    def __init__(self, config: pytest.Config, settings: Settings, workers: WorkersProgress) -> None:
        super().__init__(config)
        # Number of tests and modules by outcome and kind, such as ("skipped", "test").
        self._incomplete = Counter[tuple[str, str]]()
        self._crashed = False
        self._settings = settings
        self._compared: dict[str, set[str]] = {}
        self._excused: set[str] = set()
        self._lines: list[str] = []
        self._progress = workers

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send an xdist worker the name of the run, the width of the terminal, and a channel for progress messages."""
        node.workerinput["rageval_run"] = EvaluationPlugin.get(self._config).run
        node.workerinput["rageval_width"] = terminal_width()
        self._progress.connect(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(self, data: dict[str, Any]) -> None:
        """Parse the results of a test from a worker."""
        if isinstance(results := data.get("rageval"), str):
            data["rageval"] = json.loads(results)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that did not pass, since it may lack requests and scores; note the compared scores of a test."""
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
        """Count a module that was skipped or cannot be imported: its tests may still exist."""
        if not report.passed:
            self._incomplete["not collected", "module"] += 1
            self._excused.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Merge the counts of an xdist worker. Each worker collects all tests; a worker without counts crashed."""
        output = getattr(node, "workeroutput", {})
        self._crashed |= "rageval_deselected" not in output
        self._deselected = max(self._deselected, output.get("rageval_deselected", 0))
        self.collected.update(output.get("rageval_collected", ()))

    def why_partial(self, session: pytest.Session) -> str:
        """Return why this was not a full run, so that requests or scores may be missing; empty if all tests passed."""
        incomplete = [
            f"{count} {plural(count, kind)} {outcome}"
            for (outcome, kind), count in sorted(self._incomplete.items())
        ]
        return ", ".join([*incomplete, *self.why_tests_left_out(session)])

    def why_tests_left_out(self, session: pytest.Session) -> list[str]:
        """Return why some tests did not run; empty if all tests ran, whatever their outcome."""
        config, sources = self._config, pytest.Config.ArgsSource
        reasons = [f"{counted(self._deselected, 'test')} deselected"] if self._deselected else []
        if config.args_source is sources.ARGS:
            reasons.append("tests named on the command line")
        elif config.args_source is sources.INVOCATION_DIR and config.invocation_params.dir != config.rootpath:
            reasons.append("it was started in a folder below the root directory")
        reasons += [
            f"--{name.replace('_', '-')}" for name in SELECTING_OPTIONS if getattr(config.option, name, None)
        ]
        if getattr(getattr(config, "testmon_config", None), "select", False):
            reasons.append(TESTMON)
        complete = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if not complete or session.shouldstop or session.shouldfail or self._crashed:
            reasons.append("it was interrupted")
        return reasons

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After a full run, find the entries of the baseline that were not compared with any score."""
        # For shards, `rageval merge` does this.
        if self._settings.plan or self._settings.update_baseline or self._settings.shard:
            return
        # Most projects have no baseline and need not import the modules that read it.
        if self._config.option.collectonly or not os.path.exists(self._settings.baseline):  # noqa: PTH110 - never raises
            return
        left_out = self.why_tests_left_out(session)
        # pytest-testmon selects by Python code. Where a baseline is required, changed data must not pass unseen.
        by_testmon = TESTMON in left_out and self._settings.require_baseline
        if not left_out or by_testmon:
            from pytest_rageval.session.file_updates import REMOVAL_REMEDY, uncompared_lines  # noqa: PLC0415 - see above

            path, required = self._settings.baseline, self._settings.require_baseline
            known = EvaluationPlugin.get(self._config).baseline
            lines = uncompared_lines(
                path,
                self._compared,
                excused=self._excused,
                required=required,
                known=known,
                remedy=TESTMON_REMEDY if by_testmon else REMOVAL_REMEDY,
            )
            self._lines = list(lines)
            if self._lines and required:
                fail_run(session)

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """List the uncompared entries of the baseline, also with -q."""
        required = self._settings.require_baseline
        print_lines(terminalreporter, self._lines, red=required, yellow=not required)


class CassetteWriterPlugin:
    """Writes the cassette at the end of a run, in the process that writes files.

    Args:
        config: the configuration of the run.
        settings: the resolved options.
        completeness: the plugin that determines whether this was a full run.
    """

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        self._config = config
        self._settings = settings
        self._completeness = completeness
        self._worker_lines: dict[str, str] = {}
        self._notes: list[str] = []
        self._errors: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the replies of an xdist worker."""
        output = getattr(node, "workeroutput", {})
        if "rageval_recorded" not in output:
            self._notes.append(
                "a worker crashed: the replies that it used are not in the cassette, but in the cache"
            )
        self._worker_lines.update(output.get("rageval_recorded", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the cassette."""
        path = self._settings.cassette
        if path is None or self._config.option.collectonly or self._settings.shard:
            # `rageval merge` writes the cassette, from the replies in the reports of the shards.
            return
        from pytest_rageval.session.file_updates import update_cassette  # noqa: PLC0415 - few runs record

        omitting_options = {
            "--rageval-early-stop": self._settings.stops_early,
            "--rageval-sample": self._settings.sample < 1,
        }
        partial = self._completeness.why_partial(session)
        partial = partial or ", ".join(name for name, is_set in omitting_options.items() if is_set)
        try:
            self._notes += update_cassette(
                path,
                self.recorded_lines,
                drop_unused=self._settings.drop_unused,
                partial=partial,
                every_key=self._config.get_verbosity() > 0,
            )
        except StoreError as error:
            self._errors.append(str(error))
            fail_run(session)

    @property
    def recorded_lines(self) -> dict[str, str]:
        """The replies that all processes of the run used, as lines of a cassette, by key."""
        return {**self._worker_lines, **EvaluationPlugin.get(self._config).recorded_lines()}

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print lines about the written cassette, or the error."""
        print_lines(terminalreporter, self._errors, red=True)
        if self._notes and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval cassette")
            print_lines(terminalreporter, self._notes)


class BaselineWriterPlugin:
    """Updates the baseline at the end of a run, in the process that writes files.

    Args:
        config: the configuration of the run.
        settings: the resolved options.
        completeness: the plugin that determines whether this was a full run.
    """

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        self._config = config
        self._settings = settings
        self._completeness = completeness
        self._entries: dict[str, BaselineEntry] = {}
        self._unfinished: set[str] = set()
        self._failed: dict[str, list[str]] = {}
        self._note = ""
        self._changes: list[str] = []
        self._lowers = False
        self._printed = False
        self._errors: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the new baseline entry of a test; the entry of a rerun replaces the previous one."""
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
        """Update the baseline file with the new entries."""
        if self._config.option.collectonly:
            return
        if not self._entries:
            reason = "no test that ran has a threshold with max_drop"
            if not self._completeness.collected:
                reason = "no marked test was collected"
            path = self._settings.baseline
            self._note = f"baseline: nothing to write, {reason}" + f"; {path} is as before" * path.exists()
        else:
            try:
                self._update(self._completeness.why_partial(session))
            except InputError as error:
                self._errors.append(str(error))
                fail_run(session)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._config.option.no_summary:
            # Lowered scores must be printed with --no-summary too, with which older versions of pytest do not call
            # `pytest_terminal_summary`.
            reporter.ensure_newline()
            self.pytest_terminal_summary(reporter)
            self._printed = True

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print the changes of the baseline, or the error; with -q only if they lower it, or nothing was written."""
        if self._printed:
            return
        print_lines(terminalreporter, self._errors, red=True)
        if self._note and (terminalreporter.verbosity >= 0 or self._lowers or not self._entries):
            terminalreporter.section("rageval baseline")
            print_lines(terminalreporter, [self._note])
            print_lines(terminalreporter, [f"  {line}" for line in self._changes], yellow=self._lowers)

    def _update(self, partial: str) -> None:
        """Update the file, and store the lines about its changes.

        Args:
            partial: see `update_baseline`.

        Raises:
            InputError: the existing file is not a baseline, or the file cannot be written.
        """
        from pytest_rageval.gate.comparison import AnchorPin  # noqa: PLC0415 - few runs update the baseline
        from pytest_rageval.plugin.revision import head_commit  # noqa: PLC0415
        from pytest_rageval.session.file_updates import update_baseline  # noqa: PLC0415

        pins = self._settings.pin_baseline
        self._note, self._changes, self._lowers = update_baseline(
            self._settings.baseline,
            self._entries,
            unfinished=self._unfinished,
            failed=self._failed,
            partial=partial,
            pin=AnchorPin.today(head_commit(self._config.rootpath)) if pins else None,
        )
