"""Annotations of GitHub: failures and warnings at their lines in the diff of a pull request.

They are commands in the output, `::error file=…::…`, which the runner of a job reads.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pytest_rageval.plural import counted

__all__ = ["OTHER", "Annotation", "Place", "annotations", "place_of"]

OTHER: Final = "pytest_github_actions_annotate_failures"
"""A plugin that annotates each test whose body fails, and none that fails in its setup."""

MOST: Final = 10
"""GitHub shows at most so many errors, and so many warnings, of a step."""

LINES: Final = 20
"""Of a failure's text; the job's log and the reports have all."""


class Place(NamedTuple):
    """A file, and the number of a line in it where one is known."""

    file: Path
    line: int | None


class Annotation(NamedTuple):
    """A command to the runner: "error" or "warning", what it is about, and the text."""

    kind: str
    properties: Mapping[str, str]
    message: str


def place_of(report: pytest.TestReport | pytest.CollectReport, root: Path) -> Place:
    """Where a test failed: the line in its file that the failure names, else the test itself."""
    name, line, _ = report.location or (report.fspath, None, None)
    file = root / name
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and Path(crash.path) == file:
        return Place(file, crash.lineno)
    return Place(file, None if line is None else line + 1)


def annotations(
    tests: Iterable[Mapping[str, Any]],
    places: Mapping[str, Place],
    *,
    beside_other: bool,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[Annotation]:
    """An annotation for each test that failed, and for each other one with warnings; those beyond `MOST` are counted.

    Args:
        tests: as in the report.
        places: of the tests, by node id.
        beside_other: whether the plugin `OTHER` annotates failures too.
        environ: names the workspace, which paths are relative to.
    """
    workspace = Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()
    errors, warnings = [], []
    said = set[str]()
    for test in tests:
        about = {**_where(places.get(test["nodeid"]), workspace), "title": test["nodeid"]}
        if test["outcome"] in {"failed", "error"}:
            if not (beside_other and test["outcome"] == "failed"):
                errors.append(Annotation("error", about, _beginning(test.get("message") or test["outcome"])))
        elif lines := [line for line in _warnings(test) if line not in said]:
            said.update(lines)
            warnings.append(Annotation("warning", about, _beginning("\n".join(lines))))
    yield from _at_most(errors, "failed")
    yield from _at_most(warnings, "with warnings")


def _where(place: Place | None, workspace: Path) -> dict[str, str]:
    """The properties of a place; none of a file outside the workspace, which GitHub cannot show."""
    if place is None:
        return {}
    file = place.file.resolve()
    if not (file.is_relative_to(workspace) and file.is_file()):
        return {}
    line = {} if place.line is None else {"line": str(place.line)}
    return {"file": file.relative_to(workspace).as_posix(), **line}


def _warnings(test: Mapping[str, Any]) -> list[str]:
    from pytest_rageval.reports.terminal import warning_lines  # noqa: PLC0415 - imported by now

    lines = (line.removeprefix("warning: ") for line in warning_lines([test]))
    return [line.removeprefix(f"{test['nodeid']}: ") for line in lines]


def _beginning(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:LINES], "…"] if len(lines) > LINES else lines)


def _at_most(found: list[Annotation], what: str) -> list[Annotation]:
    """As many as GitHub shows; the last one counts those that are left out."""
    if len(found) <= MOST:
        return found
    kept = found[: MOST - 1]
    rest = f"{counted(len(found) - len(kept), 'more test')} {what}: the log of the job has all."
    return [*kept, Annotation(found[0].kind, {"title": "rageval"}, rest)]
