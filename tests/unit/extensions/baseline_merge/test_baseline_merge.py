"""`rageval baseline merge`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.baseline import Baseline
from pytest_rageval.cli import main

Sides = dict[str, float | None]


def _document(scores: Sides) -> dict[str, Any]:
    tests = {
        nodeid: {
            "questions": {"q1": "0123456789ab"},
            "scores": {"recall@1": {"fingerprint": {}, "examples": {"q1": {"score": score}}}},
        }
        for nodeid, score in scores.items()
        if score is not None
    }
    return {"schema": 1, "tests": tests}


def _merge(folder: Path, base: Sides | None, ours: Sides, theirs: Sides) -> tuple[int, Sides]:
    """Merge sides of two schemas: a branch that wrote the file in another form has not changed it."""
    for name, side in (("base", base), ("ours", ours), ("theirs", theirs)):
        (folder / name).write_text("" if side is None else json.dumps(_document(side)))
    Baseline.read(folder / "ours").write(folder / "ours")
    status = main(["baseline", "merge", *(str(folder / name) for name in ("base", "ours", "theirs"))])
    return status, {
        nodeid: entry["scores"]["recall@1"]["examples"]["q1"]["score"]
        for nodeid, entry in Baseline.read(folder / "ours").tests.items()
    }


@pytest.mark.parametrize(
    ("sides", "status", "merged"),
    [
        (({"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.2}, {"a": 0.1, "b": 0.4}), 0, {"a": 0.3, "b": 0.4}),
        (({"a": 0.1}, {"a": 0.1, "b": 0.2}, {"a": 0.1, "c": 0.3}), 0, {"a": 0.1, "b": 0.2, "c": 0.3}),
        (({"a": 0.1, "b": 0.2}, {"a": 0.1}, {"a": 0.5, "b": 0.2}), 0, {"a": 0.5}),
        (({"a": 0.1}, {"a": 0.2}, {"a": 0.2}), 0, {"a": 0.2}),
        ((None, {"a": 0.1}, {"b": 0.2}), 0, {"a": 0.1, "b": 0.2}),
        (({"a": 0.1}, {"a": 0.2}, {"a": 0.3}), 1, {"a": 0.2}),
        (({"a": 0.1, "b": 0.1}, {"b": 0.1}, {"a": 0.3, "b": 0.1}), 1, {"b": 0.1, "a": 0.3}),
        ((None, {"a": 0.1}, {"a": 0.2}), 1, {"a": 0.1}),
    ],
    ids=["other tests", "new", "removed", "the same", "no base", "both", "removed and changed", "both new"],
)
def test_tests_are_merged(sides: Any, status: int, merged: Sides, tmp_path: Path, capsys: Any) -> None:
    assert _merge(tmp_path, *sides) == (status, merged)
    assert ("both branches changed a" in capsys.readouterr().err) is bool(status)


def test_what_is_no_baseline_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("{}")
    assert main(["baseline", "merge", *[str(tmp_path / "a")] * 3]) == 2
    assert main(["baseline", "merge", str(tmp_path / "a")]) == 2
    assert "Three files are needed" in capsys.readouterr().err


@pytest.mark.slow
def test_git_merges_two_branches_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring lines conflict in a merge of texts, and not in one of tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")

    def git(*arguments: str) -> int:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", *identity, *arguments]
        return subprocess.run(command, check=False, capture_output=True).returncode

    def commit(scores: Sides) -> None:
        Path("new").write_text(json.dumps(_document(scores)))
        Baseline.read(Path("new")).write(Path("rageval_baseline.json"))
        git("add", "rageval_baseline.json", ".gitattributes")
        assert git("commit", "-m", "scores") == 0

    git("init", "-b", "main")
    assert main(["baseline", "merge", "--install"]) == main(["baseline", "merge", "--install"]) == 0
    assert Path(".gitattributes").read_text() == "rageval_baseline.json merge=rageval-baseline\n"
    commit({"a": 0.1})
    git("checkout", "-b", "branch")
    commit({"a": 0.1, "b": 0.2})
    git("checkout", "main")
    commit({"a": 0.1, "c": 0.3})
    assert git("merge", "branch") == 0
    assert Baseline.read(Path("rageval_baseline.json")).tests.keys() == {"a", "b", "c"}
    commit({"a": 0.5, "b": 0.2, "c": 0.3})
    git("checkout", "branch")
    commit({"a": 0.6, "b": 0.2})
    assert git("merge", "main") != 0
    Baseline.read(Path("rageval_baseline.json"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ("", "../../.gitattributes"),
        ("*.png binary", "../../.gitattributes"),
        ("rageval_baseline.json text eol=lf merge=rageval-baseline\n", ""),
    ],
)
def test_in_a_folder_of_a_repository_the_line_is_at_its_root(given, changed, tmp_path, monkeypatch, capsys):
    """It then applies to a baseline above the folder too; what `rageval init` has written is enough."""
    subprocess.run(["git", "init", str(tmp_path)], check=True, capture_output=True)  # noqa: S607
    folder = tmp_path / "services" / "bot"
    folder.mkdir(parents=True)
    (tmp_path / ".gitattributes").write_text(given)
    monkeypatch.chdir(folder)
    assert main(["baseline", "merge", "--install"]) == 0
    assert capsys.readouterr().out.endswith(f"; commit {changed}\n" if changed else "in this clone\n")
    line = "rageval_baseline.json merge=rageval-baseline"
    expected = [*given.splitlines(), *([line] if changed else [])]
    assert (tmp_path / ".gitattributes").read_text().splitlines() == expected
    assert not (folder / ".gitattributes").exists()
