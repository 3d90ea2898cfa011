"""Imports modules of this package as Python does, not as pytest imports plugins.

pytest rewrites the assertions in each module of a plugin's distribution. This package has none, and reading a rewritten
module takes so much longer than importing it that it was a fifth of what a run with a hundred modules took.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import pytest

__all__ = ["disable_assertion_rewriting"]


class _Finder:
    """A finder for `sys.meta_path`, to be asked before pytest's."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of this package is; None for any other."""
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_rageval.") else None


def disable_assertion_rewriting(config: pytest.Config) -> None:
    """Let no assertions be looked for in the modules of this package, until the process is done with pytest."""
    finder = _Finder()

    def remove() -> None:
        # A test may have put back the finders that there were before.
        with suppress(ValueError):
            sys.meta_path.remove(finder)

    sys.meta_path.insert(0, finder)
    config.add_cleanup(remove)
