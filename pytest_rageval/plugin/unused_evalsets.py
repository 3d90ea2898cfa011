"""Warnings of eval sets that no test scores."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import pytest

from pytest_rageval.plugin.markers import EVALUATED
from pytest_rageval.plugin.runner import RECEIVED
from pytest_rageval.plugin.terminal import print_lines

__all__ = ["UnusedEvalSetPlugin"]

EVALSET: Final = "rageval_evalset"


class UnusedEvalSetPlugin:
    """Finds eval sets that no test scores."""

    NAME: ClassVar[str] = "rageval-unscored"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._idle: list[tuple[str, list[pytest.Item]]] = []
        self._of_workers: list[list[str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find the eval sets that no test scores, before any test is deselected."""
        # Where a test is named on the command line, other tests of its module are not collected.
        if not any("::" in argument for argument in self._config.args):
            self._idle = list(_idle(items))

    def pytest_sessionfinish(self) -> None:
        """Send an xdist worker's warnings to the controller."""
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput["rageval_unscored"] = self._unscored  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Note a worker's warnings: every worker collects all tests, and runs some."""
        sent = getattr(node, "workeroutput", {}).get("rageval_unscored")
        self._of_workers += [] if sent is None else [sent]

    @property
    def _unscored(self) -> list[str]:
        """The warnings, now that the tests have ended: one may have asked for the fixture by its name."""
        here = [text for text, tests in self._idle if not any(RECEIVED in test.stash for test in tests)]
        found = self._of_workers or [here]
        return [text for text in dict.fromkeys(found[0]) if all(text in each for each in found)]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Warn of eval sets that no test scores, also with -q."""
        print_lines(terminalreporter, [f"warning: {problem}" for problem in self._unscored], yellow=True)


def _idle(items: list[pytest.Item]) -> Iterator[tuple[str, list[pytest.Item]]]:
    """A warning for each eval-set marker without a test that scores it, as far as is known before they run."""
    tests_of: dict[int, tuple[pytest.Mark, list[pytest.Item]]] = {}
    for item in items:
        if hasattr(item, "fixturenames"):
            for mark in item.iter_markers(EVALSET):
                tests_of.setdefault(id(mark), (mark, []))[1].append(item)
    for mark, tests in tests_of.values():
        if not any(map(_scores, tests)):
            first = tests[0].nodeid
            where = first if len(tests) == 1 else f"{len(tests)} tests, the first of them {first},"
            path = f"{mark.args[0]!r:.60}" if mark.args else ""
            text = (
                f"{EVALSET}({path}) on {where} does nothing: no test under it has a threshold (rageval_threshold), a "
                "calibration (rageval_calibration) or the fixture rageval"
            )
            yield text, tests


def _scores(item: pytest.Item) -> bool:
    return "rageval" in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, EVALUATED))
