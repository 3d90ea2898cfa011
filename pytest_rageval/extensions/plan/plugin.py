"""`PlanningPlugin`: the hooks of a run with `--rageval-plan`."""

from collections.abc import Generator

import pytest

from pytest_rageval.core.errors import exception_text
from pytest_rageval.lib.text import counted
from pytest_rageval.plugin.completeness import deselect_tests_without_requests, report_as_skipped
from pytest_rageval.plugin.runner import EvaluationPlugin
from pytest_rageval.plugin.terminal import fail_run, print_lines


class PlanningPlugin:
    """Reports each test as skipped, and the tests that could not be planned to the end."""

    def __init__(self) -> None:
        self._unfinished: list[str] = []
        self._deselected_all = False
        self._gave_placeholders = False
        # The exceptions of fixtures that received a placeholder. pytest raises them again for the next test.
        self._fixture_errors: list[BaseException] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        found = bool(items)
        deselect_tests_without_requests(config, items)
        self._deselected_all = found and not items

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report a planned test as skipped, whatever outcome it had with stubs."""
        report = yield
        self._gave_placeholders |= EvaluationPlugin.get(item.config).has_placeholders(item)
        if call.when == "call" or (call.when == "setup" and self._is_unplanned_setup(item, call)):
            early_end = self._early_end(item, call)
            if early_end:
                self._unfinished.append(f"{item.nodeid}: {early_end}")
            in_part = f"planned in part, it ended at {early_end}"
            report_as_skipped(report, item, in_part if early_end else "planned, no request was sent")
        return report

    def _is_unplanned_setup(self, item: pytest.Item, call: pytest.CallInfo[None]) -> bool:
        if call.excinfo is None:
            return False
        error, plugin = call.excinfo.value, EvaluationPlugin.get(item.config)
        if plugin.is_own_message(error):
            return False
        if plugin.has_placeholders(item):
            self._fixture_errors.append(error)
        return any(error is known for known in self._fixture_errors)

    def _early_end(self, item: pytest.Item, call: pytest.CallInfo[None]) -> str:
        """Return where and why a planned test ended early; "" if it did not, or ends there in a run too."""
        if call.excinfo is None:
            return ""
        error = call.excinfo.value
        ends_in_a_run = isinstance(error, pytest.skip.Exception) or not self._gave_placeholders
        has_placeholders = EvaluationPlugin.get(item.config).has_placeholders(item)
        if call.when == "call" and ends_in_a_run and not has_placeholders:
            return ""
        innermost = call.excinfo.traceback[-1]
        frames = reversed(call.excinfo.traceback)
        frame = next((frame for frame in frames if frame.path == item.path), innermost)
        first_line, *_ = exception_text(error).splitlines()
        return f"line {frame.lineno + 1}, {first_line}"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run whose plan is incomplete; a plan without requests is complete."""
        if self._unfinished:
            fail_run(session)
        elif self._deselected_all and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        if n := len(self._unfinished):
            tests = f"{counted(n, 'test')} could not be planned to the end"
            head = f"{tests}; requests after these places are not counted:"
            print_lines(terminalreporter, [head, *(f"  {line}" for line in self._unfinished)], red=True)
