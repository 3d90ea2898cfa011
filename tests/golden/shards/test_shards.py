"""A run in parts, which `rageval merge` judges as one."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("recall@3", min=0.6, max_drop=0.02)
@pytest.mark.rageval_threshold("ndcg@3", max_drop=0.02, by="topic", policy="ids")
@pytest.mark.rageval_threshold("llm_reteval@2", max_drop=0.02)
@pytest.mark.rageval_threshold("answer.correct@2", min=0.7, where={"topic": "billing"})
def test_gate():
    pass


def test_one_question(rageval):
    assert rageval.retrieve("What is the code of item-3?", k=1)
