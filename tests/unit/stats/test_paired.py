"""The paired randomisation test."""

import math
import random
import subprocess
import sys

import pytest
from pytest_rageval.stats.paired import PairedTest, paired_test

from pytest_rageval.stats import paired

REAL = [0.2 + math.sin(7 * i) / 2 for i in range(16)]
"""Differences without a common step: 2^16 sums."""


@pytest.mark.parametrize(
    ("drops", "p_value"),
    [
        ([1.0], 1 / 2),
        ([1.0] * 5, 1 / 32),
        ([1, 1, 1, -1], 5 / 16),
        ([-1.0] * 4, 1.0),
        ([0.25, 0.25, -0.25, 0.25], 5 / 16),
        ([0.3 - 0.2, 0.2 - 0.1, 0.1], 1 / 8),  # one size but for rounding
    ],
)
def test_changes_of_one_size_are_coin_tosses(drops: list[float], p_value: float) -> None:
    """The binomial tail, worked by hand; equal scores say nothing."""
    expected = PairedTest(p_value, exact=True, n=len(drops) + 3, changed=len(drops))
    assert paired_test([0.0, *drops, 0.0, 0.0]) == expected


def test_changes_of_different_sizes_are_weighed() -> None:
    """3 and 2 lost, 1 gained: of the eight patterns +++ and ++- reach the sum of 4."""
    assert paired_test([3, 2, -1]) == PairedTest(2 / 8, exact=True, n=3, changed=3)


def test_a_pattern_that_ties_counts() -> None:
    """0.1 + 0.2 - 0.3 is 0 but for rounding: five of the eight patterns have a sum of 0 or more."""
    assert paired_test([0.1, 0.2, -0.3]).p_value == 5 / 8


@pytest.mark.parametrize("drops", [[], [0.0], [0.0] * 50, [1e-17, 3e-16, 1e-17, 1e-17, 1e-17, 1e-17]])
def test_no_change_is_no_evidence(drops: list[float]) -> None:
    """Nor is rounding, were it all in one direction."""
    assert paired_test(drops) == PairedTest(1.0, exact=True, n=len(drops), changed=0)


def test_many_binary_scores_stay_exact() -> None:
    """10,000 changes, half of them losses, are more likely than not reached."""
    result = paired_test([1.0, -1.0] * 5000)
    assert result.exact
    assert result.p_value == pytest.approx(0.5 + math.comb(10_000, 5000) / 2**10_001, abs=1e-15)


@pytest.mark.parametrize(("count", "exact"), [(14, True), (15, False)])
def test_where_the_exact_test_ends(count: int, exact: bool) -> None:  # noqa: FBT001
    """2^14 different sums are followed, 2^15 are not."""
    assert paired_test([2.0**power for power in range(count)]).exact is exact


def test_a_common_step_keeps_many_changes_exact() -> None:
    """300 changes by sixths have few different sums."""
    rng = random.Random(1)
    assert paired_test([rng.choice([-3, -2, 1, 2, 3]) / 6 for _ in range(300)]).exact


def test_draws_are_near_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within four standard errors of 20,000 draws, whether they are made in blocks or at once."""
    exact = paired_test(REAL, resamples=1 << 16)
    assert exact.exact
    error = 4 * math.sqrt(exact.p_value * (1 - exact.p_value) / 20_000)
    whole = paired_test(REAL)
    monkeypatch.setattr(paired, "BLOCK", 1000)
    in_blocks = paired_test(REAL)
    for drawn in (whole, in_blocks):
        assert not drawn.exact
        assert drawn.p_value == pytest.approx(exact.p_value, abs=error)


def test_the_observed_pattern_counts_among_the_draws() -> None:
    """Where no draw reaches it, p is 1 / (m + 1), and never 0."""
    drops = [1 + 1 / (2 + i) for i in range(200)]
    assert paired_test(drops, resamples=999).p_value == 1 / 1000
    assert paired_test([-drop for drop in drops], resamples=999).p_value == 1.0


def test_the_seed_decides() -> None:
    """The same seed gives the same p-value, another one nearly the same."""
    assert paired_test(REAL, seed=1) == paired_test(REAL, seed=1)
    assert paired_test(REAL, seed=1) != paired_test(REAL, seed=2)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_refused(bad: float) -> None:
    """It must not end as a p-value."""
    with pytest.raises(ValueError, match="finite"):
        paired_test([0.5, bad])


def test_binary_scores_need_no_numpy() -> None:
    """Its import takes longer than the test."""
    script = (
        "import sys; from pytest_rageval.stats.paired import paired_test\n"
        "paired_test([1, 0, -1]); assert 'numpy' not in sys.modules\n"
        "paired_test([1, 0, -2]); assert 'numpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
