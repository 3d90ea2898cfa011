"""Which tests ran: whether all did, and which gated tests were not compared.

- `CompletenessPlugin`: whether the run was a full run, and the gated tests that it did not compare.
- `deselect_tests_without_requests`, `report_as_skipped`: for runs of stubs, such as a plan.
"""

import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.text import counted, plural
from pytest_rageval.options.settings import Settings
from pytest_rageval.plugin.markers import EVALUATED_MARKERS
from pytest_rageval.plugin.runner import Process
from pytest_rageval.plugin.terminal import fail_run, plain_nodeid, print_lines, report_outcome

if TYPE_CHECKING:
    from pytest_rageval.reports.document import SuiteEntry
    from pytest_rageval.reports.suite import SuiteContribution

SELECTING_OPTIONS: Final = ("lf", "stepwise", "ignore", "ignore_glob", "setuponly", "setupplan")
"""The options of pytest that cause tests to be left out or not to run."""

DESELECTING_OPTIONS: Final = (
    *("keyword", "markexpr", "deselect", "pyargs"),
    # Of pytest-split, pytest-shard, pytest-test-groups and pytest-picked.
    *("splits", "num_shards", "test-group-count", "picked"),
)
"""The options by which a command line selects a part of the tests that it names."""

TESTMON: Final = "--testmon"
"""The reason for the tests that pytest-testmon left out. It does not collect files whose tests are all left out."""

