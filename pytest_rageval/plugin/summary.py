"""`SummaryPlugin`: prints the table at the end of a run, and writes the reports."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.core.errors import RagevalError, exception_text
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import one_line, printable
from pytest_rageval.options import all_options
from pytest_rageval.options.parsers import Address, destination_kind
from pytest_rageval.options.settings import MODEL_USES, Settings
from pytest_rageval.plugin.completeness import CompletenessPlugin
from pytest_rageval.plugin.runner import Process
from pytest_rageval.plugin.terminal import (
    PASSED,
    argument_of,
    fail_run,
    plain_nodeid,
    print_lines,
    report_outcome,
    shorten_to_place,
    terminal_width,
)

if TYPE_CHECKING:
    from pytest_rageval.models.usage import Usage
    from pytest_rageval.plugin.files import CassetteWriterPlugin
    from pytest_rageval.plugin.workers import Workers
    from pytest_rageval.reports.document import TestEntry

systems_lines: Final = Lazy("reports.systems", "systems_lines")  # few runs have systems

LEGEND: Final = "https://pytest-rageval.github.io/pytest-rageval/reference/terminal-table.html"
"""The page that explains the signs of the table."""

ENTRIES: Final = pytest.StashKey[dict[str, Any]]()
"""The entries of tests for the report, by node id, in the process that writes reports."""

PHASES: Final = frozenset({"setup", "call", "teardown"})
"""The phases of a test. The report of a test whose xdist worker crashed has none of them."""

GREEN_OUTCOMES: Final = frozenset({"passed", "skipped", "xfailed"})  # of tests that do not fail the run

UNFINISHED_STATUSES: Final = frozenset({pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR})
"""The exit statuses of runs whose reports may lack tests."""


class SummaryPlugin:
    """The hooks of the process that writes reports: the only process, or xdist's controller."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        workers: "Workers | None",
        completeness: CompletenessPlugin,
        cassette: "CassetteWriterPlugin | None",
    ) -> None:
        self._config = config
        self._completeness = completeness
        self._cassette = cassette
        self._settings = settings
        self._workers = workers
        self._began_at = time.monotonic()
        self._started = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        # The entries of tests for the report, and the usage of models, by node id.
        self._tests: dict[str, Any] = config.stash.setdefault(ENTRIES, {})
        self._usage_of: dict[str, Usage] = {}
        self._outcomes: dict[str, Mapping[str, str]] = {}
        self._notes: list[str] = []
        self._remarks: list[str] = []
        self._problems: list[str] = []
        self._added: dict[str, Any] = {}  # keys of the report that extensions add

    def pytest_report_header(self) -> list[str]:
        """Print the settings of the preset. Which models a run uses is known at its end."""
        preset = self._settings.applied_preset
        return [one_line(f"rageval: {preset.describe()}")] if preset else []

    def pytest_sessionstart(self) -> None:
        """Raise UsageError for a report of an unknown kind."""
        for destination in self._settings.report:
            from pytest_rageval.reports import KINDS  # noqa: PLC0415 - few runs write reports

            # The registration of other plugins imports many modules, and is not needed for a built-in kind.
            kind = destination_kind(destination)
            if kind not in KINDS and kind not in (writers := Process.get(self._config).writers):
                kinds = ", ".join(sorted(writers))
                name = destination.name if isinstance(destination, Path) else destination
                expected = f"expected a file name or an address of one of these kinds: {kinds}."
                raise pytest.UsageError(printable(f"--rageval-report is '{name}': {expected}"))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the results of a test; the results of a rerun replace the previous ones.

        This hook is called last, because it removes the results from the report, and other plugins read them.
        """
        before = PASSED if report.when == "setup" else self._outcomes.pop(report.nodeid, PASSED)
        self._outcomes[report.nodeid] = _combine(before, report_outcome(report))
        if report.when not in PHASES:
            self._add_without_results(report)
        if report.when == "call" and report.failed and self._config.getoption("tbstyle", "auto") == "line":
            shorten_to_place(report)
        # pytest keeps all reports until the end of the run. The results are removed for the reason in
        # `pytest_unconfigure`.
        results = vars(report).pop("rageval", None)
        if results is None:
            return
        from pytest_rageval.models.usage import Usage  # noqa: PLC0415 - few runs have results
        from pytest_rageval.reports.build import REPORTED_KEYS, has_table  # noqa: PLC0415 - see above

        nodeid = results["nodeid"]
        self._usage_of[nodeid] = self._usage_of.get(nodeid, Usage()) + Usage.from_dict(results["llm"])
        outcome = self._outcomes.pop(report.nodeid, PASSED)
        # A test that is judged later may have no score, as one with a calibration alone.
        if has_table(results) or "judged_later" in results or outcome is not PASSED:
            reported = {name: results[name] for name in REPORTED_KEYS if name in results}
            self._tests[nodeid] = {"nodeid": nodeid, **outcome, **reported}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Report a module that cannot be imported: it may have marked tests."""
        if report.failed:
            self._add_without_results(report)

    def _add_interrupted_usage(self) -> None:
        """Add the usage of models by tests that were interrupted, here and in workers: they have no report."""
        running = Process.get(self._config).running_test()
        in_workers = self._workers.running_tests if self._workers else []
        for nodeid, usage in [*([running] if running else []), *in_workers]:
            self._usage_of.setdefault(plain_nodeid(nodeid), usage)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Call the hook for the end of a run, and write the reports. xdist's workers have ended by then."""
        if exitstatus == pytest.ExitCode.INTERRUPTED:
            self._add_interrupted_usage()
        if self._config.option.collectonly:
            return
        if "reports nothing" in self._settings.effects:
            return
        from pytest_rageval.run import FinishedRun  # noqa: PLC0415 - few processes need it

        run = FinishedRun(
            self._settings,
            self._config.rootpath,
            partial(self._document, session, exitstatus),
            self._completeness.collected,
            self._usage_of,
            self._usage,
            self._completeness.claims(),
            self._completeness.why_tests_left_out(session),
            {} if self._cassette is None else self._cassette.recorded_lines,
            self._notes,
            self._remarks,
            self._problems,
        )
        try:
            for keys in self._config.hook.pytest_rageval_run_finished(run=run):
                self._added.update(keys)
        except RagevalError as error:
            self._problems.append(str(error))
            fail_run(session)
        if self._settings.report:
            run.document.update(self._added)
            self._write_reports(session, run.document)

    def _document(self, session: pytest.Session, exitstatus: int) -> dict[str, object]:
        from pytest_rageval.models.usage import usage_entry  # noqa: PLC0415
        from pytest_rageval.plugin.files import run_entry  # noqa: PLC0415
        from pytest_rageval.reports.build import report_document  # noqa: PLC0415
        from pytest_rageval.reports.settings import settings_entry  # noqa: PLC0415

        matrix, ratings = self._systems
        return report_document(
            self._sorted,
            matrix=matrix,
            ratings=ratings,
            settings=settings_entry(self._settings),
            llm=usage_entry(self._usage),
            package=version("pytest-rageval"),
            started=self._started,
            duration_s=time.monotonic() - self._began_at,
            stopped=exitstatus in UNFINISHED_STATUSES or bool(session.shouldfail or session.shouldstop),
            run=run_entry(
                self._config.rootpath,
                self._settings.baseline,
                os.environ,
                written=[
                    path for option in all_options() if option.is_written and (path := self._settings[option])
                ],
            ),
            gate=self._completeness.gate,
            suite=self._completeness.suite,
        )

    def _write_reports(self, session: pytest.Session, document: Mapping[str, object]) -> None:
        from pytest_rageval.reports import deliver  # noqa: PLC0415 - few runs write reports

        writers = Process.get(self._config).writers
        # Files are written first: sending a report takes time, and may be interrupted.
        for destination in sorted(self._settings.report, key=lambda item: isinstance(item, Address)):
            try:
                delivered_to = deliver(writers[destination_kind(destination)], document, destination)
            except Exception as error:  # noqa: BLE001 - a plugin's error must not prevent the baseline or other reports
                self._problems.append(_delivery_error(destination, error))
                if isinstance(destination, Path):
                    # The file of an earlier run may exist, and could be mistaken for the report of this run.
                    fail_run(session)
            else:
                self._notes.append(f"report: {delivered_to}")

    def pytest_unconfigure(self) -> None:
        """Release the results: pytest then runs several garbage collections, which visit every object."""
        self._tests.clear()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print the table, or what an extension has in its place; and lines about the written files, not with -q.

        This hook is called last, so that the output is next to pytest's summary.
        """
        lines: list[str] | None = None
        if not self._config.option.collectonly:
            lines = self._config.hook.pytest_rageval_summary(
                settings=self._settings, tests=self._sorted, usage_of=self._usage_of
            )
        if lines is None and terminalreporter.verbosity >= 0 and (self._usage_of or self._notes):
            lines = [*self._lines(), *self._notes]
        if lines:
            terminalreporter.section("rageval")
            print_lines(terminalreporter, lines)
        print_lines(terminalreporter, self._remarks)
        if self._tests:
            from pytest_rageval.reports.terminal import warning_lines  # noqa: PLC0415 - few runs have entries

            print_lines(terminalreporter, warning_lines(self._sorted), yellow=True)
        print_lines(terminalreporter, self._problems, yellow=True)

    def _add_without_results(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        nothing: dict[str, object] = {"evalset": None, "scores": []}
        self._tests[report.nodeid] = {"nodeid": report.nodeid, **report_outcome(report), **nothing}

    @property
    def _usage(self) -> "Usage":
        from pytest_rageval.models.usage import Usage  # noqa: PLC0415 - loaded by now, if a test used a model

        return sum(self._usage_of.values(), Usage(batches=Process.get(self._config).batch_usage))

    @property
    def _sorted(self) -> "list[TestEntry]":
        """The entries of the tests, sorted by node id: xdist's workers finish tests in any order."""
        return [self._tests[nodeid] for nodeid in sorted(self._tests)]

    @cached_property
    def _systems(self) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        """The matrices of systems × scores, and the ratings of systems by arena battles; empty if there are none."""
        if not any(
            test.get("system") or any("arena" in entry for entry in test["scores"]) for test in self._sorted
        ):
            return [], []
        from pytest_rageval.reports.systems import matrix_entries, ratings_entries  # noqa: PLC0415 - few runs have systems

        seed = self._settings.seed
        return matrix_entries(self._sorted, seed=seed), ratings_entries(self._sorted, seed=seed)

    def _lines(self) -> list[str]:
        from pytest_rageval.models.usage import usage_entry, usage_lines  # noqa: PLC0415
        from pytest_rageval.reports.build import has_table  # noqa: PLC0415
        from pytest_rageval.reports.terminal import gain_lines, table_lines  # noqa: PLC0415

        # pytest itself reports the tests without a score.
        tests = [test for test in self._sorted if has_table(test)]
        has_systems = any(test.get("system") for test in self._sorted)
        return [
            *(table_lines(tests, terminal_width()) if tests else ()),
            *(self._details(tests) if self._config.get_verbosity() > 0 else ()),
            *(systems_lines(self._sorted, *self._systems) if has_systems else ()),
            *gain_lines(self._sorted, partial(argument_of, self._config), self._added.get("merge", "")),
            *(_models_lines(self._sorted, self._settings) if self._usage.requests else ()),
            *usage_lines(usage_entry(self._usage)),
            *([f"legend: {LEGEND}"] if tests else ()),
        ]

    def _details(self, tests: "list[TestEntry]") -> list[str]:
        """Return what -v adds: how documents were retrieved, and the tables of extensions."""
        from pytest_rageval.reports.evidence import retrieval_lines  # noqa: PLC0415 - only with -v

        tables = Process.get(self._config).tables if tests else ()
        return [*retrieval_lines(tests), *chain.from_iterable(table.lines(tests) for table in tables)]


