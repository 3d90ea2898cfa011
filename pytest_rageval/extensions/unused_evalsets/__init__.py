"""Warns about eval sets that no test scores: marks `rageval_evalset` on tests without a threshold or `rageval`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    import pytest


@hookimpl
def pytest_rageval_start(config: "pytest.Config") -> Sequence[object]:
    return (UnusedEvalSetPlugin(config),)


class UnusedEvalSetPlugin:
    def __init__(self, config: "pytest.Config") -> None:
        self._config = config
        # The warnings after the collection, each with the tests that its marker applies to.
        self._candidates: list[tuple[str, list[pytest.Item]]] = []
        self._worker_warnings: list[list[str]] = []

    @hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: "list[pytest.Item]") -> None:
        # If the command line names a test, pytest does not collect the other tests of the module.
        if not any("::" in argument for argument in self._config.args):
            self._candidates = list(_unscored_markers(items))

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput["rageval_unscored"] = self._warnings  # type: ignore[attr-defined]

    @hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        warnings = getattr(node, "workeroutput", {}).get("rageval_unscored")
        self._worker_warnings += [] if warnings is None else [warnings]

    @property
    def _warnings(self) -> list[str]:
        """The warnings that remain after the tests: a test may have called `request.getfixturevalue("rageval")`.

        Every worker collects all tests and runs some, so a warning remains only if all workers have it.
        """
        from pytest_rageval.plugin.runner import RECEIVED_FIXTURE  # noqa: PLC0415 - every run imports this module

        own_warnings = [
            text
            for text, tests in self._candidates
            if not any(RECEIVED_FIXTURE in test.stash for test in tests)
        ]
        by_process = self._worker_warnings or [own_warnings]
        return [
            text for text in dict.fromkeys(by_process[0]) if all(text in warnings for warnings in by_process)
        ]

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        from pytest_rageval.plugin.terminal import print_lines  # noqa: PLC0415 - as above

        print_lines(terminalreporter, [f"warning: {text}" for text in self._warnings], yellow=True)


def _unscored_markers(items: "list[pytest.Item]") -> "Iterator[tuple[str, list[pytest.Item]]]":
    """Yield a warning for each mark whose tests compute no score, as far as is known before they run."""
    from pytest_rageval.core.evalset import EVALSET  # noqa: PLC0415 - as above
    from pytest_rageval.plugin.markers import EVALUATED_MARKERS  # noqa: PLC0415 - as above

    tests_by_mark: dict[int, tuple[pytest.Mark, list[pytest.Item]]] = {}
    for item in items:
        if hasattr(item, "fixturenames"):
            for mark in item.iter_markers(EVALSET):
                tests_by_mark.setdefault(id(mark), (mark, []))[1].append(item)
    for mark, tests in tests_by_mark.values():
        if not any(_is_scored(test, EVALUATED_MARKERS) for test in tests):
            first = tests[0].nodeid
            where = first if len(tests) == 1 else f"{len(tests)} tests, the first of them {first},"
            path = f"{mark.args[0]!r:.60}" if mark.args else ""
            text = (
                f"{EVALSET}({path}) on {where} does nothing: no test under it has the fixture rageval or a mark that "
                f"evaluates it ({', '.join(EVALUATED_MARKERS)})"
            )
            yield text, tests


def _is_scored(item: "pytest.Item", markers: Sequence[str]) -> bool:
    return "rageval" in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, markers))
