"""Scores of the retrieval process: steps, calls, cost and tokens."""

import pytest

from pytest_rageval.core.data import Document, Example, Gold, Ranking, Retrieval, Step

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
def test_the_recall_of_the_steps_is_of_what_they_found_together(
    world, monkeypatch: pytest.MonkeyPatch, steps: list[list[str]] | None, k: int, expected: float
) -> None:
    """Step recall counts the first k documents of all steps once each; without steps it uses the ranking.

    A repeated document counts once within a step, too.
    """
    step_list = None if steps is None else [Step(str(n), _documents(*found)) for n, found in enumerate(steps)]
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: Retrieval(_documents("y", "x", "a"), step_list))
    world.run = world.make_pipeline()
    [outcome] = world.evaluate(f"steps.recall@{k}", EXAMPLE)
    assert outcome.value == expected
    [calls] = world.evaluate("retrieval.calls", EXAMPLE)
    assert calls.value == (1 if steps is None else len(steps))


def test_steps_that_cannot_be_compared_leave_the_question_unscored(
    world, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a step has no ids and the gold passages have only ids, the question is unscored with the cause "retriever"."""
    retrieval = Retrieval(_documents("a"), [Step("one", ["no id"])])
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: retrieval)
    world.run = world.make_pipeline()
    [outcome] = world.evaluate("steps.recall@2", EXAMPLE)
    assert outcome.unscored == "no retrieved document has an id to find the gold passage by"
    assert outcome.cause == "retriever"
    [bare] = world.evaluate("steps.recall@2", Example("b", "b"))
    assert bare.unscored == "no gold passages"


def test_a_cost_without_a_name_is_not_a_score(world, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the retriever reports no cost, the question is unscored; a reported cost of 0 is the score 0."""
    [outcome] = world.evaluate("retrieval.cost", EXAMPLE)
    assert outcome.unscored == "the retriever does not report its cost"
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: Retrieval([], cost=0))
    world.run = world.make_pipeline()
    [free] = world.evaluate("retrieval.cost", EXAMPLE)
    assert free.value == 0.0


def test_the_tokens_of_the_passages_are_those_of_the_first_k(world) -> None:
    """`context.tokens` counts the tokens of the first k passages: 0 for no passage, more for more passages."""
    world.rankings["q"] = ["Refunds take five working days."] * 1 + [f"Passage {n}." for n in range(9)]
    tokens = [world.evaluate(f"context.tokens@{k}", EXAMPLE)[0].value for k in (1, 5, 10)]
    assert tokens == sorted(set(tokens))
    [nothing] = world.evaluate("context.tokens@5", Example("e", "e"))
    assert nothing.value == 0.0


def test_the_k_of_a_ranking_is_the_number_that_was_asked_for() -> None:
    """A ranking's k is the requested number of documents, whatever number was returned."""
    assert [Ranking.of("q", _documents("a", "b"), k).k for k in (1, 2, 3)] == [1, 2, 3]


def test_the_generator_answers_the_question_that_the_retriever_names(
    world, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generator gets the retriever's rewritten question for all kinds of answers.

    The judge gets the user's question.
    """
    world.explained["text of a"] = world.cited["text of a"] = "said"
    retrieval = Retrieval(_documents("a"), question="rewritten")
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: retrieval)
    world.run = world.make_pipeline()
    world.evaluate("answer.correct@1", Example("q", "asked", answers=("wanted",)))
    for answer in (world.run.cited_answer, world.run.long_answer):
        world.loop.run(answer("asked", 1))
    questions = {call[:2] for call in world.asked}
    assert questions == {(part, "rewritten") for part in ("generate", "cite", "explain")} | {
        ("compare", "asked")
    }


def test_a_question_in_place_of_the_users_is_a_text(world, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the retriever returns a rewritten question that is not a string, the example is unscored."""
    monkeypatch.setattr(world, "retrieve", lambda _query, _k: Retrieval(_documents("a"), question=["x"]))
    world.run = world.make_pipeline()
    [outcome] = world.evaluate("recall@1", EXAMPLE)
    assert outcome.unscored == "rageval_retriever returned question=['x']"
