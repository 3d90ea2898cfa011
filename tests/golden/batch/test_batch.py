"""Requests in batches. They go to a server in this process."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("llm_reteval@2", min=0.6, max_drop=0.02)
@pytest.mark.rageval_threshold("answer.correct@2", min=0.6)
def test_gate():
    pass
