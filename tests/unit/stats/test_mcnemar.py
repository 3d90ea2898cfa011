"""The mid-p McNemar test and Tango's interval."""

import math
import random
import subprocess
import sys

import pytest

from pytest_rageval.stats.mcnemar import MAX_N_EXACT, mid_p, tango_interval


@pytest.mark.parametrize(
    ("lost", "gained", "p_value"),
    [
        (1, 0, 1 / 4),
        (4, 0, 1 / 32),
        (0, 4, 1 - 1 / 32),
        (2, 1, (1 + 3 / 2) / 8),
        (3, 3, 1 / 2),
        (7, 1, (1 + 8 / 2) / 256),
    ],
)
def test_the_observed_table_counts_half(lost: int, gained: int, p_value: float) -> None:
    """Hand-computed values; 7 of 8 is the example of Fagerland, Lydersen and Laake, two-sided 0.0391."""
    assert mid_p(lost, gained) == p_value


def test_no_change_is_no_evidence() -> None:
    """Without a loss or a gain, the p-value is 1."""
    assert mid_p(0, 0) == 1.0


def test_more_losses_are_never_less_suspicious() -> None:
    """One more loss lowers the p-value, and one more gain raises it."""
    for lost in range(30):
        for gained in range(30):
            if lost + gained:
                assert mid_p(lost + 1, gained) < mid_p(lost, gained) < mid_p(lost, gained + 1)


def test_both_directions_add_up() -> None:
    """The p-values of the two directions add up to 1, because each includes half of the observed table."""
    assert mid_p(17, 9) + mid_p(9, 17) == pytest.approx(1, abs=1e-15)


def test_many_changes_are_summed_in_floats() -> None:
    """At the count where the sum changes from integers to floats, both ways of summing agree."""
    lost, gained = 530, MAX_N_EXACT - 530
    term = whole = math.comb(MAX_N_EXACT, lost)
    for heads in range(lost + 1, MAX_N_EXACT + 1):
        term = term * (MAX_N_EXACT - heads + 1) // heads
        whole += 2 * term
    assert mid_p(lost, gained) == whole / 2 ** (MAX_N_EXACT + 1)
    pascal = (mid_p(lost, gained) + mid_p(lost + 1, gained - 1)) / 2
    assert mid_p(lost + 1, gained) == pytest.approx(pascal, rel=1e-10)


def test_no_change_has_an_interval() -> None:
    """Without any change, the bounds are ±z²/(n + z²): unseen changes remain possible."""
    z2 = 1.6448536269514722**2
    low, high = tango_interval(0, 0, 50, alpha=0.05)
    assert (low, high) == pytest.approx((-z2 / (50 + z2), z2 / (50 + z2)), abs=1e-12)


def test_the_interval_is_turned_with_the_signs() -> None:
    """Swapping losses and gains swaps the bounds and negates them."""
    low, high = tango_interval(9, 2, 40, alpha=0.05)
    assert tango_interval(2, 9, 40, alpha=0.05) == pytest.approx((-high, -low), abs=1e-12)


@pytest.mark.parametrize(("lost", "gained", "n"), [(1, 0, 1), (5, 0, 5), (0, 5, 5), (3, 3, 6), (4, 1, 1000)])
def test_the_interval_is_within_all_there_is(lost: int, gained: int, n: int) -> None:
    """The interval stays within -1 to 1 and contains the observed difference."""
    low, high = tango_interval(lost, gained, n, alpha=0.025)
    assert -1 <= low <= (lost - gained) / n <= high <= 1


@pytest.mark.slow
def test_the_interval_and_the_test_agree_but_for_borders() -> None:
    """Over all tables of up to 100 changes, test and interval disagree on seven, where only the interval excludes 0."""
    differ = 0
    for changed in range(1, 101):
        for lost in range(changed + 1):
            low, _ = tango_interval(lost, changed - lost, 500, alpha=0.05)
            significant = mid_p(lost, changed - lost) <= 0.05
            assert low > 0 or not significant
            differ += (low > 0) != significant
    assert differ <= 7


@pytest.mark.slow
def test_the_interval_covers() -> None:
    """Each bound is wrong in at most 6.5% of 4,000 samples; the standard error is 0.3 points."""
    rng = random.Random(1)
    for n, losses, gains in ((30, 0.1, 0.1), (60, 0.15, 0.05), (200, 0.04, 0.01)):
        known: dict[tuple[int, int], tuple[float, float]] = {}
        below = above = 0
        for _ in range(4000):
            u = [rng.random() for _ in range(n)]
            table = sum(x < losses for x in u), sum(x > 1 - gains for x in u)
            low, high = known.setdefault(table, tango_interval(*table, n, alpha=0.05))
            below, above = below + (low > losses - gains + 1e-12), above + (high < losses - gains - 1e-12)
        assert max(below, above) <= 0.065 * 4000
        assert min(below, above) >= 0.02 * 4000


def test_nothing_heavy_is_imported() -> None:
    """The joint test, the interval and the power of 0/1 scores are computed without importing numpy or scipy."""
    script = (
        "import sys\n"
        "from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test\n"
        "from pytest_rageval.stats.power import detectable_drop\n"
        "from pytest_rageval.stats.sequential import SequentialDropTest\n"
        "joint_drop_test([PairedDrops([1.0, 0.0, -1.0])], alpha=0.05); detectable_drop([1.0, 0.0], alpha=0.05)\n"
        "assert not {'numpy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
