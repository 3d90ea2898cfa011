"""Resources that the tests of one process share: pipelines, eval sets, calibrations."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.session import Session
from tests.unit.run.marked import components, evalset_of, retriever


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(Settings(cache_dir=tmp_path / "cache", repeat=2))
    yield session
    session.close()


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
    assert list(session.evaluator.score(parts, evalset_of(3), requests).values()) == [1.0, 1.0]
    assert session.evaluator.score(parts, evalset_of(3), requests[:1]) == {requests[0]: 1.0}
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
