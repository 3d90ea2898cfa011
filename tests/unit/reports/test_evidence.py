"""The evidence of every question of a test in the report."""

from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.baseline import baseline_entry
from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.comparison import compare
from pytest_rageval.lib.spool import Spool
from pytest_rageval.reports.build import score_entry
from pytest_rageval.reports.evidence import ExplainedScore, Retrievals, common_items, explained_questions
from pytest_rageval.scores.rankings import spooled

ALPHA, BETA, GAMMA = (Document(f"The text of {name}.", name) for name in ("alpha", "beta", "gamma"))
EXAMPLE = Example(
    "q1",
    "Which?",
    answers=("b", "beta"),
    reference="It is beta.",
    gold=(Gold("gamma", "The text of gamma."), Gold("delta", "The text of delta."), Gold("alpha", grade=0)),
    tags={"topic": "letters"},
    history=({"role": "user", "content": "Is there\na letter?"},),
    filters={"tenant": "acme"},
)


def _ranking(*documents: Document, **fields: Any) -> Ranking:
    return replace(Ranking.of("Which?", documents), **fields)


def _score(*rankings: Ranking | None, spec: str = "recall@2", **evidence: Any) -> Score:
    return Score(
        spec,
        [
            Outcome(replace(EXAMPLE, id=f"q{n}"), 0.5, evidence=Evidence(ranking, **evidence))
            for n, ranking in enumerate(rankings, 1)
        ],
    )


def _questions(*scores: Score) -> list[Any]:
    examples = [outcome.example for outcome in scores[0].outcomes]
    return explained_questions(examples, [], Retrievals(scores), match_share=0.5, spool=Spool())


def test_a_question_has_its_answers_and_all_that_was_retrieved() -> None:
    long = _ranking(ALPHA, BETA, GAMMA, missing=2, seconds=0.25)
    [question] = _questions(_score(_ranking(ALPHA, BETA)), _score(long, spec="recall@5"))
    assert question == {
        "id": "q1",
        "question": "Which?",
        "tags": {"topic": "letters"},
        "history": ["User: Is there a letter?"],
        "filters": {"tenant": "acme"},
        "references": [["b", "beta"]],
        "reference": "It is beta.",
        "gold": ["gamma", "delta"],
        "gold_texts": {"delta": "The text of delta."},
        "gold_ranks": {"gamma": 3, "delta": None},
        "retrieved": [
            {"document": "alpha", "text": "The text of alpha."},
            {"document": "beta", "text": "The text of beta."},
            {"document": "gamma", "text": "The text of gamma.", "gold": True},
        ],
        "seconds": 0.25,
        "context_tokens": question["context_tokens"],
    }
    assert question["context_tokens"] > 10


def test_nothing_retrieved_is_not_the_same_as_no_ranking() -> None:
    empty, failed = _questions(_score(_ranking(), None))
    assert empty["retrieved"] == []
    assert empty["gold_ranks"] == {"gamma": None, "delta": None}
    assert "retrieved" not in failed
    assert failed["gold"] == ["gamma", "delta"]


def test_of_two_gold_passages_with_one_label_the_better_rank_counts() -> None:
    gold = (Gold("beta"), Gold("beta", source="book.md", start=0, end=9))
    for passages in (gold, gold[::-1]):
        score = Score(
            "recall@2",
            [Outcome(replace(EXAMPLE, gold=passages), 1.0, evidence=Evidence(_ranking(ALPHA, BETA)))],
        )
        assert _questions(score)[0]["gold_ranks"] == {"beta": 2}


def test_each_ranking_of_a_question_is_read_from_the_spool_once(monkeypatch) -> None:
    spool, reads = Spool(), list[int]()
    short, long = (spooled(_ranking(*documents), spool) for documents in ((BETA,), (ALPHA, BETA)))
    scores = [_score(short), _score(long, spec="ndcg@5"), _score(long, spec="mrr@5")]
    retrievals = Retrievals(scores)
    explained = [
        ExplainedScore(score_entry(score, None, None)["examples"], score, None, retrievals, Spool())
        for score in scores
    ]
    read = spool.get
    monkeypatch.setattr(spool, "get", lambda place: reads.append(place) or read(place))
    [_] = explained_questions(
        [replace(EXAMPLE, id="q1")], explained, retrievals, match_share=0.5, spool=Spool()
    )
    assert [each.examples[0].get("retrieved") for each in explained] == [["beta"], None, None]
    assert sorted(reads) == [0, 1]


