"""The end of a run: the table or the plan on the terminal, and the report files."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.files import write_whole
from pytest_rageval.plugin.runner import GatePlugin
from pytest_rageval.plugin.terminal import PASSED, ended, print_lines, worse_end
from pytest_rageval.printable import one_line, printable

if TYPE_CHECKING:
    from pytest_rageval.llm.usage import Usage

__all__ = ["SummaryPlugin", "check_kinds", "written"]


def check_kinds(config: pytest.Config, paths: Sequence[Path]) -> None:
    """Let pass files of kinds that there are: nobody wants to hear it after the run.

    Raises:
        UsageError: a file's name ends in nothing that is known.
    """
    from pytest_rageval.reports import KINDS  # noqa: PLC0415 - few runs write reports

    for path in paths:
        # Other plugins are asked only where it matters: that imports much.
        if path.suffix not in KINDS and path.suffix not in (added := GatePlugin.of(config).reports):
            *most, last = sorted({*KINDS, *added})
            message = (
                f"--rageval-report is '{path.name}': expected a file name that ends in "
                f"{', '.join(most)} or {last}."
            )
            raise pytest.UsageError(printable(message))


def written(
    config: pytest.Config, paths: Sequence[Path], document: Mapping[str, Any]
) -> Iterator[tuple[Path, str]]:
    """Write each file; with each, why it cannot be written, or nothing."""
    from pytest_rageval.reports import KINDS  # noqa: PLC0415 - few runs write reports

    # What a plugin adds rules over what is built in.
    kinds = {**KINDS, **GatePlugin.of(config).reports}
    for path in paths:
        try:
            text = kinds[path.suffix](document)
            path.parent.mkdir(parents=True, exist_ok=True)
            # Half of a surrogate pair is no text; written so, it is at least what JSON writes.
            write_whole(path, [text.encode(errors="backslashreplace")])
        except OSError as error:
            yield path, error.strerror or str(error)
        except Exception as error:  # noqa: BLE001 - a plugin's mistake must not cost the baseline or other reports
            yield path, f"{type(error).__name__}: {error}"
        else:
            yield path, ""


KEPT: Final = (
    *("nodeid", "evalset", "function", "system", "parameters", "own", "warnings"),
    *("scores", "agreement", "calibration"),
)
"""What of a test's results the reports show."""

LEGEND: Final = "https://pytest-rageval.github.io/pytest-rageval/reference/terminal-table.html"
"""The page that explains the signs of the table."""

PHASES: Final = frozenset({"setup", "call", "teardown"})
"""Of a test; what xdist says of one whose worker died is of none."""


