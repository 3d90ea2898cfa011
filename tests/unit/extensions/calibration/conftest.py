"""The scripted components of the tests of scores."""

from tests.unit.scores.conftest import world

__all__ = ["world"]
