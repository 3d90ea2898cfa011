"""Tests of the retriever and of the answers: the markers are the tests."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals/support.jsonl")


@pytest.mark.rageval_threshold("recall@3", min=0.85, max_drop=0.02)
@pytest.mark.rageval_threshold("ndcg@3", min=0.80)
@pytest.mark.rageval_threshold("recall@3", min=0.65, where={"topic": "billing"})
def test_the_passage_is_found():
    pass


@pytest.mark.rageval_threshold("llm_reteval@3", min=0.40, max_drop=0.02)
@pytest.mark.rageval_threshold("answer.correct@3", min=0.35)
def test_the_answer_is_the_one_that_the_right_passage_gives():
    pass