@pytest.mark.parametrize("order", [1, -1])
def test_a_time_that_one_score_knows_counts(order: int) -> None:
    """A latency score repeats the first question's retrieval; other scores keep the first ranking."""
    slow, fast, untimed = (_ranking(ALPHA, missing=2, seconds=time) for time in (0.3, 0.1, None))
    scores = [_score(slow, fast, spec="latency.p95@3"), _score(untimed, fast, spec="recall@3")]
    entry = Retrievals(scores[::order]).entry()
    assert (entry["questions"], entry["timed"], entry["latency_p95"]) == (2, 2, 0.3)


def test_the_searches_of_an_agent_are_named() -> None:
    steps = (Ranking("first", (ALPHA,)), Ranking("second", ()))
    [question] = _questions(_score(_ranking(BETA, steps=steps)))
    assert question["steps"] == [
        {"query": "first", "retrieved": ["alpha"]},
        {"query": "second", "retrieved": []},
    ]


def _examples(score: Score, *others: Score, before: Score | None = None) -> list[Any]:
    entries = score_entry(score, None, None)["examples"]
    comparison = None
    if before is not None:
        entry = baseline_entry(
            tuple(outcome.example for outcome in before.outcomes), {"s": (before, {})}, spool=Spool()
        )
        stored = BaselineScore(entry["questions"], {}, entry["scores"]["s"]["examples"])
        comparison = compare(score, {}, stored)
    return ExplainedScore(entries, score, comparison, Retrievals([score, *others]), Spool()).examples


def test_an_example_has_what_is_behind_its_score() -> None:
    score = _score(
        _ranking(ALPHA, BETA),
        answer="b",
        expected=("b", "beta"),
        expected_as="with gold",
        labels=(0.0, 1.0),
        answers_alone=("a", "b"),
        remark="cited nothing",
    )
    assert _examples(score) == [
        {
            "id": "q1",
            "score": 0.5,
            "unscored": None,
            "labels": [0.0, 1.0],
            "k": 2,
            "answer": "b",
            "expected": {"as": "with gold", "texts": ["b", "beta"]},
            "remark": "cited nothing",
            "alone": ["a", "b"],
        }
    ]


@pytest.mark.parametrize(
    ("shown", "names"),
    [((ALPHA, BETA), None), ((BETA, ALPHA), ["beta", "alpha"]), ((), None), ((BETA,), ["beta"])],
)
def test_a_score_that_saw_other_passages_names_them(shown, names):
    longest = _score(_ranking(ALPHA, BETA, GAMMA), spec="recall@3")
    [example] = _examples(_score(_ranking(*shown)), longest)
    assert example["k"] == len(shown)
    assert example.get("retrieved") == names


def _scored(value: float | None, ranking: Ranking, answer: str | None) -> Outcome:
    return Outcome(EXAMPLE, value, None if value is not None else "no verdict", Evidence(ranking, answer))


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (_scored(1.0, _ranking(ALPHA), "a"), _scored(0.0, _ranking(ALPHA), "a"), {"before": 1.0}),
        (
            _scored(1.0, _ranking(ALPHA, BETA), "an\nanswer"),
            _scored(0.5, _ranking(BETA), "another"),
            {"before": 1.0, "before_retrieved": ["alpha", "beta"], "before_answer": "an answer"},
        ),
        (_scored(0.5 + 1e-13, _ranking(ALPHA), None), _scored(0.5, _ranking(ALPHA), None), {"before": 0.5}),
        (_scored(1.0, _ranking(ALPHA), None), _scored(None, _ranking(ALPHA), None), {"before": 1.0}),
        (_scored(None, _ranking(ALPHA), None), _scored(1.0, _ranking(BETA), None), {}),
        (_scored(1.0, _ranking(), "a " * 150), _scored(1.0, _ranking(), "a " * 150), {"before": 1.0}),
        (
            _scored(1.0, _ranking(), "a " * 150),
            _scored(1.0, _ranking(), "b"),
            {"before": 1.0, "before_answer": "a " * 100 + "…"},
        ),
    ],
    ids=["worse", "all differs", "rounding", "unscored now", "unscored before", "long answer", "long before"],
)
def test_an_example_has_what_the_baseline_says(then: Outcome, now: Outcome, expected: dict[str, Any]) -> None:
    other = Outcome(replace(EXAMPLE, id="q2"), 1.0)
    score, before = (Score("s@1", [changed, other], max_unscored=1.0) for changed in (now, then))
    example, _ = _examples(score, before=before)
    assert {name: value for name, value in example.items() if name.startswith("before")} == expected


def test_what_scores_have_in_common() -> None:
    assert common_items([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": None}]) == {"a": 1, "c": None}
