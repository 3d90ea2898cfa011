"""Grades, nuggets and draws; the votes of a judge."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("judged.correctness@2", min=3, max_drop=0.1)
@pytest.mark.rageval_threshold("judged.faithfulness@2", min=3)
@pytest.mark.rageval_threshold("judged.context_quality@2", min=4)
@pytest.mark.rageval_threshold("nuggets.coverage@2", min=0.5, max_drop=0.02)
@pytest.mark.rageval_threshold("nuggets.vital@2", min=0.5)
@pytest.mark.rageval_threshold("nuggets.ndcg@2", min=0.5)
@pytest.mark.rageval_threshold("answer.nuggets@2", min=0.5)
@pytest.mark.rageval_threshold("answer.correct@2", min=0.5, draws=2, temperature=0.3)
def test_grades():
    pass
