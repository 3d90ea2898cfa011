"""The hook by which other plugins add scores, comparators and formats."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_rageval.evaluations.registry import Registry

__all__ = ["pytest_rageval_register"]


@pytest.hookspec
def pytest_rageval_register(registry: "Registry") -> None:
    """Add scores, comparators, answer measures, retriever adapters, eval-set formats and reports.

    Called once a process, before the first score is computed or the first report is written.

    Args:
        registry: see `pytest_rageval.evaluations.registry.Registry` for its methods.
    """
