"""Disables pytest's assertion rewriting for the modules of this package.

pytest rewrites the assertions in each module of a plugin's distribution. This package has no assertions, and rewritten
modules take longer to load: a fifth of the time of a run that imports a hundred modules.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import pytest

__all__ = ["disable_assertion_rewriting"]


class _Finder:
    """A finder for `sys.meta_path` that precedes pytest's finder."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of this package, without rewriting; None for any other module."""
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_rageval.") else None


def disable_assertion_rewriting(config: pytest.Config) -> None:
    """Import the modules of this package without assertion rewriting until pytest's cleanup."""
    finder = _Finder()

    def remove() -> None:
        # A test may have restored an earlier `sys.meta_path` without this finder.
        with suppress(ValueError):
            sys.meta_path.remove(finder)

    sys.meta_path.insert(0, finder)
    config.add_cleanup(remove)
