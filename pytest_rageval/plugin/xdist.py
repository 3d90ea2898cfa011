"""pytest-xdist: what the controller sends its workers, and test names that are equal in both."""

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from pytest_rageval.session import RunContext

__all__ = ["ControllerPlugin", "plain_nodeid", "together"]


class ControllerPlugin:
    """The hook of xdist's controller."""

    NAME: ClassVar[str] = "rageval-controller"

    def __init__(self) -> None:
        self._told = {"run": uuid.uuid4().hex}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker that is about to start."""
        node.workerinput["rageval_run"] = self._told


def together(config: pytest.Config) -> "RunContext":
    """What this process has in common with the others of its run."""
    from pytest_rageval.session import RunContext  # noqa: PLC0415 - it imports what is heavy

    given: dict[str, Any] = getattr(config, "workerinput", {})
    if "rageval_run" not in given:
        return RunContext()
    return RunContext(**given["rageval_run"], workers=int(given.get("workercount", 1)))


def plain_nodeid(nodeid: str) -> str:
    """The node id without the group that xdist's workers put behind it with `--dist loadgroup`.

    >>> plain_nodeid("test_a.py::test_b[x@y]@slow"), plain_nodeid("at@home/test_a.py::test_b[x@y]")
    ('test_a.py::test_b[x@y]', 'at@home/test_a.py::test_b[x@y]')
    """
    at = nodeid.rfind("@")
    # Neither a function's name nor what follows its parameters has the sign otherwise.
    return nodeid[:at] if at > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid
