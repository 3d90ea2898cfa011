"""What xdist's controller tells its workers, so that they are one run: its name."""

import uuid
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from pytest_rageval.session import Together

__all__ = ["ControllerPlugin", "together"]


class ControllerPlugin:
    """The hook of xdist's controller."""

    NAME: ClassVar[str] = "rageval-controller"

    def __init__(self) -> None:
        self._told = {"run": uuid.uuid4().hex}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker that is about to start."""
        node.workerinput["rageval_run"] = self._told


def together(config: pytest.Config) -> "Together":
    """What this process has in common with the others of its run."""
    from pytest_rageval.session import Together  # noqa: PLC0415 - it imports what is heavy

    given: dict[str, Any] = getattr(config, "workerinput", {})
    if "rageval_run" not in given:
        return Together()
    return Together(**given["rageval_run"], workers=int(given.get("workercount", 1)))
