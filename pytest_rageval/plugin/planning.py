"""A plan instead of a run: tests count what they would ask, and are neither passed nor failed."""

from collections.abc import Generator
from typing import ClassVar, Final

import pytest

__all__ = ["PlanningPlugin"]


OURS: Final = {"rageval", "rageval_llm"}
"""Tests that have none of these fixtures ask nothing through us."""


class PlanningPlugin:
    """The hooks of a run with `--rageval-plan`."""

    NAME: ClassVar[str] = "rageval-planning"

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
            path, line, _ = item.location
            report.outcome = "skipped"
            report.longrepr = (path, (line or 0) + 1, "Skipped: planned, nothing was asked")
        return report
