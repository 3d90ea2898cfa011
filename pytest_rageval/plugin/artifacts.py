"""The files of a run: the cassette and the baseline that it writes, and tests that are missing from a full run."""

import json
import os
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
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
    from pytest_rageval.llm.port import Entry

__all__ = [
    "BaselineWriterPlugin",
    "CassetteWriterPlugin",
    "CompletenessPlugin",
    "WorkerPlugin",
]

SELECTING: Final = ("lf", "stepwise", "ignore", "ignore_glob", "setuponly", "setupplan")
"""Options of pytest by which tests are left out, or not run."""

COMPARED: Final = ("max_drop", "max_total_drop", "max_lost")
"""The bounds that compare with the baseline."""

KEYS: Final = 3
"""Number of keys of unused replies that are listed; -v lists all."""


class _SelectionPlugin:
    """Counts the tests that were collected and left out.

    `pytest_deselected` does not tell: plugins that split tests over machines remove them without it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected = 0

    def pytest_itemcollected(self) -> None:
        """Count a test."""
        self._deselected += 1

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

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Send a test's results as JSON in ASCII.

        xdist takes long for many objects, and sends no half of a surrogate pair.
        """
        data = yield
        if data and "rageval" in data:
            data["rageval"] = json.dumps(data["rageval"])
        return data


