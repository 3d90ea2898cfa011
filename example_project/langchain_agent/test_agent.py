"""Tests both hops of the agent, and its answers: the markers are the tests."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals/questions.jsonl")


@pytest.mark.rageval_threshold("steps.recall@2", min=0.8, max_drop=0.02, policy="snapshot")
@pytest.mark.rageval_threshold("retrieval.calls", max=2)
def test_both_searches_find_their_passage():
    pass


@pytest.mark.rageval_threshold("answer.containment@2", min=0.6)
def test_the_answer_is_right():
    pass
