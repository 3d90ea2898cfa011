"""alpha-nDCG of rankings by the nuggets that their passages support."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.measures.nuggets import alpha_ndcg, best_labels, lenient, strict

A, B, AB, NONE = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)


@pytest.mark.parametrize(
    ("ranking", "missed", "k", "value"),
    [
        ([], [], 3, 0.0),
        ([NONE, NONE], [], 3, 0.0),
        ([(0.5, 0.5)], [], 3, 0.0),
        ([A, B], [], 2, 1.0),
        # A at rank 2 instead of 1.
        ([NONE, A], [], 2, 1 / log2(3)),
        # A twice counts 1 + 1/2: 1 + 0.5 / log2(3) of 1 + 1 / log2(3) + 0.5 / 2.
        ([A, A, B], [], 3, (1 + 0.5 / log2(3) + 1 / 2) / (1 + 1 / log2(3) + 0.5 / 2)),
        # Only the first two places count, of the ideal ranking too.
        ([A, A, B], [], 2, (1 + 0.5 / log2(3)) / (1 + 1 / log2(3))),
        # A passage with both nuggets was missed: 2, and then A or B at half its gain.
        ([A, B], [AB], 2, (1 + 1 / log2(3)) / (2 + 0.5 / log2(3))),
        ([NONE], [AB], 1, 0.0),
        # A third passage with A counts a quarter.
        ([A, A, A], [], 3, 1.0),
        ([AB, A, A], [B], 3, (2 + 0.5 / log2(3) + 0.25 / 2) / (2 + 0.5 / log2(3) + 0.5 / 2)),
    ],
)
def test_alpha_ndcg_by_hand(ranking, missed, k: int, value: float) -> None:
    """Gain, discount and ideal ranking as in Clarke et al. (2008)."""
    assert alpha_ndcg(ranking, missed, k) == pytest.approx(value)


def test_with_alpha_0_a_repeated_nugget_counts_whole() -> None:
    """Then it is nDCG with the number of nuggets as gain."""
    value = (1 + 2 / log2(3)) / (2 + 1 / log2(3))
    assert alpha_ndcg([A, AB], [], 2, alpha=0.0) == pytest.approx(value)


LABELS = st.lists(st.tuples(*[st.sampled_from((0.0, 0.5, 1.0))] * 4), max_size=7)


@given(ranking=LABELS, missed=LABELS, k=st.integers(1, 9))
def test_it_lies_between_0_and_1(ranking, missed, k: int) -> None:
    """Though the greedy order is not the best one in all cases; it is 0 where no nugget is supported."""
    value = alpha_ndcg(ranking, missed, k)
    assert 0 <= value <= 1
    assert (value > 0) == any(label == 1 for labels in ranking[:k] for label in labels)


@given(ranking=LABELS, k=st.integers(1, 9))
def test_a_passage_that_was_missed_never_helps(ranking, k: int) -> None:
    """It can only make the ideal ranking better. Greedily chosen, it is so where it supports all nuggets."""
    assert alpha_ndcg(ranking, [(1.0,) * 4], k) <= alpha_ndcg(ranking, [], k) + 1e-12


def test_shares_of_nuggets() -> None:
    """Of the best label of each; a part counts half, or nothing."""
    best = best_labels([(1.0, 0.5, 0.0, 0.0), (0.0, 0.5, 0.5, 0.0)], 4)
    assert best == (1.0, 0.5, 0.5, 0.0)
    assert (strict(best), lenient(best)) == (0.25, 0.5)
    assert best_labels([], 2) == (0.0, 0.0)
