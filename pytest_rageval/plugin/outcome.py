"""The end of a run: the table on the terminal, the report files, the cassette."""

import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, ClassVar

import pytest

from pytest_rageval.config import Settings
from pytest_rageval.errors import StoreError
from pytest_rageval.plugin.gate import GatePlugin

__all__ = ["OutcomePlugin", "WorkerPlugin"]

USAGE = ("requests", "cached", "live", "failed", "tokens_in", "tokens_out")


class OutcomePlugin:
    """The hooks of the process that reports: the only one, or xdist's controller."""

    NAME: ClassVar[str] = "rageval-outcome"

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._began = time.monotonic()
        self._started = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        self._tests: dict[str, dict[str, Any]] = {}
        self._llm = dict.fromkeys(USAGE, 0)
        self._recorded: dict[str, str] = {}
        self._notes: list[str] = []

    def pytest_report_header(self) -> str:
        """Say what generates, what compares, and where replies come from."""
        cassette = self._settings.cassette
        return f"rageval: {self._settings.in_force()}" + (f", cassette {cassette.name}" if cassette else "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a test's results; a rerun replaces those of the run before."""
        results = getattr(report, "rageval", None)
        if results is None:
            return
        for name, count in results["llm"].items():
            self._llm[name] += count
        if results["scores"]:
            kept = ("nodeid", "evalset", "scores")
            self._tests[results["nodeid"]] = {name: results[name] for name in kept}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what an xdist worker recorded."""
        self._recorded.update(getattr(node, "workeroutput", {}).get("rageval_recorded", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the report files and the cassette."""
        for path in self._settings.report:
            from pytest_rageval.reports.json_report import json_report  # noqa: PLC0415 - few runs do

            text = json_report(
                self._sorted,
                llm={**self._llm, "cost_usd": 0.0},
                package=version("pytest-rageval"),
                started=self._started,
                duration_s=time.monotonic() - self._began,
            )
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                self._notes.append(f"The report {path} cannot be written: {error.strerror or error}.")
            else:
                self._notes.append(f"report: {path}")
        if self._settings.record:
            self._recorded.update(GatePlugin.of(self._config).recorded())
            self._write_cassette()

    @property
    def _sorted(self) -> list[dict[str, Any]]:
        """The tests by node id: xdist's workers end them in any order."""
        return [self._tests[nodeid] for nodeid in sorted(self._tests)]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, and what was written."""
        if not (self._tests or self._notes) or terminalreporter.verbosity < 0:
            return
        from pytest_rageval.reports.table import table_lines, usage_line  # noqa: PLC0415 - few runs do

        terminalreporter.section("rageval")
        if self._tests:
            for line in table_lines(self._sorted):
                terminalreporter.line(line)
        if self._llm["requests"]:
            terminalreporter.line(usage_line(self._llm))
        for note in self._notes:
            terminalreporter.line(note)

    def _write_cassette(self) -> None:
        from pytest_rageval.llm.cassette import read_cassette, write_cassette  # noqa: PLC0415 - rare
        from pytest_rageval.llm.reply import Reply  # noqa: PLC0415

        path = self._settings.cassette
        if path is None:
            return
        try:
            kept = read_cassette(path) if path.exists() else {}
            used = {key: Reply.loads(text) for key, text in self._recorded.items()}
            write_cassette(path, {**kept, **used})
        except StoreError as error:
            self._notes.append(str(error))
        else:
            new = len(used.keys() - kept.keys())
            unused = len(kept.keys() - used.keys())
            self._notes.append(
                f"cassette: {path} ({len(used)} replies used, {new} of them new; {unused} kept unused)"
            )


class WorkerPlugin:
    """The hook of an xdist worker: what it recorded goes to the controller."""

    NAME: ClassVar[str] = "rageval-worker"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_sessionfinish(self) -> None:
        """Leave the replies where xdist takes them along."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        output["rageval_recorded"] = GatePlugin.of(self._config).recorded()