COMPLETE_STATUSES: Final = frozenset(
    {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
)
"""The exit statuses of runs that ended by themselves."""

GATE_FAILURES: Final = pytest.StashKey[list[str]]()
"""Why the run fails although its tests may pass: messages of one or more lines."""

BODY_DID_NOT_RUN: Final = "its body did not run"


class _SelectionPlugin:
    """Counts the tests that were collected and then deselected. `collected` are those with the fixture `rageval`.

    The hook `pytest_deselected` is not enough: plugins that split tests over machines do not call it.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected = 0
        self.collected: set[str] = set()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self._deselected += 1
        if "rageval" in getattr(item, "fixturenames", ()):
            self.collected.add(plain_nodeid(item.nodeid))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._deselected = max(0, self._deselected - len(session.items))


class WorkerPlugin(_SelectionPlugin):
    """In an xdist worker: sends results and recorded replies to the controller, and that the plugin is started."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        config.workeroutput["rageval_unfinished"] = True  # type: ignore[attr-defined]
        # The controller may have closed the channel.
        with suppress(OSError):
            config.workerinput["rageval_channel"].send(None)  # type: ignore[attr-defined]

    def pytest_sessionfinish(self) -> None:
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        del output["rageval_unfinished"]
        output["rageval_recorded"] = Process.get(self._config).recorded_lines()
        output["rageval_deselected"] = self._deselected
        output["rageval_collected"] = sorted(self.collected)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
        """Send the results as JSON in ASCII: xdist serializes many objects slowly, and cannot send a lone surrogate."""
        data = yield
        if data and "rageval" in data:
            # The examples of a baseline are mappings that read from a spool: `dict` converts them.
            data["rageval"] = json.dumps(data["rageval"], default=dict)
        return data


class CompletenessPlugin(_SelectionPlugin):
    """Determines whether the run was a full run; lists the gated tests that it should have compared and did not.

    It runs in the process that writes files: the only process, or xdist's controller. At the end of the run `gate` and
    `suite` are these keys of the report.
    """

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        given_options: Callable[[], Mapping[str, Any]],
    ) -> None:
        super().__init__(config)
        self._given_options = given_options
        # Number of tests and modules by outcome and kind, such as ("skipped", "test").
        self._incomplete = Counter[tuple[str, str]]()
        self._crashed = False
        self._settings = settings
        self._compared: dict[str, set[str]] = {}
        # See `RanTests.prevented`.
        self._prevented: dict[str, str] = {}
        self._problem = ""
        self._contributions: dict[str, SuiteContribution] = {}
        self.gate: Mapping[str, Any] = {}
        self.suite: SuiteEntry | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that did not pass, since it may lack requests and scores; note the compared scores of a test."""
        if report.skipped or report.failed:
            outcome = "skipped" if report.skipped else "failed" if report.when == "call" else "in error"
            self._incomplete[outcome, "test"] += 1
        nodeid = plain_nodeid(report.nodeid)
        if report.failed:
            self._prevented[nodeid] = ""
        elif report.when == "setup":
            # A rerun begins with a setup too.
            self._prevented[nodeid] = _why_skipped(report) or BODY_DID_NOT_RUN
        elif report.when == "call" and report.skipped:
            self._prevented[nodeid] = _why_skipped(report)
        elif report.when == "call":
            self._prevented.pop(nodeid, None)
        if results := getattr(report, "rageval", None):
            from pytest_rageval.reports.build import compared_names  # noqa: PLC0415 - few runs have results

            self._compared[nodeid] = compared_names(results["scores"])
            if "suite" in results:
                self._contributions[nodeid] = results["suite"]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that was skipped or cannot be imported: its tests may still exist."""
        if not report.passed:
            self._incomplete["not collected", "module"] += 1
            self._prevented[report.nodeid] = _why_skipped(report)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Merge the counts of an xdist worker that has started the plugin. Each worker collects all tests."""
        output = getattr(node, "workeroutput", {"rageval_unfinished": True})
        self._crashed |= output.get("rageval_unfinished", False)
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
        if self._by_testmon:
            reasons.append(TESTMON)
        complete = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if not complete or session.shouldstop or session.shouldfail or self._crashed:
            reasons.append("it was interrupted")
        return reasons

    @property
    def _is_named(self) -> bool:
        return "baseline" in self._settings.sources

    @property
    def _by_testmon(self) -> bool:
        return bool(getattr(getattr(self._config, "testmon_config", None), "select", False))

    def claims(self) -> list[str]:
        """Return the node ids of the tests, modules and folders that the run is to run in full; "" is the root folder.

        They are those that the command line names, by default the folder in which pytest was started. There are none if
        the command line selects a part of the tests. What the ini file selects by `addopts` or `testpaths` is not
        considered: whoever starts the run does not see it.
        """
        given = self._given_options()
        if any(map(given.get, (*SELECTING_OPTIONS, *DESELECTING_OPTIONS))):
            return []
        # pytest-testmon selects by Python code. Where a baseline is required, changed data must not pass unseen.
        if self._by_testmon and not self._settings.require_baseline:
            return []
        folder, root = self._config.invocation_params.dir, self._config.rootpath
        nodeids = []
        for argument in given.get("file_or_dir") or [""]:
            path, colons, names = str(argument).partition("::")
            place = Path(os.path.normpath(folder / path))
            if place.is_relative_to(root):
                nodeids.append(f"{place.relative_to(root).as_posix()}{colons}{names}")
            elif root.is_relative_to(place):
                nodeids.append("")
        return ["" if nodeid == "." else nodeid for nodeid in nodeids]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Find the gated tests that the run did not compare; before the reports are written."""
        settings = self._settings
        if "compares nothing" in settings.effects or self._config.option.collectonly:
            return
        # A run that was stopped fails anyway, and lacks many tests.
        if session.exitstatus not in COMPLETE_STATUSES or session.shouldstop or session.shouldfail:
            return
        # Most projects have no baseline and need not import the modules that read it.
        if not (
            settings.baseline_ref or self._is_named or os.path.exists(settings.baseline)  # noqa: PTH110 - never raises
        ):
            return
        claims = self.claims()
        if not (settings.require_baseline or any(self._compared.values()) or "" in claims):
            # Whoever runs some other tests on their machine need not read a line about the gate.
            return
        from pytest_rageval.reports.gated_tests import RanTests, failing_gates, missing_lines  # noqa: PLC0415 - see above
        from pytest_rageval.reports.suite import suite_entry, suite_lines  # noqa: PLC0415 - see above
        from pytest_rageval.run.baseline_lookup import check_gate  # noqa: PLC0415

        ran = RanTests(self._compared, self._prevented, self.collected, claims)
        try:
            self.gate = check_gate(settings, ran, self._config.hook, Process.get(self._config).baseline)
        except InputError as error:
            # No test may be left that reads the baseline and reports this error.
            self._problem = str(error)
        if self._by_testmon and self.gate:
            self.gate = {**self.gate, "left_out_by": "pytest-testmon"}
        # A test that is expected to fail is no part of the suite.
        counted_tests = {
            nodeid: test for nodeid, test in self._contributions.items() if not self._prevented.get(nodeid)
        }
        self.suite = suite_entry(counted_tests, seed=settings.seed)
        self._contributions.clear()
        failures = [
            "\n".join(suite_lines(self.suite)),
            "\n".join(missing_lines(self.gate)) if failing_gates(self.gate) else "",
            self._problem if settings.require_baseline or self._is_named else "",
        ]
        self._config.stash[GATE_FAILURES] = list(filter(None, failures))
        if any(failures):
            fail_run(session)

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        required = self._settings.require_baseline
        if self._problem:
            red = required or self._is_named
            print_lines(terminalreporter, [self._problem], red=red, yellow=not red)
        if self.gate:
            from pytest_rageval.reports.gated_tests import change_lines, missing_lines, remark_lines  # noqa: PLC0415

            print_lines(terminalreporter, missing_lines(self.gate), red=required, yellow=not required)
            print_lines(terminalreporter, change_lines(self.gate), yellow=True)
            print_lines(terminalreporter, remark_lines(self.gate))
        if self.suite:
            from pytest_rageval.reports.suite import suite_lines  # noqa: PLC0415 - see above

            print_lines(terminalreporter, suite_lines(self.suite), red=True)


