"""Scores of an agent's searches."""

import pytest

from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.ranking import Document, Retrieval, Step

EXAMPLE = Example("q", "q", gold=(Gold("a"), Gold("b"), Gold("n", grade=0)))


def _documents(*names: str) -> list[Document]:
    return [Document(f"text of {name}", name) for name in names]


@pytest.mark.parametrize(
    ("steps", "k", "expected"),
    [
        ([["a", "x"], ["y", "b"]], 2, 1.0),
        ([["a", "x"], ["y", "b"]], 1, 0.5),
        ([["a", "a", "b"]], 2, 1.0),
        ([["x"], ["x", "y"], []], 2, 0.0),
        ([["a"], ["a"]], 1, 0.5),
        ([], 2, 0.0),
        (None, 3, 0.5),
    ],
)
def test_the_recall_of_the_steps_is_of_what_they_found_together(world, monkeypatch, steps, k, expected):
    """The first k documents of all steps count once each; without steps, the ranking counts."""
    step_list = None if steps is None else [Step(str(n), _documents(*found)) for n, found in enumerate(steps)]
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: Retrieval(_documents("y", "x", "a"), step_list))
    world.run = world.make_pipeline()
    [outcome] = world.evaluate(f"steps.recall@{k}", EXAMPLE)
    assert outcome.value == expected
    [calls] = world.evaluate("retrieval.calls", EXAMPLE)
    assert calls.value == (1 if steps is None else len(steps))


def test_steps_that_cannot_be_compared_leave_the_question_unscored(world, monkeypatch):
    retrieval = Retrieval(_documents("a"), [Step("one", ["no id"])])
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: retrieval)
    world.run = world.make_pipeline()
    [outcome] = world.evaluate("steps.recall@2", EXAMPLE)
    assert outcome.unscored == "no retrieved document has an id to find the gold passage by"
    assert outcome.cause == "retriever"
    [bare] = world.evaluate("steps.recall@2", Example("b", "b"))
    assert bare.unscored == "no gold passages"
