"""McNemar's test of resampled questions, and Tango's interval."""

import math
import random
import subprocess
import sys
from statistics import NormalDist

import pytest

from pytest_rageval.stats.mcnemar import mcnemar_p_value, tango_interval


@pytest.mark.parametrize(
    ("lost", "gained", "n", "p_value"),
    [
        (0, 0, 5, 1.0),
        (1, 0, 1, 1 / 2),
        (4, 0, 4, 1 / 16),
        (0, 2, 2, 1.0),
        # One of two questions changed. Both coins are needed for T ≥ 1: P(1 change)/2 + P(2 changes)/4.
        (1, 0, 2, 1 / 4 + 1 / 16),
    ],
)
def test_by_hand(lost: int, gained: int, n: int, p_value: float) -> None:
    assert mcnemar_p_value(lost, gained, n) == pytest.approx(p_value, rel=1e-14)


def test_three_lost_are_significant_and_two_are_not() -> None:
    """With 12 questions or more, 3 lost and none gained are significant at 5%; 4 of 4 questions are not."""
    for n in (12, 30, 100, 100_000):
        assert mcnemar_p_value(2, 0, n) > 0.05 >= mcnemar_p_value(3, 0, n)
    assert mcnemar_p_value(4, 0, 4) > 0.05 >= mcnemar_p_value(5, 0, 5)


def test_more_losses_are_never_less_suspicious() -> None:
    for lost in range(1, 30):
        for gained in range(30):
            p_value = mcnemar_p_value(lost, gained, 100)
            assert mcnemar_p_value(lost + 1, gained, 100) < p_value
            assert mcnemar_p_value(lost, gained + 1, 100) > p_value


@pytest.mark.parametrize("lost", [60_000, 50_500, 40_000])
def test_many_changes_are_near_the_normal_limit(lost: int) -> None:
    """Of 100,000 changes among 200,000 questions the p-value is within 1% of the normal tail, or tiny."""
    statistic = (2 * lost - 100_000) / math.sqrt(100_000)
    expected = NormalDist().cdf(-statistic)
    assert mcnemar_p_value(lost, 100_000 - lost, 200_000) == pytest.approx(expected, rel=0.01, abs=1e-300)
    assert mcnemar_p_value(lost, 100_000 - lost, 200_000) > 0


def test_no_change_has_an_interval() -> None:
    z2 = 1.6448536269514722**2
    low, high = tango_interval(0, 0, 50, alpha=0.05)
    assert (low, high) == pytest.approx((-z2 / (50 + z2), z2 / (50 + z2)), abs=1e-12)


def test_the_interval_is_turned_with_the_signs() -> None:
    """Swapping losses and gains swaps the bounds and negates them."""
    low, high = tango_interval(9, 2, 40, alpha=0.05)
    assert tango_interval(2, 9, 40, alpha=0.05) == pytest.approx((-high, -low), abs=1e-12)


@pytest.mark.parametrize(("lost", "gained", "n"), [(1, 0, 1), (5, 0, 5), (0, 5, 5), (3, 3, 6), (4, 1, 1000)])
def test_the_interval_is_within_all_there_is(lost: int, gained: int, n: int) -> None:
    low, high = tango_interval(lost, gained, n, alpha=0.025)
    assert -1 <= low <= (lost - gained) / n <= high <= 1


@pytest.mark.slow
def test_the_interval_and_the_test_agree_but_for_borders() -> None:
    """Over all tables of up to 100 changes, test and interval disagree on a few near the border."""
    differ = 0
    for changed in range(1, 101):
        for lost in range(changed + 1):
            low, _ = tango_interval(lost, changed - lost, 500, alpha=0.05)
            p_value = mcnemar_p_value(lost, changed - lost, 500)
            assert (low > 0) == (p_value <= 0.05) or 0.04 < p_value < 0.06
            differ += (low > 0) != (p_value <= 0.05)
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
    script = (
        "import sys\n"
        "from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test\n"
        "from pytest_rageval.stats.power import detectable_drop\n"
        "from pytest_rageval.stats.sequential import CurtailedDropTest\n"
        "joint_drop_test([PairedDrops([1.0, 0.0, -1.0])], alpha=0.05); detectable_drop([1.0, 0.0], alpha=0.05)\n"
        "assert not {'numpy', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
