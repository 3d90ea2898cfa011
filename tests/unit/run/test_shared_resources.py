"""Resources that the tests of one process share: pipelines, eval sets, calibrations."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.settings import Settings
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from tests.unit.run.marked import Mark, components, evalset_of, marked, retriever, threshold


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


def test_tests_with_the_same_components_share_a_pipeline(session: Session) -> None:
    parts = components()
    first, repeat = session.pipelines.with_repeats(parts)
    assert session.pipelines.get(replace(parts)) is first
    assert repeat is not first
    assert session.pipelines.get(replace(parts, retriever=retriever(1))) is not first


def test_a_ranking_is_retrieved_once_for_all_scores(session: Session) -> None:
    queries = []

    def retrieve(query: str, k: int) -> list[dict[str, str]]:
        queries.append(query)
        return retriever()(query, k)

    parts = replace(components(), retriever=retrieve)
    requests = [ScoreRequest("recall@1"), ScoreRequest("mrr@1")]
    assert list(session.score(parts, evalset_of(3), requests).values()) == [1.0, 1.0]
    assert session.score(parts, evalset_of(3), requests[:1]) == {requests[0]: 1.0}
    assert sorted(queries) == ["question 0", "question 1", "question 2"]


def test_an_eval_set_in_python_is_checked_once(session: Session, tmp_path: Path) -> None:
    """All tests get the same object, whether it was converted or not."""
    given = evalset_of(2)
    assert session.sources.evalset(given, bases=[tmp_path]) is given
    numbered = replace(given, examples=[replace(example, id=n) for n, example in enumerate(given)])
    checked = session.sources.evalset(numbered, bases=[tmp_path])
    assert [example.id for example in checked] == ["0", "1"]
    assert session.sources.evalset(numbered, bases=[tmp_path]) is checked


def test_an_eval_set_is_read_once(session: Session, tmp_path: Path) -> None:
    record = {"id": "q", "question": "?", "gold": [{"id": "d"}]}
    (tmp_path / "evals.jsonl").write_text(json.dumps(record), encoding="utf-8")
    evalset = session.sources.evalset("evals.jsonl", bases=[tmp_path])
    assert session.sources.evalset("evals.jsonl", bases=[tmp_path / "other", tmp_path]) is evalset
    with pytest.raises(InputError, match="sample would have no effect"):
        session.sources.evalset(evalset, bases=[tmp_path], keywords={"sample": 1})
    with pytest.raises(InputError, match="needs the path of an eval set, found int"):
        session.sources.evalset(3, bases=[tmp_path])


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


def test_a_plan_counts_calls_of_the_users_own_functions(tmp_path: Path) -> None:
    session = Session(Settings(cache_dir=tmp_path / "cache", plan=True))
    evals = evalset_of(3, answers=("right",))
    assert session.count_requests(components(), evals, [ScoreRequest("answer.correct@1")]) == []
    assert sum(session.usage.remarks.values()) >= 3
    assert session.usage.requests == 0
    session.close()