class CompletenessPlugin(_SelectionPlugin):
    """In the process that writes files, the only one or xdist's controller: what this run left out.

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
        self._run = uuid.uuid4().hex
        self._progress = workers

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send an xdist worker the run's name, which its processes share, the terminal's width, and a channel."""
        node.workerinput["rageval_run"] = self._run
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
            from pytest_rageval.reports.results import entry_name  # noqa: PLC0415 - few runs have results

            self._compared[nodeid] = {
                entry_name(entry)
                for entry in results["scores"]
                if any((entry["threshold"] or {}).get(word) is not None for word in COMPARED)
            }

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that was skipped or cannot be imported: its tests are not gone."""
        if not report.passed:
            self._incomplete["not collected", "module"] += 1
            self._excused.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the number of an xdist worker, each of which collects all tests; one without crashed."""
        output = getattr(node, "workeroutput", {})
        self._crashed |= "rageval_deselected" not in output
        self._deselected = max(self._deselected, output.get("rageval_deselected", 0))

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
        if self._settings.plan or self._settings.update_baseline:
            return
        # Few projects have one, and reading it takes imports.
        if self._config.option.collectonly or not os.path.exists(self._settings.baseline):  # noqa: PTH110 - never raises
            return
        if not self.selected(session):
            self._lines = list(self._missing())
            if self._lines and self._settings.require_baseline:
                fail_run(session)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List them, also with -q."""
        required = self._settings.require_baseline
        print_lines(terminalreporter, self._lines, red=required, yellow=not required)

    def _missing(self) -> Iterator[str]:
        from pytest_rageval.gate.baseline import Baseline  # noqa: PLC0415 - see above

        path = self._settings.baseline
        try:
            tests = Baseline.read(path).tests
        except InputError as error:
            # There may be no test left that compares with it.
            yield str(error)
            return
        missing = []
        for nodeid in sorted(tests):
            if any(nodeid == each or nodeid.startswith((f"{each}::", f"{each}/")) for each in self._excused):
                continue
            scores = sorted(tests[nodeid]["scores"].keys() - self._compared.get(nodeid, set()))
            if nodeid not in self._compared:
                missing.append(f"  {nodeid}")
            elif scores:
                missing.append(f"  {nodeid}: {', '.join(scores)}")
        if missing:
            forbidden = ", which --rageval-require-baseline forbids (the default under CI=true)"
            why = forbidden if self._settings.require_baseline else ""
            yield f"{path} lists what nothing in this run is compared with{why}:"
            yield from missing
            yield "Is a test gone, or its max_drop? If that is meant, pytest --rageval-update-baseline takes it out."


class _FilePlugin:
    """In the process that writes files: what happens to one of them at the end."""

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
        if path is None or self._config.option.collectonly:
            return
        from pytest_rageval.llm import cassette  # noqa: PLC0415 - rare

        self._lines.update(GatePlugin.of(self._config).recorded())
        used = {key: cassette.read_entry(line) for key, line in self._lines.items()}
        partial = self._completeness.partial(session)
        partial = partial or ("--rageval-early-stop" if self._settings.stops_early else "")
        drop = self._settings.drop_unused and not partial
        try:
            kept = cassette.read_cassette(path) if path.exists() else {}
            unused = {key: entry for key, entry in kept.items() if key not in used}
            cassette.write_cassette(path, [*used.values(), *(() if drop else unused.values())])
        except StoreError as error:
            self._failure.append(str(error))
            fail_run(session)
            return
        new = len(used.keys() - kept.keys())
        other = sum(used[key].reply != entry.reply for key, entry in kept.items() if key in used)
        replaced = f", {other} in place of other replies" if other else ""
        self._notes.append(
            f"cassette: {path} ({counted(len(used), 'reply')} used, {new} of them new{replaced}; "
            f"{len(unused)} {'dropped' if drop else 'kept'} unused)"
        )
        if unused:
            self._notes.append(self._unused_note(unused, partial, drop=drop))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was written, or why it could not be."""
        print_lines(terminalreporter, self._failure, red=True)
        if self._notes and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval cassette")
            print_lines(terminalreporter, self._notes)

    def _unused_note(self, unused: "dict[str, Entry]", partial: str, *, drop: bool) -> str:
        if partial:
            kept = "not dropped" if self._settings.drop_unused else "kept"
            return f"unused replies are {kept}: this was no full run ({partial})"
        models = Counter(entry.summary.get("model") or entry.reply.model for entry in unused.values())
        by_model = ", ".join(f"{count} of {model or 'unknown'}" for model, count in models.most_common())
        keys = sorted(unused)
        shown = keys if self._config.get_verbosity() > 0 else keys[:KEYS]
        more = f" and {len(keys) - len(shown)} more (-v lists them)" if len(shown) < len(keys) else ""
        listed = ", ".join(key[:12] for key in shown)
        remedy = "" if drop else "; --rageval-drop-unused drops them"
        return f"unused: {by_model}: {listed}{more}{remedy}"


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
            self._note = "baseline: nothing to write, no test that ran has a threshold with max_drop"
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
        """Print what was written and what changed, or the error; with -q only what is lowered or dropped."""
        print_lines(terminalreporter, self._failure, red=True)
        if self._note and (terminalreporter.verbosity >= 0 or self._lowers):
            terminalreporter.section("rageval baseline")
            print_lines(terminalreporter, [self._note])
            print_lines(terminalreporter, [f"  {line}" for line in self._changes], yellow=self._lowers)

    def _write(self, partial: str) -> None:
        """Write the file, and note what changes in it.

        Args:
            partial: why tests without an entry may still exist; empty after a full run.

        Raises:
            InputError: the existing file is no baseline, or the file cannot be written.
        """
        from pytest_rageval.gate.baseline import Baseline  # noqa: PLC0415 - rare
        from pytest_rageval.gate.baseline_update import anchors_after, update_of  # noqa: PLC0415 - rare
        from pytest_rageval.reports.notes import update_text  # noqa: PLC0415 - rare

        path, old = self._settings.baseline, Baseline.read(self._settings.baseline)
        update = update_of(
            old.tests, self._entries, unfinished=self._unfinished, failed=self._failed, complete=not partial
        )
        pin = _pin(self._config.rootpath) if self._settings.pin_baseline else None
        anchors = anchors_after(old.anchors, update, written=self._entries, pin=pin, complete=not partial)
        Baseline(update.tests, anchors=anchors).write(path)
        held_back = [
            f"{test} {name}: out of its bounds and lower, the old baseline is kept"
            for test, name in update.held_back
        ]
        gone = [] if partial else [f"{test}: dropped, it is gone" for test in update.others]
        dropped = [
            f"{test} {name}: dropped, no threshold with max_drop bounds it" for test, name in update.dropped
        ]
        dropped += [
            f"{test}: its anchor is dropped, it is gone" for test in sorted(old.anchors.keys() - anchors)
        ]
        self._changes = [*map(update_text, update.moved), *held_back, *gone, *dropped]
        self._lowers = bool(held_back or gone or dropped) or any(moved.lowered for moved in update.moved)
        fate = f"kept, since this was no full run ({partial})" if partial else "dropped, since gone"
        others = f"; {counted(len(update.others), 'other')} {fate}" if update.others else ""
        pinned = "" if pin is None else f", {pin} as the anchor of max_total_drop"
        self._note = f"baseline: {path} ({counted(len(self._entries), 'test')} written{pinned}{others})"


def _pin(root: Path) -> "Pin":
    """Today, and the commit of git, where there is one."""
    from datetime import UTC, datetime  # noqa: PLC0415 - rare

    from pytest_rageval.gate.comparison import Pin  # noqa: PLC0415 - rare
    from pytest_rageval.revision import head_commit  # noqa: PLC0415 - rare

    return Pin(head_commit(root), datetime.now(UTC).date().isoformat())
