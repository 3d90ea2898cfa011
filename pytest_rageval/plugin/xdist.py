"""pytest-xdist: the run's name for all workers, and node ids that are equal in all processes."""

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from pytest_rageval.session import RunContext

__all__ = ["ControllerPlugin", "plain_nodeid", "run_context"]


class ControllerPlugin:
    """The hook of xdist's controller."""

    NAME: ClassVar[str] = "rageval-controller"

    def __init__(self) -> None:
        self._run = uuid.uuid4().hex

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send the run's name to a worker."""
        node.workerinput["rageval_run"] = self._run


def run_context(config: pytest.Config) -> "RunContext":
    """What this process has in common with the others of its run."""
    from pytest_rageval.session import RunContext  # noqa: PLC0415 - heavy

    sent: dict[str, Any] = getattr(config, "workerinput", {})
    if "rageval_run" not in sent:
        return RunContext()
    return RunContext(sent["rageval_run"], workers=int(sent.get("workercount", 1)))


def plain_nodeid(nodeid: str) -> str:
    """The node id without the group that xdist's workers append with `--dist loadgroup`.

    >>> plain_nodeid("test_a.py::test_b[x@y]@slow"), plain_nodeid("at@home/test_a.py::test_b[x@y]")
    ('test_a.py::test_b[x@y]', 'at@home/test_a.py::test_b[x@y]')
    """
    at = nodeid.rfind("@")
    # An "@" of a path or a parameter comes before the last "::" or "]".
    return nodeid[:at] if at > max(nodeid.rfind("]"), nodeid.rfind("::")) else nodeid
