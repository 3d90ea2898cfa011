"""An agent that searches in several steps."""

import pytest
from corpus import search

from pytest_rageval import Retrieval, Step

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.fixture(scope="session")
def rageval_retriever():
    async def find(query, k):
        found, more = search(query, k), search("item-50", 2)
        return Retrieval(
            found[:1], [Step("first", more), Step(query, found)], tokens=len(query), cost=0.002, seconds=0.5
        )

    return find


@pytest.mark.rageval_threshold("retrieval.calls", max=1.5)
@pytest.mark.rageval_threshold("retrieval.cost", max=0.01)
@pytest.mark.rageval_threshold("steps.recall@3", min=0.6, max_drop=0.02)
@pytest.mark.rageval_threshold("recall@3", min=0.6, max_drop=0.02)
def test_steps():
    pass
