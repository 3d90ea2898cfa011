"""The tests that a run of stubs does not run to their end: which send no requests, and their reports."""

from typing import Any

import pytest

from pytest_rageval.plugin.markers import EVALUATED_MARKERS
from pytest_rageval.plugin.runner import EvaluationPlugin


def report_as_skipped(report: pytest.TestReport, item: pytest.Item, reason: str) -> None:
    """Change the report of a test to that of a skipped test."""
    path, line, _ = item.location
    report.outcome = "skipped"
    report.longrepr = (path, (line or 0) + 1, f"Skipped: {reason}")


def deselect_tests_without_requests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that cannot send requests to a model."""
    if EvaluationPlugin.get(config).settings.gateway:
        # Any test may call the application, which sends its requests through the gateway.
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
