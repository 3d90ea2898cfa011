"""`rageval baseline pin`."""

import json
from pathlib import Path

import pytest

from pytest_rageval.baseline import Baseline, baseline_entry
from pytest_rageval.cli import main
from pytest_rageval.lib.spool import Spool
from tests.unit.gate.scored import numbered, score_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    score = score_of(numbered(3, 1))
    examples = tuple(outcome.example for outcome in score.outcomes)
    entry = baseline_entry(examples, {"recall@5": (score, {"k": 5})}, spool=Spool())
    Baseline({"a.py::test_a": entry, "a.py::test_b": entry}).write(tmp_path / "rageval_baseline.json")
    return tmp_path / "rageval_baseline.json"


def test_the_scores_of_the_baseline_become_the_anchor(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The baseline itself stays; what the anchor has is what the file had, without a run."""
    before = json.loads(path.read_text(encoding="utf-8"))
    assert main(["baseline", "pin", "--baseline", str(path)]) == 0
    assert f"baseline: {path} (2 tests pinned on " in capsys.readouterr().out
    after = json.loads(path.read_text(encoding="utf-8"))
    assert after["tests"] == before["tests"]
    assert set(after["anchors"]) == {"a.py::test_a", "a.py::test_b"}
    anchor = Baseline.read(path).anchor_score("a.py::test_a", "recall@5", (0.0, 1.0))
    assert (anchor.pin.updates, anchor.fingerprint) == (0, {"k": 5})
    assert [example["score"] for example in anchor.examples.values()] == [1.0, 1.0, 1.0, 0.0]


def test_single_tests_can_be_pinned(path: Path) -> None:
    assert main(["baseline", "pin", "--rageval-baseline", str(path), "a.py::test_b"]) == 0
    assert set(Baseline.read(path).anchors) == {"a.py::test_b"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["a.py::test_c"], "has no test 'a.py::test_c'. Did you mean a.py::test_"),
        (["--baseline", "missing.json"], "cannot be read: there is no such file"),
    ],
)
def test_what_is_not_there_cannot_be_pinned(path, capsys, arguments, problem):
    before = path.read_bytes()
    assert main(["baseline", "pin", "--baseline", str(path), *arguments]) == 2
    assert problem in capsys.readouterr().err
    assert path.read_bytes() == before


def test_an_empty_baseline_has_nothing_to_pin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Baseline().write(tmp_path / "b.json")
    assert main(["baseline", "pin", "--baseline", str(tmp_path / "b.json")]) == 2
    assert "has no tests: there is nothing to pin" in capsys.readouterr().err
