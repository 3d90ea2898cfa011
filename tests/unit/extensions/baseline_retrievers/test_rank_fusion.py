"""Reciprocal rank fusion, by hand."""

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.ranking import Document
from pytest_rageval.extensions.baseline_retrievers.llm_baselines import RRF_K, reciprocal_rank_fusion


def _ranking(names: str) -> list[Document]:
    return [Document(f"text of {name}", name) for name in names]


def test_the_constant_says_how_much_a_first_rank_counts() -> None:
    rankings = [_ranking("axy"), _ranking("xyb"), _ranking("yxb")]
    with_0, with_60 = (reciprocal_rank_fusion(rankings, k=k) for k in (0, RRF_K))
    assert [d.id for d in with_0] == ["x", "y", "a", "b"]
    assert [d.id for d in with_60] == ["x", "y", "b", "a"]
    assert with_0[2].score == 1.0


def test_a_document_that_comes_twice_in_a_ranking_counts_once() -> None:
    fused = reciprocal_rank_fusion([_ranking("aab")], k=0)
    assert [(document.id, document.score) for document in fused] == [("a", 1.0), ("b", 0.5)]


def test_without_ids_equal_texts_are_one_document() -> None:
    fused = reciprocal_rank_fusion([[Document("same", score=9.0)], [Document("same", score=1.0)]])
    assert [(document.text, document.score) for document in fused] == [("same", 2 / 61)]


@pytest.mark.parametrize("rankings", [[], [[]], [[], []]])
def test_nothing_fused_is_nothing(rankings: list[list[Document]]) -> None:
    assert reciprocal_rank_fusion(rankings) == []


@pytest.mark.parametrize("k", [-1, float("nan")])
def test_a_constant_below_zero_is_refused(k: float) -> None:
    with pytest.raises(InputError, match="it must be at least 0, usually 60"):
        reciprocal_rank_fusion([_ranking("a")], k=k)
