"""Whether a run was a full one: only then is what it did not touch no longer needed."""

from collections import Counter
from typing import Any, ClassVar, Final

import pytest

__all__ = ["CompletenessPlugin", "SelectionPlugin"]

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
