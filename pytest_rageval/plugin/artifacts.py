"""Files that a run writes at its end: the cassette and the baseline, and tests that vanished from it."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, StoreError
from pytest_rageval.plugin.runner import GatePlugin
from pytest_rageval.plugin.terminal import print_lines
from pytest_rageval.plugin.xdist import plain_nodeid

if TYPE_CHECKING:
    from pytest_rageval.llm.store import Entry

__all__ = [
    "BaselineWriterPlugin",
    "CassetteWriterPlugin",
    "CompletenessPlugin",
    "MissingTestsPlugin",
    "SelectionPlugin",
    "WorkerPlugin",
]

SELECTING: Final = ("lf", "stepwise", "ignore", "ignore_glob", "setuponly", "setupplan")
"""Options of pytest by which tests are left out, or not run."""


UNCOLLECTED: Final = "not collected"


class SelectionPlugin:
    """The hooks of a process that collects tests: how many of them it does not run.

    Some plugins take tests away without a word to others, as those that run a part on each machine.
    """

    def __init__(self) -> None:
        self.deselected = 0
        """How many tests were collected and left out."""

    def pytest_itemcollected(self) -> None:
        """Count a test."""
        self.deselected += 1

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take off those that are run."""
        self.deselected = max(0, self.deselected - len(session.items))


class CompletenessPlugin(SelectionPlugin):
    """The hooks of the process that writes files: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-completeness"

    def __init__(self, config: pytest.Config) -> None:
        super().__init__()
        self._config = config
        self._left_out = Counter[str]()
        self.crashed = False
        """Whether a worker did not come to its end."""

    @classmethod
    def of(cls, config: pytest.Config) -> "CompletenessPlugin":
        """The one of this process."""
        plugin = config.pluginmanager.get_plugin(cls.NAME)
        if not isinstance(plugin, cls):
            message = "the rageval plugin is not active in this process"
            raise pytest.UsageError(message)
        return plugin

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a test that was skipped, or did not come to its end: what it had not asked, it may yet."""
        if report.skipped or report.failed:
            self._left_out[_ended(report)] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Likewise for a module that was skipped or could not be imported: its tests are not gone."""
        if report.skipped or report.failed:
            self._left_out[UNCOLLECTED] += 1

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what an xdist worker left out."""
        output = getattr(node, "workeroutput", {})
        self.crashed = self.crashed or "rageval_deselected" not in output
        # Every worker collects everything.
        self.deselected = max(self.deselected, output.get("rageval_deselected", 0))

    def partial(self, session: pytest.Session) -> str:
        """Why what this run did not use may be used by others; empty where all tests ran and passed."""
        ended = [
            f"{count} {'modules' if how == UNCOLLECTED else 'tests'} {how}"
            for how, count in sorted(self._left_out.items())
            if count
        ]
        return ", ".join([*ended, *self.selected(session)])

    def selected(self, session: pytest.Session) -> list[str]:
        """Why this run did not have all tests that there are; empty where it had them, however they ended."""
        reasons = [f"{self.deselected} tests deselected"] if self.deselected else []
        source = self._config.args_source
        if source is pytest.Config.ArgsSource.ARGS:
            reasons.append("tests named on the command line")
        elif source is pytest.Config.ArgsSource.INVOCATION_DIR and (
            self._config.invocation_params.dir != self._config.rootpath
        ):
            reasons.append("it was started in a folder below the root directory")
        options = self._config.option
        reasons += [f"--{name.replace('_', '-')}" for name in SELECTING if getattr(options, name, None)]
        complete = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if not complete or session.shouldstop or session.shouldfail or self.crashed:
            reasons.append("it was interrupted")
        return reasons


def _ended(report: pytest.TestReport) -> str:
    """How a test ended that did not pass."""
    if report.skipped:
        return "skipped"
    return "failed" if report.when == "call" else "in error"


class MissingTestsPlugin:
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
            from pytest_rageval.reports.results import entry_name  # noqa: PLC0415 - few runs have results

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


SHOWN = 3
"""How many keys of unused replies are shown, unless all are asked for with -v."""


class CassetteWriterPlugin:
    """The hooks of the process that writes: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-recording"

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._lines: dict[str, str] = {}
        self._notes: list[str] = []
        self._failure = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what an xdist worker recorded."""
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
        from pytest_rageval.llm.cassette import (  # noqa: PLC0415 - rare
            read_cassette,
            read_entry,
            write_cassette,
        )

        self._lines.update(GatePlugin.of(self._config).recorded())
        used = {key: read_entry(line) for key, line in self._lines.items()}
        partial = CompletenessPlugin.of(self._config).partial(session)
        try:
            kept = read_cassette(path) if path.exists() else {}
            unused = {key: entry for key, entry in kept.items() if key not in used}
            dropped = self._settings.drop_unused and not partial
            write_cassette(path, [*used.values(), *(() if dropped else unused.values())])
        except StoreError as error:
            self._failure = str(error)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        new = len(used.keys() - kept.keys())
        other = sum(used[key].reply != entry.reply for key, entry in kept.items() if key in used)
        replaced = f", {other} in place of other replies" if other else ""
        self._notes.append(
            f"cassette: {path} ({len(used)} replies used, {new} of them new{replaced}; "
            f"{len(unused)} {'dropped' if dropped else 'kept'} unused)"
        )
        if unused:
            self._notes.extend(self._about(unused, partial, dropped=dropped))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was written, or that it could not be."""
        if self._failure:
            print_lines(terminalreporter, [self._failure], red=True)
        if self._notes and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval cassette")
            print_lines(terminalreporter, self._notes)

    def _about(self, unused: "dict[str, Entry]", partial: str, *, dropped: bool) -> list[str]:
        """What a reader needs in order to decide about unused replies."""
        if partial:
            kept = "not dropped" if self._settings.drop_unused else "kept"
            return [f"unused replies are {kept}: this was no full run ({partial})"]
        models = Counter(entry.summary.get("model") or entry.reply.model for entry in unused.values())
        by_model = ", ".join(f"{count} of {model or 'unknown'}" for model, count in models.most_common())
        keys = sorted(unused)
        shown = keys if self._config.get_verbosity() > 0 else keys[:SHOWN]
        more = f" and {len(keys) - len(shown)} more (-v lists them)" if len(shown) < len(keys) else ""
        listed = ", ".join(key[:12] for key in shown)
        remedy = "" if dropped else "; --rageval-drop-unused drops them"
        return [f"unused: {by_model}: {listed}{more}{remedy}"]


class WorkerPlugin(SelectionPlugin):
    """The hooks of an xdist worker: what it recorded goes to the controller."""

    NAME: ClassVar[str] = "rageval-worker"

    def __init__(self, config: pytest.Config) -> None:
        super().__init__()
        self._config = config

    def pytest_sessionfinish(self) -> None:
        """Leave the replies where xdist takes them along."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        output["rageval_recorded"] = GatePlugin.of(self._config).recorded()
        output["rageval_deselected"] = self.deselected


class BaselineWriterPlugin:
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
        from pytest_rageval.gate.baseline import Baseline, completed, held_back, moved_scores  # noqa: PLC0415 - rare  # noqa: PLC0415
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
