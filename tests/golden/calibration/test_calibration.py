"""The judge against people, and scores corrected for its errors."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_calibration("labels.jsonl", min_kappa=0.5, min_accuracy=0.75)
@pytest.mark.rageval_threshold("answer.correct@1", min=0.5, max_drop=0.02)
@pytest.mark.rageval_threshold("llm_reteval@1", min=0.5)
def test_gate():
    pass


@pytest.mark.rageval_calibration("labels.jsonl", min_kappa=0.9)
def test_judge():
    pass
