"""Scores of slices, over each value of a tag, and over clusters of questions."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("recall@3", min=0.6, max_drop=0.02, where={"topic": "billing"})
@pytest.mark.rageval_threshold("recall@3", min=0.6, max_drop=0.02, where={"topic": ("billing", "shipping")})
@pytest.mark.rageval_threshold("ndcg@3", min=0.4, max_drop=0.02, by="topic")
@pytest.mark.rageval_threshold("map@3", max_drop=0.02, policy="ids")
@pytest.mark.rageval_threshold("hit@3", max_lost=3, by="topic")
def test_slices():
    pass


def test_own_words(rageval):
    assert rageval.score("mrr@3", by="topic", max_drop=0.02) > 0.1