class SummaryPlugin:
    """The hooks of the process that reports: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-outcome"

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._began = time.monotonic()
        self._started = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        self._tests: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, Usage] = {}
        self._notes: list[str] = []
        self._problems: list[str] = []
        self._ends: dict[str, Mapping[str, str]] = {}

    def pytest_report_header(self) -> str:
        """Say what generates, what compares, and where replies come from."""
        cassette = self._settings.cassette
        told = f"rageval: {self._settings.in_force()}" + (f", cassette {cassette.name}" if cassette else "")
        return one_line(told)

    def pytest_sessionstart(self) -> None:
        """Refuse report files of which nobody knows how to write them."""
        if self._settings.report:
            check_kinds(self._config, self._settings.report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a test's results; a rerun replaces those of the run before."""
        before = PASSED if report.when == "setup" else self._ends.pop(report.nodeid, PASSED)
        self._ends[report.nodeid] = worse_end(before, ended(report))
        results = getattr(report, "rageval", None)
        if report.when not in PHASES:
            self._lost(report)
        if results is None:
            return
        from pytest_rageval.llm.usage import Usage  # noqa: PLC0415 - few runs have results

        usage = Usage.of(results["llm"])
        self._asked[results["nodeid"]] = self._asked.get(results["nodeid"], Usage()) + usage
        end = self._ends.pop(report.nodeid, PASSED)
        if results["scores"] or {"agreement", "calibration"} & results.keys() or end is not PASSED:
            kept = {name: results[name] for name in KEPT if name in results}
            self._tests[results["nodeid"]] = {"nodeid": results["nodeid"], **end, **kept}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be imported has tests that nobody knows of: the reports say so."""
        if report.failed:
            self._lost(report)

    def _lost(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Tell of what ended before anybody could know whether it is ours."""
        end = ended(report)
        self._tests[report.nodeid] = {"nodeid": report.nodeid, **end, "evalset": None, "scores": []}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report files, over those of the last run that had results."""
        if not self._settings.report or self._config.option.collectonly:
            return
        if self._settings.plan:
            self._notes.append("no report: a plan has no results")
            return
        from pytest_rageval.reports.results import report_document, usage_entry  # noqa: PLC0415 - see above

        document = report_document(
            self._sorted,
            matrix=self._matrix,
            ratings=self._ratings,
            settings=self._settings.entry(),
            llm=usage_entry(self._usage),
            package=version("pytest-rageval"),
            started=self._started,
            duration_s=time.monotonic() - self._began,
            stopped=exitstatus == pytest.ExitCode.INTERRUPTED
            or bool(session.shouldfail or session.shouldstop),
        )
        for path, problem in written(self._config, self._settings.report, document):
            if problem:
                self._problems.append(f"The report {path} cannot be written: {problem}.")
                # Whoever reads the reports would take those of an earlier run for this one's.
                if session.exitstatus == pytest.ExitCode.OK:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
            else:
                self._notes.append(f"report: {path}")

    @property
    def _usage(self) -> "Usage":
        """What all tests asked for."""
        from pytest_rageval.llm.usage import Usage  # noqa: PLC0415 - loaded by now, where there is any

        return sum(self._asked.values(), Usage())

    @property
    def _sorted(self) -> list[dict[str, Any]]:
        """The tests by node id: xdist's workers end them in any order."""
        return [self._tests[nodeid] for nodeid in sorted(self._tests)]

    @cached_property
    def _matrix(self) -> list[dict[str, Any]]:
        """Computed when all tests have ended: the report files and the terminal show the same."""
        from pytest_rageval.reports.systems import matrix_entries  # noqa: PLC0415 - few runs do

        return matrix_entries(self._sorted, seed=self._settings.seed)

    @property
    def _ratings(self) -> list[dict[str, Any]]:
        """The ratings of systems by their battles against the references in the arena."""
        from pytest_rageval.reports.systems import ratings_entries  # noqa: PLC0415 - few runs do

        return ratings_entries(self._sorted, seed=self._settings.seed)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, or the plan, and what was written."""
        # A plan is all that its run is for: also with -q.
        shown = (self._asked or self._notes) and (self._settings.plan or terminalreporter.verbosity >= 0)
        lines = [*(self._plan() if self._settings.plan else self._table()), *self._notes] if shown else []
        if lines:
            terminalreporter.section("rageval")
        print_lines(terminalreporter, lines)
        if self._tests:
            from pytest_rageval.reports.terminal import warning_lines  # noqa: PLC0415 - few runs do

            # Also with -q: a pass that is to be read with care.
            print_lines(terminalreporter, warning_lines(self._sorted), yellow=True)
        print_lines(terminalreporter, self._problems, yellow=True)

    def _table(self) -> list[str]:
        from pytest_rageval.reports.results import usage_entry, usage_lines  # noqa: PLC0415
        from pytest_rageval.reports.systems import matrix_lines, ratings_lines  # noqa: PLC0415
        from pytest_rageval.reports.terminal import table_lines  # noqa: PLC0415

        # pytest itself tells of a test that ended before it had a score.
        scored = [
            test for test in self._sorted if test["scores"] or {"agreement", "calibration"} & test.keys()
        ]
        return [
            *(table_lines(scored) if scored else ()),
            *matrix_lines(self._matrix),
            *ratings_lines(self._ratings),
            *usage_lines(usage_entry(self._usage)),
            *([f"legend: {LEGEND}"] if scored else ()),
        ]

    def _plan(self) -> list[str]:
        from pytest_rageval.reports.terminal import plan_lines  # noqa: PLC0415 - few runs do

        return plan_lines(sorted(self._asked.items()))
