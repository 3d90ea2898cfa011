"""The same checks as plain assertions, without threshold markers."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals/support.jsonl")


def test_support_questions(rageval):
    score = rageval.score("recall@3")
    assert score >= 0.85
    assert score.where(topic="shipping") >= 0.80


@pytest.mark.parametrize("k", [1, 3, 5])
def test_the_first_passages_help(rageval, k):
    assert rageval.score(f"hit@{k}") >= 0.75


def test_slate_screen_is_not_confused_with_the_other_models(rageval):
    assert "devices#slate-colours" in rageval.retrieve("In what colours is the Slate sold?", k=3)
