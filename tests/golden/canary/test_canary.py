"""A model that forgets is no worse retriever. The model is a function of the project."""

import pytest
from corpus import client

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.fixture(scope="session")
def rageval_client():
    return client


@pytest.mark.rageval_threshold("answer.em@1", max_drop=0.02)
def test_gate():
    pass
