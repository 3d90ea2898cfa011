"""Kendall's tau and Spearman's rho."""

from math import sqrt

import pytest

from pytest_rageval.stats.agreement import kendall_tau, spearman_rho


def test_worked_examples_without_and_with_ties() -> None:
    """Of six pairs, five are in the same order and one is swapped; the ranks differ by 0, 1, 1, 0.

    Then a binary score is compared with a graded one. Of six pairs, two are tied in a, one other pair is tied in b,
    and the other three are in the same order. The ranks are 1.5, 1.5, 3.5, 3.5 and 1, 2.5, 2.5, 4; their differences
    from the mean of 2.5 are -1, -1, 1, 1 and -1.5, 0, 0, 1.5.
    """
    a, b = [10, 20, 30, 40], [1, 3, 2, 4]
    assert kendall_tau(a, b) == pytest.approx((5 - 1) / 6, abs=1e-15)
    assert spearman_rho(a, b) == pytest.approx(1 - 6 * (1 + 1) / (4 * (16 - 1)), abs=1e-15)
    a, b = [0, 0, 1, 1], [0.1, 0.5, 0.5, 0.9]
    assert kendall_tau(a, b) == pytest.approx((3 - 0) / sqrt((6 - 2) * (6 - 1)), abs=1e-15)
    assert spearman_rho(a, b) == pytest.approx((1.5 + 1.5) / sqrt(4 * 4.5), abs=1e-15)


@pytest.mark.parametrize("measure", [kendall_tau, spearman_rho])
def test_the_same_order_is_1_and_the_opposite_is_minus_1(measure) -> None:
    """Only the order of the values counts, not the distances between them."""
    assert measure([1, 2, 3, 10], [0.1, 0.2, 0.9, 1.0]) == pytest.approx(1.0, abs=1e-15)
    assert measure([1, 2, 3, 10], [4, 3, 2, 1]) == pytest.approx(-1.0, abs=1e-15)


@pytest.mark.parametrize("measure", [kendall_tau, spearman_rho])
@pytest.mark.parametrize(
    ("a", "b"), [([], []), ([1], [2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [0, 0, 0]), ([1, 1], [1.0, True])]
)
def test_without_two_values_there_is_none(measure, a: list[float], b: list[float]) -> None:
    """If one of the lists has fewer than two distinct values, both coefficients are None, not 0."""
    assert measure(a, b) is None


@pytest.mark.parametrize("measure", [kendall_tau, spearman_rho])
def test_scores_of_different_queries_are_refused(measure) -> None:
    with pytest.raises(ValueError, match="not 2 and 3"):
        measure([1, 2], [1, 2, 3])
