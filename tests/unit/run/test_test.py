"""A test from its thresholds to its entry in the report, evaluated without pytest."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.baseline import Baseline
from pytest_rageval.core.errors import InputError, StaleBaselineError
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.failures import Room
from pytest_rageval.run.base import TestRecord
from pytest_rageval.run.judged import OutOfBoundsError
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.pipeline import Dependencies
from tests.unit.run.marked import EVALS, NODEID, Mark, components, evalset_of, evaluated, marked, threshold


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(cache_dir=tmp_path / "cache", baseline=tmp_path / "rageval_baseline.json")


@pytest.fixture
def session(settings: Settings) -> Iterator[Session]:
    session = Session(settings)
    yield session
    session.close()


def _update(settings: Settings, root: Path, *marks: Mark, **words: Any) -> dict[str, Any]:
    session = Session(settings.replace(update_baseline=True))
    test = evaluated(session, root, *marks, **words)
    assert test.evaluate_markers() == []
    session.close()
    results = test.results()
    if "baseline" in results:
        Baseline({NODEID: results["baseline"]}).write(settings.baseline)
    return results


def test_a_threshold_becomes_an_entry(session: Session, tmp_path: Path) -> None:
    test = evaluated(session, tmp_path, threshold(min=0.5), lost=[0, 1])
    assert test.evaluate_markers() == []
    assert test.failures() == []
    results = test.results()
    (entry,) = results["scores"]
    assert (entry["spec"], entry["mean"], entry["verdict"]) == ("recall@1", 0.9, "pass")
    assert entry["threshold"] == {"min": 0.5, "max": None, "max_drop": None, "alpha": None}
    assert results["evalset"]["size"] == 20
    assert results["own"] == ["generator", "judge"]
    assert not results.keys() & {"baseline", "agreement", "calibration", "warnings"}


def test_a_score_out_of_bounds_is_a_failure_that_lists_questions(session: Session, tmp_path: Path) -> None:
    test = evaluated(session, tmp_path, threshold(min=0.95), lost=[3, 4, 5], room=lambda: Room(11))
    assert test.evaluate_markers() == []
    (failure,) = test.failures()
    assert "0.850 is below the minimum 0.95" in failure
    assert "question 3" in failure
    assert "question 5" not in failure
    assert test.results()["scores"][0]["verdict"] == "fail"


def test_thresholds_are_in_the_order_of_the_file(session: Session, tmp_path: Path) -> None:
    names = ("recall@1", "mrr@1", "hit@1")
    test = evaluated(session, tmp_path, *(threshold(name, min=0.1) for name in names))
    test.evaluate_markers()
    assert tuple(entry["spec"] for entry in test.results()["scores"]) == names


def test_a_mistake_in_a_marker_ends_the_test_before_anything_is_asked(session, tmp_path):
    marks = (threshold(min=0.5), threshold("recal@1", min=0.5), threshold(min=85))
    test = evaluated(session, tmp_path, *marks)
    unknown, bound = test.evaluate_markers()
    assert "recal" in unknown
    assert "min=85 is not on the score's scale" in bound
    assert test.results()["scores"] == []
    assert test.results()["evalset"] is None


def test_an_error_of_one_score_leaves_the_others(session: Session, tmp_path: Path) -> None:
    test = evaluated(session, tmp_path, threshold("answer.em@1", min=0.5), threshold(min=0.5))
    (problem,) = test.evaluate_markers()
    assert problem.startswith("answer.em@1 needs reference answers, and none of 20 examples has them")
    assert [entry["verdict"] for entry in test.results()["scores"]] == ["error", "pass"]


def test_a_threshold_on_all_values_of_a_tag_has_an_entry_of_its_own(session: Session, tmp_path: Path) -> None:
    marks = (threshold(min=0.9, by="topic"), threshold(min=0.5, where={"topic": "odd"}))
    test = evaluated(session, tmp_path, *marks, lost=[1, 3])
    test.evaluate_markers()
    by, where = test.results()["scores"]
    assert (by["where"], where["where"]) == ({"topic": "odd"}, {"topic": "odd"})
    assert (by["verdict"], where["verdict"]) == ("fail", "pass")


def test_a_number_is_recorded_once(session: Session, tmp_path: Path) -> None:
    properties: list[tuple[str, float]] = []
    test = TestRun(session, components(0), marked(tmp_path, [EVALS], properties))
    for _ in range(2):
        test.score("recall@1", {})
        test.score("recall@1", {"where": {"topic": "odd"}})
    assert properties == [("rageval recall@1", 0.95), ("rageval recall@1 topic=odd", 1.0)]
    assert len(test.results()["scores"]) == 2


def test_a_score_that_a_test_asks_for(session: Session, tmp_path: Path) -> None:
    test = evaluated(session, tmp_path, lost=[1])
    assert test.score("recall@1", {}) == 0.95
    assert test.score("recall@1", {"min": 0.8, "where": {"topic": "odd"}}) == 0.9
    assert [entry["verdict"] for entry in test.results()["scores"]] == [None, "pass"]
    assert test.violations() == []


def test_a_failed_bound_of_a_call_raises_and_is_recorded(session: Session, tmp_path: Path) -> None:
    test = evaluated(session, tmp_path, lost=[1])
    for _ in range(2):
        with pytest.raises(OutOfBoundsError) as caught:
            test.score("recall@1", {"min": 0.99})
    with pytest.raises(InputError):
        test.score("recall@1", {"min": 99})
    with pytest.raises(InputError):
        test.score("nothing@1", {})
    first, second = test.violations()
    assert first == str(caught.value)
    assert "0.950 is below the minimum 0.99" in first
    assert "min=99" in second


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ([], "This test has no eval set to score."),
        ([Mark("rageval_evalset", ("a", "b"), {"seed": 1})], "takes one path, found ('a', 'b', seed=1)."),
        ([Mark("rageval_evalset", ("missing.jsonl",))], "missing.jsonl"),
    ],
)
def test_without_an_eval_set(session: Session, tmp_path: Path, marks: list[Mark], message: str) -> None:
    test = TestRun(session, components(), marked(tmp_path, [*marks, threshold(min=0.5)]))
    (problem,) = test.evaluate_markers()
    assert message in problem
    assert test.results()["evalset"] is None


def test_the_closest_eval_set_counts(session: Session, tmp_path: Path) -> None:
    closest = Mark("rageval_evalset", (evalset_of(3),))
    assert len(evaluated(session, tmp_path, closest).evalset) == 3


def test_an_update_writes_only_scores_with_max_drop(settings: Settings, tmp_path: Path) -> None:
    results = _update(
        settings, tmp_path, threshold(min=0.99, max_drop=0.02), threshold("mrr@1", min=0.1), lost=[1]
    )
    assert results["baseline"]["scores"].keys() == {"recall@1"}
    assert results["out_of_bounds"] == ["recall@1"]
    assert "new baseline" not in results["scores"][0]["reason"]


def test_a_score_is_compared_with_its_baseline(settings: Settings, session: Session, tmp_path: Path) -> None:
    mark = threshold(max_drop=0.02)
    _update(settings, tmp_path, mark)
    test = evaluated(session, tmp_path, mark, lost=range(8))
    assert test.evaluate_markers() == []
    (failure,) = test.failures()
    assert failure.startswith("recall@1 fell from 1.000 to 0.600 (allowed 0.02): 8 of 20 questions worse, 0")
    assert failure.splitlines()[-1].startswith("accept this drop: pytest --rageval-update-baseline ")
    assert test.summary == "recall@1 drop 0.400 > 0.02"
    assert test.results()["scores"][0]["baseline"]["alpha"] == 0.05


def test_markers_share_a_level_with_the_tests_of_the_baseline_and_calls_do_not(settings, session, tmp_path):
    entry = _update(settings, tmp_path, threshold(max_drop=0.02))["baseline"]
    others = {f"test_a.py::test_{n}": entry for n in range(4)}
    alone = {"test_a.py::test_strict": {**entry, "shares_alpha": False}}
    Baseline({NODEID: entry, **others, **alone}).write(settings.baseline)
    test = evaluated(session, tmp_path, threshold(max_drop=0.02))
    test.evaluate_markers()
    assert test.results()["scores"][0]["baseline"]["alpha"] == 0.05 / 5 / 2
    test = evaluated(session, tmp_path)
    test.score("recall@1", {"max_drop": 0.02})
    assert test.results()["scores"][0]["baseline"]["alpha"] == 0.05


def test_a_score_that_the_baseline_lacks_is_an_error_where_one_is_required(settings, tmp_path):
    _update(settings, tmp_path, threshold(max_drop=0.02))
    session = Session(settings.replace(require_baseline=True))
    test = evaluated(session, tmp_path, threshold("mrr@1", max_drop=0.02))
    (problem,) = test.evaluate_markers()
    assert f"has no mrr@1 of {NODEID}; it has recall@1." in problem
    with pytest.raises(StaleBaselineError):
        test.score("mrr@1", {"max_drop": 0.02})


def test_a_baseline_above_the_test_is_that_of_another_root(session: Session, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "rageval_baseline.json").write_text("{}", encoding="utf-8")
    test = evaluated(session, tmp_path, threshold(max_drop=0.02))
    (problem,) = test.evaluate_markers()
    assert problem.startswith(f"There is no baseline in {tmp_path}, the root directory, and there is one in")


def test_rankings_and_answers(session: Session, tmp_path: Path) -> None:
    test = evaluated(session, tmp_path, lost=[1])
    assert [document.id for document in test.retrieve("question 1", 3)] == ["other"]
    assert test.answer("question 2", 1) == "answer to question 2"
    assert not test.has_stubs


class _Undecided:
    def compare(self, question: str, _references: object, _prediction: str) -> bool | None:
        return None if question == "question 0" else True


def test_an_unscored_question_has_its_passages_too(session: Session, tmp_path: Path) -> None:
    marks = [
        Mark("rageval_evalset", (evalset_of(3, answers=("a",)),)),
        threshold("answer.correct@1", min=0.1),
    ]
    parts = replace(components(), judge=_Undecided())
    session.settings = session.settings.replace(max_unscored=0.5)
    test = TestRun(session, parts, marked(tmp_path, marks))
    assert test.evaluate_markers() == []
    results = test.results(explain=True)
    questions = results["questions"]
    assert [question["id"] for question in questions] == ["q0", "q1", "q2"]
    assert [question["retrieved"][0]["document"] for question in questions] == ["d0", "d1", "d2"]
    (entry,) = results["scores"]
    assert entry["examples"][0]["score"] is None
    assert entry["fingerprint"] == results["fingerprint"]
    assert "questions" not in test.results(describe=True)


def test_a_score_without_a_cut_off_takes_those_of_the_run(settings: Settings, tmp_path: Path) -> None:
    session = Session(settings.replace(cutoffs=(1, 3)))
    marks = (threshold("recall", min=0.5), threshold("ndcg@2", min=0.5), threshold("retrieval.calls", max=3))
    test = evaluated(session, tmp_path, *marks)
    assert test.evaluate_markers() == []
    specs = [entry["spec"] for entry in test.results()["scores"]]
    assert sorted(specs) == ["ndcg@2", "recall@1", "recall@3", "retrieval.calls"]
    with pytest.raises(
        InputError, match=r"one score, and the run has several cut-offs\.\nWrite one of hit@1, hit@3"
    ):
        test.score("hit", {})
    session.close()
    single = Session(settings.replace(cutoffs=(3,)))
    assert evaluated(single, tmp_path).score("hit", {}).name == "hit@3"
    single.close()


def test_a_test_names_only_the_served_models_that_its_scores_depend_on() -> None:
    served = {"m": ["m-1"], "a": ["a-1"], "b": ["b-1"], "m at http://two": ["m-2"], "other": ["other-1"]}
    request, judged = ScoreRequest("answer.em@1"), ScoreRequest("answer.correct@1")
    record = TestRecord(
        served=served,
        dependencies={
            request: Dependencies({"generator": "m at http://one", "scoring": "1"}, {}, ""),
            judged: Dependencies({"generator": "m at http://two", "judge": "a, b at http://two"}, {}, ""),
        },
    )
    assert record.served_to([request]) == {"m": ["m-1"]}
    assert record.served_to([request, judged]).keys() == {"m", "a", "b", "m at http://two"}
    assert TestRecord().served_to([request]) == {}
