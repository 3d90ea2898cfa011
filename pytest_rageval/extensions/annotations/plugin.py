"""Annotations of GitHub: failures and warnings that GitHub displays at their lines in the diff of a pull request.

An annotation is a workflow command in the output of a job, `::error file=…::…`.
"""

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pytest_rageval.lib.text import counted
from pytest_rageval.plugin.completeness import GATE_FAILURES
from pytest_rageval.plugin.summary import ENTRIES
from pytest_rageval.plugin.terminal import plain_nodeid, print_command
from pytest_rageval.reports.document import TestEntry
from pytest_rageval.reports.terminal import warning_lines

OTHER_PLUGIN: Final = "pytest_github_actions_annotate_failures"
"""The name of a plugin that annotates tests whose body fails, but not tests that fail in their setup."""

MAX_ANNOTATIONS: Final = 10  # errors, and warnings, that GitHub shows for a step of a job
MAX_LINES: Final = 20  # of an annotation; the log and the reports have the whole text


class Place(NamedTuple):
    file: Path
    line: int | None


class Annotation(NamedTuple):
    """A workflow command, "error" or "warning", with a title, and the place if GitHub can show it."""

    kind: str
    properties: Mapping[str, str]
    message: str


class AnnotationPlugin:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._places: dict[str, Place] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup" or report.failed:
            self._places[plain_nodeid(report.nodeid)] = place_of(report, self._config.rootpath)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._places[plain_nodeid(report.nodeid)] = place_of(report, self._config.rootpath)

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> Generator[None]:
        yield
        tests = [entry for _, entry in sorted(self._config.stash[ENTRIES].items())]
        other_plugin_active = self._config.pluginmanager.has_plugin(OTHER_PLUGIN)
        failures = self._config.stash.get(GATE_FAILURES, [])
        for annotation in annotations(tests, self._places, failures, other_plugin_active=other_plugin_active):
            print_command(terminalreporter, *annotation)


def place_of(report: pytest.TestReport | pytest.CollectReport, root: Path) -> Place:
    """Return the place of a failure: the line in the test's file that the failure names, else the test itself."""
    name, line, _ = report.location or (report.fspath, None, None)
    file = root / name
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and Path(crash.path) == file:
        return Place(file, crash.lineno)
    return Place(file, None if line is None else line + 1)


def annotations(
    tests: Iterable["TestEntry"],
    places: Mapping[str, Place],
    failures: Iterable[str] = (),
    *,
    other_plugin_active: bool,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[Annotation]:
    """Yield an annotation for each failed test, and for each with warnings, at most `MAX_ANNOTATIONS` each.

    `failures` are messages of the run as a whole; they come first.
    """
    workspace = Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()
    errors = [Annotation("error", {"title": "rageval"}, _shorten(text)) for text in failures]
    warnings = []
    seen = set[str]()
    for test in tests:
        properties = {
            **_place_properties(places.get(test["nodeid"]), workspace),
            "title": test["nodeid"],
        }
        if test["outcome"] in {"failed", "error"}:
            if not (other_plugin_active and test["outcome"] == "failed"):
                text = _shorten(test.get("message") or test["outcome"])
                errors.append(Annotation("error", properties, text))
        elif lines := [line for line in _warnings(test) if line not in seen]:
            seen.update(lines)
            warnings.append(Annotation("warning", properties, _shorten("\n".join(lines))))
    yield from _limit(errors, "failed")
    yield from _limit(warnings, "with warnings")


def _place_properties(place: Place | None, workspace: Path) -> dict[str, str]:
    """Return the properties of a place; empty for a file outside the workspace, which GitHub cannot show."""
    if place is None:
        return {}
    file = place.file.resolve()
    if not (file.is_relative_to(workspace) and file.is_file()):
        return {}
    line = {} if place.line is None else {"line": str(place.line)}
    return {"file": file.relative_to(workspace).as_posix(), **line}


def _warnings(test: "TestEntry") -> list[str]:
    lines = (line.removeprefix("warning: ") for line in warning_lines([test]))
    return [line.removeprefix(f"{test['nodeid']}: ") for line in lines]


def _shorten(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:MAX_LINES], "…"] if len(lines) > MAX_LINES else lines)


def _limit(all_annotations: list[Annotation], outcome: str) -> list[Annotation]:
    """Return as many annotations as GitHub shows. If there are more, the last one has the number of omitted tests."""
    if len(all_annotations) <= MAX_ANNOTATIONS:
        return all_annotations
    shown = all_annotations[: MAX_ANNOTATIONS - 1]
    omitted = len(all_annotations) - len(shown)
    text = f"{counted(omitted, 'more test')} {outcome}: the log of the job has all."
    return [*shown, Annotation(all_annotations[0].kind, {"title": "rageval"}, text)]
