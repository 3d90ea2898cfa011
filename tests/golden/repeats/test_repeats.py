"""Repeated calls of generator and judge; the replies of the recording server vary."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("answer.correct@2", min=0.7, max_drop=0.02)
@pytest.mark.rageval_threshold("llm_reteval@2", max_drop=0.02)
@pytest.mark.rageval_threshold("recall@2", min=0.3)
def test_gate():
    pass
