"""One test run: what was asked for, what came out, and the resources in between."""

from pytest_rageval.session.runs import Parts
from pytest_rageval.session.session import Session
from pytest_rageval.session.together import Together

__all__ = ["Parts", "Session", "Together"]
