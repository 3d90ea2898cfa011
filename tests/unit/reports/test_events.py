"""What events say of the results of a run."""

from typing import Any

import pytest

from pytest_rageval.reports.events import (
    QUESTION_EVENT,
    SCORE_EVENT,
    end_ns,
    generate_events,
    resource_attributes,
)


def entry(*examples: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A score with these examples."""
    found: dict[str, Any] = {
        "spec": "recall@3",
        "where": {},
        "mean": 0.5,
        "ci95": [0.25, 0.75],
        "n": 2,
        "unscored": 1,
        "undefined": 0,
        "verdict": "pass",
        "reason": "0.500 is at least 0.4",
        "baseline": None,
        "examples": [{"score": None, "unscored": None, **example} for example in examples],
    }
    return found | changes


def document(*scores: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A report of one test with these scores."""
    test = {
        "nodeid": "test_a.py::test_b",
        "outcome": "failed",
        "evalset": {"name": "evals.jsonl", "size": 3, "digest": "ab" * 32},
        "fingerprint": {"generator": "m1"},
        "scores": list(scores),
    }
    found: dict[str, Any] = {
        "package": "1.2",
        "started": "2026-11-22T10:00:00+00:00",
        "duration_s": 1.5,
        "stopped": False,
        "settings": {"generator": "m1 at http://h", "judge": "m2"},
        "tests": [test],
    }
    return found | changes


def test_each_question_of_each_score_is_an_event() -> None:
    """With what the semantic conventions name, and where the result comes from."""
    question = {"id": "q1", "score": 1.0, "explanation": "It says so.", "lost_by": None, "case": "A"}
    summary, result = generate_events(document(entry(question)))
    assert summary.name == SCORE_EVENT == "rageval.score"
    assert result.name == QUESTION_EVENT == "gen_ai.evaluation.result"
    assert result.attributes == {
        "gen_ai.evaluation.name": "recall@3",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.explanation": "It says so.",
        "test.case.name": "test_a.py::test_b",
        "test.case.result.status": "fail",
        "rageval.evalset.name": "evals.jsonl",
        "rageval.evalset.digest": "ab" * 8,
        "rageval.fingerprint": result.attributes["rageval.fingerprint"],
        "rageval.question.id": "q1",
        "rageval.case": "A",
    }


def test_the_mean_of_a_score_is_an_event_of_another_name() -> None:
    """So that a mean over the results counts no mean."""
    baseline = {"mean": 0.75, "drop": 0.25, "p_value": 0.01, "worse": [], "better": []}
    (summary,) = generate_events(document(entry(baseline=baseline, where={"topic": "a", "kind": "b"})))
    assert summary.attributes == {
        "gen_ai.evaluation.name": "recall@3",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "0.500 is at least 0.4",
        "test.case.name": "test_a.py::test_b",
        "test.case.result.status": "fail",
        "rageval.where": "topic=a, kind=b",
        "rageval.evalset.name": "evals.jsonl",
        "rageval.evalset.digest": "ab" * 8,
        "rageval.fingerprint": summary.attributes["rageval.fingerprint"],
        "rageval.statistic": "mean",
        "rageval.ci95.low": 0.25,
        "rageval.ci95.high": 0.75,
        "rageval.scored": 2,
        "rageval.unscored": 1,
        "rageval.undefined": 0,
        "rageval.baseline.mean": 0.75,
        "rageval.baseline.drop": 0.25,
        "rageval.baseline.p_value": 0.01,
    }


def test_a_question_without_a_score_has_no_value_and_says_why() -> None:
    """Unscored is an error; undefined and not asked are none."""
    questions = (
        {"id": "q1", "unscored": "no verdict"},
        {"id": "q2", "undefined": "nothing to rank"},
        {"id": "q3", "early_stop": "not asked"},
        {"id": "q4", "score": 0.0},
    )
    _, *results = generate_events(document(entry(*questions)))
    shown = [
        (
            "gen_ai.evaluation.score.value" in event.attributes,
            event.attributes.get("error.type"),
            event.attributes.get("gen_ai.evaluation.score.label"),
            event.attributes.get("gen_ai.evaluation.explanation"),
        )
        for event in results
    ]
    assert shown == [
        (False, "unscored", None, "no verdict"),
        (False, None, "undefined", "nothing to rank"),
        (False, None, "not asked", None),
        (True, None, None, None),
    ]


def test_a_score_that_could_not_be_computed_is_an_error() -> None:
    """Its reason is the explanation."""
    (event,) = generate_events(document(entry(mean=None, ci95=None, verdict="error", reason="no retriever")))
    assert event.attributes["error.type"] == "not_computed"
    assert event.attributes["gen_ai.evaluation.explanation"] == "no retriever"
    assert "gen_ai.evaluation.score.value" not in event.attributes
    assert "rageval.ci95.low" not in event.attributes


def test_the_label_of_a_result_compares_it_with_the_baseline() -> None:
    """Only where the question was compared."""
    baseline = {"mean": 0.5, "drop": 0.0, "worse": ["q1"], "better": ["q2"]}
    questions = (
        {"id": "q1", "score": 0.0, "before": 1.0},
        {"id": "q2", "score": 1.0, "before": 0.0},
        {"id": "q3", "score": 1.0, "before": 1.0},
        {"id": "q4", "score": 1.0},
        {"id": "q5", "unscored": "no verdict", "before": 1.0},
    )
    _, *results = generate_events(document(entry(*questions, baseline=baseline)))
    labels = [event.attributes.get("gen_ai.evaluation.score.label") for event in results]
    assert labels == ["worse", "better", "same", None, None]
    assert [event.attributes.get("rageval.before") for event in results] == [1.0, 0.0, 1.0, None, 1.0]


@pytest.mark.parametrize("first", [0, 1])
def test_two_thresholds_on_a_score_have_one_result_for_each_question(first: int) -> None:
    """Else a mean over the results would count it twice. Either threshold may compare it with the baseline."""
    compared = entry(
        {"id": "q1", "score": 0.0, "before": 1.0}, baseline={"mean": 1.0, "worse": ["q1"], "better": []}
    )
    scores = [compared, entry({"id": "q1", "score": 0.0})]
    *summaries, result = generate_events(document(*(scores[::-1] if first else scores)))
    assert [event.name for event in summaries] == [SCORE_EVENT, SCORE_EVENT]
    assert result.attributes["gen_ai.evaluation.score.label"] == "worse"
    assert result.attributes["rageval.before"] == 1.0


@pytest.mark.parametrize(
    ("outcome", "status"), [("passed", "pass"), ("failed", "fail"), ("error", "fail"), ("skipped", None)]
)
def test_the_outcome_of_the_test_is_one_of_the_conventions(outcome: str, status: str | None) -> None:
    """They have two."""
    found = document(entry())
    found["tests"][0]["outcome"] = outcome
    (event,) = generate_events(found)
    assert event.attributes.get("test.case.result.status") == status


def test_the_fingerprint_is_that_of_the_score_else_of_the_test() -> None:
    """Two scores under one fingerprint can be compared."""
    first, second, third = generate_events(
        document(entry(fingerprint={"generator": "m1"}), entry(), entry(fingerprint={"generator": "m2"}))
    )
    assert first.attributes["rageval.fingerprint"] == second.attributes["rageval.fingerprint"]
    assert len(first.attributes["rageval.fingerprint"]) == 16
    assert third.attributes["rageval.fingerprint"] != first.attributes["rageval.fingerprint"]


def test_the_resource_is_the_run() -> None:
    """Its commit, its models and its baseline; what is not known is left out."""
    assert resource_attributes(document()) == {
        "service.name": "pytest-rageval",
        "rageval.run.started": "2026-11-22T10:00:00+00:00",
        "rageval.run.stopped": False,
        "rageval.generator": "m1 at http://h",
        "rageval.judge": "m2",
    }
    run = {
        "commit": "c0ffee",
        "branch": "main",
        "dirty": True,
        "url": "https://ci/1",
        "baseline": {"path": "b.json", "commit": "bead"},
    }
    assert resource_attributes(document(run=run)).items() >= {
        ("vcs.ref.head.revision", "c0ffee"),
        ("vcs.ref.head.name", "main"),
        ("cicd.pipeline.run.url.full", "https://ci/1"),
        ("rageval.run.dirty", True),
        ("rageval.baseline.path", "b.json"),
        ("rageval.baseline.commit", "bead"),
    }


def test_events_are_of_the_end_of_the_run() -> None:
    """In nanoseconds."""
    assert end_ns(document()) == 1_795_341_601_500_000_000