def _why_skipped(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the outcome of a test or module that was skipped, with the reason; empty if it passed or failed."""
    if not report.skipped:
        return ""
    outcome = report_outcome(report)
    return f"{outcome['outcome']}: {outcome['message']}" if outcome["message"] else outcome["outcome"]


def given_options(
    config: pytest.Config, environ: Mapping[str, str], parser: pytest.Parser | None
) -> Mapping[str, Any]:
    """Return the options that the command line and PYTEST_ADDOPTS set, by their internal names.

    `addopts` of the ini file is left out. The mapping is empty if `parser`, that of pytest's command line, is None.
    """
    if parser is None:
        return {}
    words = [*shlex.split(environ.get("PYTEST_ADDOPTS", "")), *config.invocation_params.args]
    given, default = (vars(parser.parse_known_args(arguments)) for arguments in (words, []))
    return {name: value for name, value in given.items() if value != default.get(name)}


def report_as_skipped(report: pytest.TestReport, item: pytest.Item, reason: str) -> None:
    path, line, _ = item.location
    report.outcome = "skipped"
    report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")


def deselect_tests_without_requests(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "answers applications" in Process.get(config).settings.effects:
        # Any test may call the application, which sends its requests through the proxy.
        return
    if others := [item for item in items if not _may_send_requests(item)]:
        config.hook.pytest_deselected(items=others)
        items[:] = filter(_may_send_requests, items)


def _may_send_requests(item: pytest.Item) -> bool:
    """Return True if a test uses a fixture of this package, or if its code can get any fixture by name.

    The latter is so if the test, or a fixture of the test, has the argument `request`. pytest's fixtures do not count.
    """
    fixtures = getattr(item, "fixturenames", ())
    if any(name.startswith("rageval") for name in fixtures) or any(
        map(item.get_closest_marker, EVALUATED_MARKERS)
    ):
        return True
    info: Any = getattr(item, "_fixtureinfo", None)
    definitions = [] if info is None else [each[-1] for each in info.name2fixturedefs.values() if each]
    by_name = any(
        "request" in each.argnames and not each.func.__module__.startswith("_pytest.") for each in definitions
    )
    doctest: Any = getattr(item, "dtest", None)
    in_doctest = doctest is not None and any("getfixture" in each.source for each in doctest.examples)
    return by_name or in_doctest or (info is not None and "request" in info.argnames)
