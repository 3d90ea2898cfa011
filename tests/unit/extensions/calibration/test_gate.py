"""Calibrations of the judge of a test, evaluated without pytest."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_rageval.extensions.calibration.calibration import Correction
from pytest_rageval.extensions.calibration.corrections import rogan_gladen
from pytest_rageval.extensions.calibration.gate import corrected_entry
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.notes import NOTE_TEXTS
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from pytest_rageval.stats.intervals import Estimate
from tests.unit.run.marked import Mark, components, evalset_of, marked, threshold


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(Settings(cache_dir=tmp_path / "cache", repeat=2))
    yield session
    session.close()


def _labels(folder: Path, *, wrong: int) -> Path:
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


CHANCE = "the judge is no better than chance"


@pytest.mark.parametrize(
    ("found", "entry", "text"),
    [
        (
            rogan_gladen([1] * 50 + [0] * 50, [1] * 45 + [0] * 5 + [1] * 10 + [0] * 40, [1] * 92 + [0] * 8),
            {
                "mean": 1.0,
                "clipped": 72 / 70,
                "sensitivity": 0.9,
                "specificity": 0.8,
                "right": 50,
                "wrong": 50,
            },
            "; Rogan-Gladen 1.000 [0.889, 1.000], clipped from 1.029",
        ),
        (CHANCE, {"mean": None, "ci95": None, "refused": CHANCE}, f"; no Rogan-Gladen: {CHANCE}"),
        (None, None, ""),
    ],
)
def test_the_estimate_of_rogan_and_gladen_is_in_the_report(found, entry, text) -> None:
    corrected = corrected_entry(Correction(Estimate(0.5, 0.4, 0.6), 100, None, "", found), sampled=True)
    given = corrected["corrected"].get("rogan_gladen")
    assert given is entry or {name: given[name] for name in entry} == pytest.approx(entry)
    line = NOTE_TEXTS["corrected"](corrected)
    assert (
        line == f"corrected for the judge's errors: 0.500 [0.400, 0.600], by 100 labels drawn at random{text}"
    )
