"""Calibrations of the judge of a test, evaluated without pytest."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_rageval.core.settings import Settings
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from tests.unit.run.marked import Mark, components, evalset_of, marked, threshold


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(Settings(cache_dir=tmp_path / "cache", repeat=2))
    yield session
    session.close()


def _labels(folder: Path, *, wrong: int) -> Path:
    """Write labels of 20 answers, `wrong` of which people label as wrong; return the path."""
    path = folder / "labels.jsonl"
    records = [
        {"question": f"Question {n}?", "references": ["a"], "prediction": f"a{n}", "human": n >= wrong}
        for n in range(20)
    ]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return path


@pytest.mark.parametrize(("bound", "status"), [(0.85, "pass"), (0.95, "fail")])
def test_a_judge_is_compared_with_human_labels(
    session: Session, tmp_path: Path, bound: float, status: str
) -> None:
    mark = Mark("rageval_calibration", (_labels(tmp_path, wrong=2),), {"min_accuracy": bound})
    properties: list[tuple[str, float]] = []
    test = TestRun(session, components(), marked(tmp_path, [mark], properties))
    assert test.evaluate_markers() == []
    assert bool(test.failures()) == (status == "fail")
    assert test.results()["calibration"][0]["verdict"] == status
    assert ("rageval accuracy labels.jsonl", 0.9) in properties


def test_a_score_is_corrected_for_the_errors_of_the_judge(session: Session, tmp_path: Path) -> None:
    labels = Mark("rageval_calibration", (_labels(tmp_path, wrong=2),), {"min_accuracy": 0.1})
    evals = Mark("rageval_evalset", (evalset_of(10, answers=("right",)),))
    marks = [evals, labels, threshold("answer.correct@1", min=0.5), threshold("recall@1", min=0.5)]
    test = TestRun(session, components(), marked(tmp_path, marks))
    assert test.evaluate_markers() == []
    correct, recall = test.results()["scores"]
    assert (correct["mean"], correct["corrected"]["mean"], correct["corrected"]["labels"]) == (1.0, 0.9, 20)
    assert "corrected" not in recall
