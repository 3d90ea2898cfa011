"""Two systems, compared with the references and with each other."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.fixture(scope="session", params=["good", "bad"])
def rageval_retriever(request, rageval_retriever):
    return rageval_retriever if request.param == "good" else lambda _, k: rageval_retriever("item-100", k)


@pytest.mark.rageval_threshold("arena.win@1", min=0.3, max_drop=0.02)
@pytest.mark.rageval_threshold("arena.win_tie@1", min=0.3, by="topic")
def test_arena():
    pass
