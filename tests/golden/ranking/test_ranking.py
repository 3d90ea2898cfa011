"""Every ranking measure, bounds of every kind, assertions, an xfail and a skip."""

import pytest
from corpus import search

from pytest_rageval import Retrieval

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.fixture(scope="session")
def rageval_retriever(request):
    cost = {"cheap": 0.001, "dear": 0.02}.get(getattr(request, "param", None))
    return lambda query, k: Retrieval(search(query, k), seconds=len(query) / 5000, tokens=10, cost=cost)


@pytest.mark.rageval_threshold("recall@3", min=0.7, max_drop=0.02)
@pytest.mark.rageval_threshold("precision@3", max=0.5, max_drop=0.2, policy="release")
@pytest.mark.rageval_threshold("f1@3", max_drop=0.3)
@pytest.mark.rageval_threshold("map@3", max_lost=2, policy="tolerant")
@pytest.mark.rageval_threshold("mrr@3", max_lost=0)
@pytest.mark.rageval_threshold("ndcg@3", min=0.3, max_drop=0.05, policy="rare")
@pytest.mark.rageval_threshold("hit@1", min=0.15)
@pytest.mark.rageval_threshold("full_recall@3", min=0.99)
@pytest.mark.rageval_threshold("context.tokens@3", max=40)
@pytest.mark.rageval_threshold("contains.ndcg@3", min=0.7)
@pytest.mark.rageval_threshold("provenance.p@3", max_drop=0.01)
def test_measures():
    pass


@pytest.mark.rageval_threshold("latency.p50", max=0.005)
@pytest.mark.rageval_threshold("latency.p95", max=5)
@pytest.mark.rageval_threshold("retrieval.cost", max=0.01)
@pytest.mark.rageval_threshold("recall@1", max_drop=0.1)
@pytest.mark.parametrize("rageval_retriever", ["cheap", "dear"], indirect=True, scope="session")
def test_costs():
    pass


@pytest.mark.parametrize("k", [1, 3])
def test_assertions(rageval, k):
    score = rageval.score(f"recall@{k}", max_drop=0.1)
    assert score.where(topic="billing") >= 0.5
    assert score >= 0.6


def test_one_question(rageval):
    assert "doc-7" in rageval.retrieve("What is the code of item-7?", k=2)


@pytest.mark.xfail(reason="known")
@pytest.mark.rageval_threshold("hit@1", min=1.0)
def test_known_failure():
    pass


@pytest.mark.skip(reason="not now")
@pytest.mark.rageval_threshold("hit@1", min=1.0)
def test_skipped():
    pass
