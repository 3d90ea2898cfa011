"""`ShardPlugin`: lets tests pass that are expected to fail, since `rageval merge` decides."""

from collections.abc import Generator
from typing import Final

import pytest

from pytest_rageval.plugin.runner import EvaluationPlugin
from pytest_rageval.run.test import TestRun

XPASS_PREFIX: Final = "[XPASS(strict)] "
"""The beginning of pytest's message about a test that passed and should have failed."""


class ShardPlugin:
    """Notes in the record of a test that it is expected to fail, and lets it pass."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        test = EvaluationPlugin.get(item.config).test_of(item)
        report = yield
        if test is not None and test.is_recorded:
            _note_xfail(item, report, test)
            results = getattr(report, "rageval", {})
            if "xfail" in test.state and "shard" in results:
                results["shard"] = {**results["shard"], "xfail": test.state["xfail"]}
        return report


def _note_xfail(item: pytest.Item, report: pytest.TestReport, test: TestRun) -> None:
    """Note an xfail mark; one with an exception, as in `xfail(raises=ValueError)`, does not expect a low score."""
    if any("raises" in mark.kwargs for mark in item.iter_markers("xfail")):
        return
    strict = isinstance(report.longrepr, str) and report.longrepr.startswith(XPASS_PREFIX)
    if strict:
        report.wasxfail = str(report.longrepr).removeprefix(XPASS_PREFIX)
        report.outcome, report.longrepr = "passed", None
    if hasattr(report, "wasxfail"):
        test.state["xfail"] = {"reason": report.wasxfail, "strict": strict}
