"""The fixture `project` of the integration tests, for the attack tests; which of these run with every change."""

from pathlib import Path

import pytest

from tests.integration.conftest import project

__all__ = ["project"]

IN_EVERY_CHANGE = {"test_broken_files", "test_green_builds", "test_missing_gates", "test_silent_green"}
"""The attacks on the verdict and on readers of files. The others, on commands, servers, caches and processes, take
longer together than all other tests, and run before a release."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow attacks on other things than the verdict as long."""
    for item in items:
        if (
            item.path.is_relative_to(Path(__file__).parent)
            and item.path.stem not in IN_EVERY_CHANGE
            and item.get_closest_marker("slow")
        ):
            item.add_marker("long")
