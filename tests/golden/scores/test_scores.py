"""Scores with a generator and a judge."""

import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")


@pytest.mark.rageval_threshold("llm_reteval@3", min=0.7, max_drop=0.02)
@pytest.mark.rageval_threshold("answer.correct@3", min=0.7, max_drop=0.02)
@pytest.mark.rageval_threshold("answer.correct@3", min=0.5, comparator="judge or em")
@pytest.mark.rageval_threshold("answer.correct@3", min=0.5, comparator="graded")
@pytest.mark.rageval_threshold("answer.em@3", min=0.1)
@pytest.mark.rageval_threshold("answer.f1@3", max_drop=0.02, where={"topic": "shipping"})
@pytest.mark.rageval_threshold("answer.containment@3", max_drop=0.02, by="topic")
@pytest.mark.rageval_threshold("answer.abstained@3", max=0.1)
def test_answers():
    pass


@pytest.mark.rageval_threshold("erag.ndcg@3", min=0.6, max_drop=0.02)
@pytest.mark.rageval_threshold("erag.p@3", min=0.1, label="em")
@pytest.mark.rageval_threshold("relevance.map@3", min=0.6, max_drop=0.02)
@pytest.mark.rageval_threshold("udcg@3", min=0.1, max_drop=0.02)
@pytest.mark.rageval_threshold("sufficient@3", min=0.6, max_drop=0.02)
def test_passages():
    pass


@pytest.mark.rageval_threshold("rel_recall.answer@3", min=0.6, max_drop=0.02)
@pytest.mark.rageval_threshold("rel_recall.citation@3", min=0.6)
@pytest.mark.rageval_threshold("rel.answer@3", min=0.6)
@pytest.mark.rageval_threshold("rel.citation@3", min=0.6)
@pytest.mark.rageval_threshold("rel.citation_precision@3", min=0.6)
@pytest.mark.rageval_threshold("rel.coverage@3", min=0.6)
@pytest.mark.rageval_threshold("rel.answer_coverage@3", min=0.6)
def test_citations():
    pass


def test_one_question(rageval):
    assert rageval.answer("What is the code of item-4?", 2) == "c4x"
