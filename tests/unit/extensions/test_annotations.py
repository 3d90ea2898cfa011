"""Annotations for GitHub: the tests that get one, its position and its text."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from pytest_rageval.extensions.annotations.plugin import Annotation, Place, annotations, place_of
from pytest_rageval.plugin.terminal import print_command


def found(
    *tests: dict[str, Any],
    places: Mapping[str, Place] | None = None,
    workspace: Path = Path(),
    other_plugin_active: bool = False,
) -> list[Annotation]:
    full = [
        {"nodeid": f"t.py::test_{n}", "evalset": None, "scores": []} | test for n, test in enumerate(tests)
    ]
    environ = {"GITHUB_WORKSPACE": str(workspace)}
    return [*annotations(full, places or {}, other_plugin_active=other_plugin_active, environ=environ)]


def score(*warnings: str, **changes: Any) -> dict[str, Any]:
    entry = {"spec": "recall@3", "where": {}, "threshold": None, "verdict": "pass", "mean": 0.5, "n": 4}
    return entry | {"oddities": {}, "warnings": list(warnings)} | changes


def test_what_failed_is_an_error_and_what_warns_a_warning() -> None:
    evalset = {"name": "e.jsonl", "warnings": ["odd key"]}
    assert found(
        {"outcome": "failed", "message": "recall@3: too low\nq1"},
        {"outcome": "error"},
        {"outcome": "passed", "evalset": evalset, "scores": [score("no baseline")], "warnings": ["slow"]},
        {"outcome": "passed", "evalset": evalset},
        *({"outcome": outcome} for outcome in ("passed", "skipped", "xfailed")),
    ) == [
        Annotation("error", {"title": "t.py::test_0"}, "recall@3: too low\nq1"),
        Annotation("error", {"title": "t.py::test_1"}, "error"),
        Annotation("warning", {"title": "t.py::test_2"}, "e.jsonl: odd key\nslow\nrecall@3: no baseline"),
    ]


def test_with_another_annotating_plugin_only_the_rest_is_annotated() -> None:
    tests = [{"outcome": "failed"}, {"outcome": "error"}, {"outcome": "passed", "warnings": ["slow"]}]
    assert [result.properties["title"] for result in found(*tests, other_plugin_active=True)] == [
        "t.py::test_1",
        "t.py::test_2",
    ]


@pytest.mark.parametrize(("n", "shown", "rest"), [(10, 10, None), (11, 9, 2), (400, 9, 391)])
def test_github_shows_ten_of_a_kind_and_the_rest_is_counted(n: int, shown: int, rest: int | None) -> None:
    failed = [{"outcome": "failed", "message": "m"}] * n
    warned = [{"outcome": "passed", "warnings": [f"w{i}"]} for i in range(n)]
    for kind, description, tests in (("error", "failed", failed), ("warning", "with warnings", warned)):
        shown_annotations = found(*tests)
        assert {annotation.kind for annotation in shown_annotations} == {kind}
        titles = [annotation.properties["title"] for annotation in shown_annotations]
        assert titles[:shown] == [f"t.py::test_{i}" for i in range(shown)]
        last = [f"{rest} more tests {description}: the log of the job has all."]
        assert [annotation.message for annotation in shown_annotations[shown:]] == (last if rest else [])


def test_a_long_message_is_cut() -> None:
    (annotation,) = found({"outcome": "failed", "message": "line\n" * 30})
    assert annotation.message == "line\n" * 20 + "…"


def test_the_file_is_relative_to_the_workspace(tmp_path: Path) -> None:
    inside, outside = tmp_path / "repository" / "sub" / "t.py", tmp_path / "t.py"
    inside.parent.mkdir(parents=True)
    for file in (inside, outside):
        file.touch()
    for place, expected in [
        (Place(inside, 3), {"file": "sub/t.py", "line": "3"}),
        (Place(inside, None), {"file": "sub/t.py"}),
        (Place(outside, 3), {}),
        (Place(inside.with_name("gone.py"), 3), {}),
        (Place(inside.parent, None), {}),
    ]:
        places, workspace = {"t.py::test_0": place}, tmp_path / "repository"
        (annotation,) = found({"outcome": "failed"}, places=places, workspace=workspace)
        assert annotation.properties == {**expected, "title": "t.py::test_0"}


def test_the_line_is_that_of_the_failure_in_the_file_of_the_test() -> None:
    root = Path("/project")

    def report(crash: object, line: int | None = 4) -> Any:
        longrepr = SimpleNamespace(reprcrash=crash)
        return SimpleNamespace(location=("sub/t.py", line, "test_x"), longrepr=longrepr)

    file = root / "sub" / "t.py"
    assert place_of(report(SimpleNamespace(path=str(file), lineno=9)), root) == (file, 9)
    assert place_of(report(SimpleNamespace(path="/lib/helper.py", lineno=9)), root) == (file, 5)
    assert place_of(report(None), root) == (file, 5)
    assert place_of(report(None, None), root) == (file, None)


HOSTILE = "100% worse\r\n::error::x\n  ::stop-commands::y ##[group]z\x1b[2J\u2028::error::w"


class Reporter:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def ensure_newline(self) -> None:
        pass

    def line(self, text: str) -> None:
        self.lines += text.splitlines()


def test_a_command_is_one_line_that_quotes_no_other() -> None:
    reporter: Any = Reporter()
    print_command(reporter, "error", {"file": "a,b:c%.py", "title": HOSTILE}, HOSTILE)
    (line,) = reporter.lines
    named, message = re.fullmatch(r"::error file=a%2Cb%3Ac%25\.py,title=([^,:]*)::(.*)", line).groups()
    assert not re.search(r"##\w*\[|[\x00-\x1f\u2028]", line)
    shown = unquote(message)
    assert shown.startswith("100% worse\\u000d\n")
    assert not re.search(r"(?m)^\s*::", shown)
    assert "\n" not in unquote(named)
