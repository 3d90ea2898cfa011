"""The fixtures of `rageval cache`, and of retrievers that call a model."""

from tests.unit.cli.conftest import cache, rageval
from tests.unit.retrievers.conftest import ask

__all__ = ["ask", "cache", "rageval"]