def _models_lines(tests: "Sequence[TestEntry]", settings: Settings) -> list[str]:
    """Return the models that generate and judge, and the cassette."""
    from pytest_rageval.reports.settings import header_line  # noqa: PLC0415 - few tests use models

    users = {use: [test for test in tests if use in test.get("uses", ())] for use in MODEL_USES}
    uses = [use for use, each in users.items() if each]
    own = [use for use in uses if all(use in test.get("own", ()) for test in users[use])]
    cassette = f"cassette {path.name}" if (path := settings.cassette) else ""
    parts = [header_line(settings, uses, own), cassette]
    return [one_line(", ".join(filter(None, parts)))] if any(parts) else []


def _delivery_error(destination: Path | Address, error: Exception) -> str:
    if isinstance(error, OSError):
        problem = error.strerror or str(error)
    else:
        problem = str(error) if isinstance(error, RagevalError) else exception_text(error)
    effect = "cannot be written" if isinstance(destination, Path) else "was not sent"
    return f"The report {destination} {effect}: {problem.removesuffix('.')}."


def _combine(earlier: Mapping[str, str], later: Mapping[str, str]) -> Mapping[str, str]:
    """Return the outcome of two phases: the first that failed, else the first that did not pass."""
    if earlier is PASSED or (earlier["outcome"] in GREEN_OUTCOMES and later["outcome"] not in GREEN_OUTCOMES):
        return later
    return earlier
