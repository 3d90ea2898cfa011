"""Two raters or two orders: accuracy, kappa and correlations; the majority of several; and tallies of votes."""

from math import sqrt

import pytest

from pytest_rageval.core.outcome import Tally
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, kendall_tau, majority, pearson, spearman_rho
from pytest_rageval.stats.intervals import Estimate, wilson_interval


def test_kappa_of_a_worked_example() -> None:
    """In Cohen's own example, 0.70 observed and 0.50 chance agreement give a kappa of 0.4."""
    table = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    a, b = zip(*[pair for pair, count in table.items() for _ in range(count)], strict=True)
    kappa = cohen_kappa(a, b)
    assert kappa.value == pytest.approx(0.4, abs=1e-12)
    low, high = wilson_interval(35, 50)
    assert (kappa.low, kappa.high) == pytest.approx((low * 2 - 1, high * 2 - 1), abs=1e-12)
    assert accuracy(a, b) == Estimate(0.7, low, high)


def test_kappa_of_wins_ties_and_losses() -> None:
    """A tie is a label like any other: missing by half a point or by a whole one both count as a disagreement."""
    people = [1, 1, 0, -1, -1, 1]
    near, far = cohen_kappa(people, [1, 0, 0, -1, 0, 1]), cohen_kappa(people, [1, -1, 0, -1, 1, 1])
    assert far is not None
    assert near.value == pytest.approx((4 / 6 - 11 / 36) / (1 - 11 / 36), abs=1e-12)
    assert far.value == pytest.approx((4 / 6 - 14 / 36) / (1 - 14 / 36), abs=1e-12)


@pytest.mark.parametrize("n", [4, 20, 200])
def test_full_agreement_has_an_interval_of_positive_width(n: int) -> None:
    """If all labels agree, kappa is 1 and its lower bound is below 1: a few items do not prove perfect agreement."""
    labels = [0, 1] * (n // 2)
    kappa = cohen_kappa(labels, labels)
    assert kappa.value == kappa.high == 1
    assert kappa.low == pytest.approx(1 - 2 * (1 - wilson_interval(n, n)[0]), abs=1e-12)


def test_kappa_is_cut_at_minus_1() -> None:
    """If chance agreement is almost 1, the computed lower bound is below -1 and is clipped to -1."""
    kappa = cohen_kappa([1] * 99 + [0], [1] * 100)
    assert kappa.value == pytest.approx(0, abs=1e-12)
    assert kappa.low == -1


@pytest.mark.parametrize(("a", "b"), [([], []), ([1, 1], [1, 1]), (["no"], ["no"])])
def test_kappa_without_two_labels_is_none(a: list[object], b: list[object]) -> None:
    """If the raters use only one label, chance agreement is 1 and kappa is None, not 0 or 1."""
    assert cohen_kappa(a, b) is None


def test_accuracy_of_nothing_is_none() -> None:
    assert accuracy([], []) is None


def test_pearson_of_a_worked_example() -> None:
    """Deviations from the mean of -1, 0, 1 and -1, 1, 0 give a correlation of 1/2."""
    correlation = pearson([1, 2, 3], [3, 5, 4])
    assert correlation.value == pytest.approx(1 / sqrt(2 * 2), abs=1e-15)


@pytest.mark.parametrize("measure", [pearson, kendall_tau, spearman_rho])
@pytest.mark.parametrize(
    ("a", "b"), [([], []), ([1], [2]), ([3, 3, 3], [1, 2, 3]), ([1, 2], [4, 4]), ([1, 1], [1.0, True])]
)
def test_without_variation_there_is_no_correlation(measure, a: list[float], b: list[float]) -> None:
    """Fewer than two items, or a list of equal values, have no coefficient: it is None, not 0."""
    assert measure(a, b) is None


def test_pearson_hinges_on_one_item() -> None:
    """If the correlation rests on one item, resamples without that item do not vary, and the lower bound is 0."""
    correlation = pearson([1] * 9 + [5], [2] * 8 + [1, 5])
    assert correlation.value > 0.9
    assert correlation.low == 0


def test_grades_on_one_line_leave_no_width() -> None:
    """If all grades lie on one line, every resample has a correlation of 1, and so have both bounds."""
    correlation = pearson([1, 2, 3, 5], [2, 3, 4, 6])
    assert (correlation.value, correlation.low, correlation.high) == pytest.approx((1, 1, 1), abs=1e-12)


def test_the_seed_of_pearson_decides() -> None:
    a, b = [1, 2, 3, 4, 5, 3, 2, 4], [2, 2, 3, 5, 4, 2, 1, 3]
    assert pearson(a, b, seed=1) == pearson(a, b, seed=1) != pearson(a, b, seed=2)


@pytest.mark.parametrize("measure", [accuracy, cohen_kappa, pearson, kendall_tau, spearman_rho])
def test_labels_of_different_items_are_refused(measure) -> None:
    with pytest.raises(ValueError, match="not 2 and 3"):
        measure([1, 2], [1, 2, 3])


def test_tallies_add_up_to_rates() -> None:
    tally = sum([Tally(1, 1, 3, 1), Tally(1, 0, 2, 0, 1), Tally(2, 0, 6)], Tally())
    assert tally == Tally(verdicts=4, split=1, votes=11, minority=1, unread=1)
    assert (tally.flip_rate, tally.minority_rate) == (1 / 4, 1 / 11)


def test_without_verdicts_nothing_flips() -> None:
    assert (Tally().flip_rate, Tally().minority_rate) == (0.0, 0.0)


def test_orders_without_and_with_ties() -> None:
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


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 1, -1], 1),
        ([-1, -1, -1], -1),
        ([0, 0, 1], 0),
        ([1, -1, 0], 0),
        ([1, -1], 0),
        ([1, 1, -1, 0], 0),
        ([1], 1),
    ],
)
def test_majority(labels: list[int], expected: int) -> None:
    """A label needs more than half of the votes; otherwise the result is a tie, even for the most frequent label."""
    assert majority(labels, tie=0) == expected


def test_no_labels_have_no_majority() -> None:
    with pytest.raises(ValueError, match="at least one label"):
        majority([], tie=0)
