"""One test run: what was asked for, what came out, and the resources in between."""

from pytest_rageval.session.pipelines import Components
from pytest_rageval.session.session import RunContext, Session

__all__ = ["Components", "RunContext", "Session"]
