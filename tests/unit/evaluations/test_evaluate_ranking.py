"""Ranking measures of what a retriever returns."""

import pytest

from pytest_rageval.errors import CallableError
from pytest_rageval.model import Document, Example, Gold


@pytest.mark.parametrize(
    ("spec", "scores"),
    [
        ("recall@2", [1 / 2, 1.0, 0.0]),
        ("precision@2", [1 / 2, 1 / 2, 0.0]),
        ("precision@4", [2 / 4, 1 / 4, 0.0]),
        ("recall@4", [1.0, 1.0, 0.0]),
        ("mrr@4", [1.0, 1 / 2, 0.0]),
        ("map@4", [(1 + 2 / 3) / 2, 1 / 2, 0.0]),
        ("hit@1", [1.0, 0.0, 0.0]),
    ],
)
def test_a_worked_example(world, example, spec: str, scores: list[float]) -> None:
    """Three questions: gold at ranks 1 and 3, gold at rank 2, and nothing retrieved."""
    world.rankings = {"one": ["a", "x", "b", "y"], "two": ["x", "c"]}
    outcomes = world.evaluate(spec, example("one", "a", "b"), example("two", "c"), example("three", "d"))
    assert [outcome.value for outcome in outcomes] == pytest.approx(scores, abs=1e-15)


def test_examples_without_relevant_gold_are_unscored_and_not_asked(world, example) -> None:
    """They keep their place; passages of grade 0 alone are none."""
    world.rankings = {"one": ["a"]}
    judged = Example("judged", "judged", gold=(Gold("a", grade=0),))
    outcomes = world.evaluate("recall@5", example("none"), example("one", "a"), judged)
    assert [(o.value, o.unscored) for o in outcomes] == [
        (None, "no gold passages"),
        (1.0, None),
        (None, "no gold passages"),
    ]
    assert world.asked == {("retrieve", "one", "5"): 1}


def test_a_set_without_any_gold_is_all_unscored(world, example) -> None:
    """Nothing is asked, and nothing fails."""
    assert [o.unscored for o in world.evaluate("ndcg@5", example("a"), example("b"))] == [
        "no gold passages"
    ] * 2


def test_the_evidence_is_the_ranking(world, example) -> None:
    """A person sees what was retrieved."""
    world.rankings = {"one": ["a", "b"]}
    (outcome,) = world.evaluate("recall@1", example("one", "a"))
    assert outcome.evidence.ranking is not None
    assert outcome.evidence.ranking.documents == (Document("a"),)
    assert outcome.evidence.answer is None


def test_measures_at_one_cut_off_share_the_rankings(world, example) -> None:
    """The retriever is asked once for each question and k."""
    for spec in ("recall@5", "ndcg@5", "recall@5", "recall@1"):
        world.evaluate(spec, example("one", "a"), example("two", "b"))
    assert set(world.asked.values()) == {1}
    assert world.asked_of("retrieve") == 4


def test_a_broken_retriever_ends_the_evaluation(world, example, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no score without rankings."""
    monkeypatch.setattr(world, "rankings", None)
    with pytest.raises(CallableError, match="rageval_retriever raised for 'one': AttributeError"):
        world.evaluate("recall@5", example("one", "a"))
