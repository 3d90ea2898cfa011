"""A plan instead of a run: tests count what they would ask, and are neither passed nor failed."""

from collections.abc import Generator
from typing import ClassVar, Final

import pytest

from pytest_rageval.plugin.gate import GatePlugin
from pytest_rageval.plugin.printing import print_lines

__all__ = ["PlanningPlugin"]


OURS: Final = {"rageval", "rageval_llm"}
"""Tests that have none of these fixtures ask nothing through us."""


class PlanningPlugin:
    """The hooks of a run with `--rageval-plan`."""

    NAME: ClassVar[str] = "rageval-planning"

    def __init__(self) -> None:
        self._unfinished: list[str] = []

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests that ask nothing of us."""
        ours: list[pytest.Item] = []
        rest: list[pytest.Item] = []
        for item in items:
            (ours if OURS & set(getattr(item, "fixturenames", ())) else rest).append(item)
        if rest:
            config.hook.pytest_deselected(items=rest)
            items[:] = ours

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A test that was only counted is skipped, whatever its statements made of stand-ins."""
        report = yield
        if call.when == "call":
            why = _ended_early(item, call)
            if why:
                self._unfinished.append(f"{item.nodeid}: {why}")
            path, line, _ = item.location
            report.outcome = "skipped"
            reason = f"planned in part, it ended at {why}" if why else "planned, nothing was asked"
            report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A plan that counts too little must not be approved by its exit status."""
        if self._unfinished and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests were not planned to their end."""
        if not self._unfinished:
            return
        n = len(self._unfinished)
        what = f"{n} test{'' if n == 1 else 's'} could not be planned to the end"
        lines = [f"{what}; what is asked behind these places is not counted:"]
        lines += [f"  {line}" for line in self._unfinished]
        print_lines(terminalreporter, lines, red=True)


def _ended_early(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Where and why a test ended before its last statement; empty where it did not."""
    if call.excinfo is None:
        return ""
    error = call.excinfo.value
    if isinstance(error, pytest.skip.Exception) and not GatePlugin.of(item.config).stood_in(item):
        # It skips itself in a run too.
        return ""
    place = call.excinfo.traceback[-1]
    own = next((each for each in reversed(call.excinfo.traceback) if each.path == item.path), place)
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return f"line {own.lineno + 1}, {first}"
