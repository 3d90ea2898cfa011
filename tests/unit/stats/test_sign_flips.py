"""Step-down p-values of the largest sum under random signs."""

import itertools

import numpy as np
import pytest

from pytest_rageval.stats import sign_flips as module
from pytest_rageval.stats.mcnemar import mid_p
from pytest_rageval.stats.sign_flips import MAX_EXACT_ROWS, RESAMPLING_RISK, marginal_level, sign_flip_test


def _all_patterns(columns: np.ndarray) -> list[float]:
    """The definition, pattern by pattern."""
    scaled = columns / np.sqrt((columns**2).sum(axis=0))
    observed = scaled.sum(axis=0)
    order = sorted(range(columns.shape[1]), key=lambda j: -observed[j])
    sums = np.array(list(itertools.product([1, -1], repeat=len(columns)))) @ scaled
    found, least = [0.0] * columns.shape[1], 0.0
    for place, j in enumerate(order):
        largest = sums[:, order[place:]].max(axis=1)
        p_value = np.mean(largest > observed[j] + 1e-9) + np.mean(abs(largest - observed[j]) <= 1e-9) / 2
        found[j] = least = max(least, float(p_value))
    return found


def _columns(seed: int, rows: int, columns: int = 3, shift: float = 0.1) -> np.ndarray:
    """Columns that go together, of a mean above 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 0.3, (rows, 1)) + rng.normal(0, 0.2, (rows, columns))


def test_by_hand() -> None:
    """3 and 2 lost, 1 gained: one of the eight patterns is above the sum of 4, and one equals it."""
    assert sign_flip_test(np.array([[3.0], [2.0], [-1.0]]), alpha=0.05).p_values == (1.5 / 8,)


def test_one_column_of_verdicts_is_mcnemar() -> None:
    """The mid-p test, to the last bit."""
    for lost, gained in ((4, 0), (5, 2), (3, 3), (0, 2)):
        column = np.array([[1.0]] * lost + [[-1.0]] * gained + [[0.0]] * 5)
        assert sign_flip_test(column, alpha=0.05).p_values[0] == mid_p(lost, gained)


def test_two_columns_by_hand() -> None:
    """Two questions, lost in both: one pattern of four ties in either, with one row of its own in neither."""
    assert sign_flip_test(np.array([[1.0, 1.0], [1.0, 1.0]]), alpha=0.05).p_values == (1 / 8, 1 / 8)
    # Of the 16 patterns of unrelated rows the largest sum reaches that of two losses in 7: 1 in 4 and 1 in 4.
    apart = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert sign_flip_test(apart, alpha=0.05).p_values == (7 / 32, 7 / 32)


def test_a_column_without_change_says_nothing() -> None:
    """Nor does it change what the others say."""
    columns = _columns(1, 8, 2)
    both = sign_flip_test(np.column_stack([columns, np.zeros(8)]), alpha=0.05).p_values
    assert both == (*sign_flip_test(columns, alpha=0.05).p_values, 1.0)
    assert sign_flip_test(np.zeros((5, 2)), alpha=0.05) == module.SignFlipResult((1.0, 1.0), 0, settled=True)
    assert sign_flip_test(np.zeros((0, 2)), alpha=0.05).p_values == (1.0, 1.0)


def test_the_same_column_twice_costs_nothing() -> None:
    """Which dividing the level by the number of columns would."""
    column = _columns(2, 12, 1)
    once, twice = (sign_flip_test(np.repeat(column, k, axis=1), alpha=0.05).p_values for k in (1, 2))
    assert twice == pytest.approx(once * 2, abs=1e-12)


def test_columns_are_independent_of_their_scale() -> None:
    """A score in points is one in shares."""
    columns = _columns(3, 10)
    scaled = sign_flip_test(columns * [1, 100, 0.01], alpha=0.05).p_values
    assert scaled == pytest.approx(sign_flip_test(columns, alpha=0.05).p_values, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_draws_are_near_all_patterns(seed: int) -> None:
    """17 rows, where patterns are drawn: within five standard errors of their share."""
    columns = _columns(seed, MAX_EXACT_ROWS + 1)
    exact = _all_patterns(columns)
    drawn = sign_flip_test(columns, alpha=0.05, seed=seed)
    assert drawn.draws >= 10_000
    for ours, theirs in zip(drawn.p_values, exact, strict=True):
        assert ours == pytest.approx(theirs, abs=5 * np.sqrt(theirs * (1 - theirs) / drawn.draws) + 2e-4)


@pytest.mark.slow
def test_many_even_rows_are_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the errors of both from the share of drawn patterns, for one column and for three."""
    columns = _columns(7, 2000, shift=0.012)
    normal, one = sign_flip_test(columns, alpha=0.05), sign_flip_test(columns[:, :1], alpha=0.05)
    assert one.draws == 0
    monkeypatch.setattr(module, "MAX_FOURTH_MOMENT", 0.0)
    monkeypatch.setattr(module, "MIN_DRAWS", 40_000)
    drawn, drawn_one = sign_flip_test(columns, alpha=0.05), sign_flip_test(columns[:, :1], alpha=0.05)
    for few, many in zip(
        (*normal.p_values, *one.p_values), (*drawn.p_values, *drawn_one.p_values), strict=True
    ):
        assert few == pytest.approx(many, abs=5 * np.sqrt(many * (1 - many) / 10_000))


def test_uneven_rows_are_drawn() -> None:
    """One row outweighs a thousand others, which cancel: p is 1/4, and would be 1/6 if the sum were normal."""
    column = np.r_[100.0, np.full(500, 0.01), np.full(500, -0.01)][:, None]
    found = sign_flip_test(column, alpha=0.05)
    assert found.draws
    assert found.p_values[0] == pytest.approx(1 / 4, abs=0.02)


@pytest.mark.slow
def test_the_seed_decides_the_p_value_but_not_the_verdict() -> None:
    """Where p is near 0.05 as where it is not: ten seeds agree for each of five columns."""
    base = _columns(11, 24, 1, shift=0.0)
    base -= base.mean()
    for shift in (0.1, 0.11, 0.12, 0.13, 0.2):
        several = [sign_flip_test(base + shift, alpha=0.05, seed=seed) for seed in range(10)]
        settled = [found for found in several if found.settled]
        assert len({found.p_values[0] <= 0.05 for found in settled}) <= 1
        if len(settled) < len(several):
            assert all(found.p_values[0] > 0.05 for found in several if not found.settled)


def test_it_stops_where_the_verdict_is_clear() -> None:
    """And goes on where it is not."""
    base = _columns(12, 40, 1, shift=0.0)
    base = (base - base.mean()) / base.std()
    draws = {shift: sign_flip_test(base + shift, alpha=0.05).draws for shift in (0.0, 0.25, 0.27, 0.6)}
    assert draws[0.0] == draws[0.6] == 10_000
    assert max(draws.values()) > 20_000


def test_at_the_cap_it_counts_as_not_significant() -> None:
    """The p-value is then the largest that the draws leave possible, which is above the level."""
    columns = _columns(13, 40, 1, shift=0.0)
    columns += 0.0875 - columns.mean()
    whole = sign_flip_test(columns, alpha=0.05, max_draws=1_000_000)
    capped = sign_flip_test(columns, alpha=whole.p_values[0] + 1e-4, max_draws=2000)
    assert not capped.settled
    assert capped.draws == 2000
    assert capped.p_values[0] > whole.p_values[0] + 1e-4


def test_a_small_level_needs_no_draws() -> None:
    """The bound on the tail decides: 1e-9 would take more draws than there can be."""
    columns = np.abs(_columns(14, 200, 2)) + 0.5
    found = sign_flip_test(columns, alpha=1e-9)
    assert found.settled
    assert found.draws <= 10_000
    assert max(found.p_values) < 1e-9


def test_the_bound_on_the_tail_is_one() -> None:
    """No column of small numbers has a p-value above it."""
    rng = np.random.default_rng(15)
    for _ in range(50):
        column = rng.normal(0.4, 1, (int(rng.integers(2, 13)), 1))
        statistic = float(column.sum() / np.sqrt((column**2).sum()))
        bound = module.TAIL_FACTOR * module.NormalDist().cdf(-statistic)
        assert sign_flip_test(column, alpha=0.05).p_values[0] <= bound


def test_wrong_decisions_are_as_rare_as_promised() -> None:
    """The rule on 3,000 sequences of coins at twice and at half the level: none is decided wrongly.

    The promise is one in 10,000.
    """
    rng = np.random.default_rng(16)
    evidence = np.log(1 / RESAMPLING_RISK)
    for chance, wrong in ((0.1, -1), (0.025, 1)):
        for _ in range(1500):
            total = draws = 0
            while draws < 20_000:
                total += rng.binomial(100, chance)
                draws += 100
                if module._log_martingale(total, draws, 0.05) >= evidence:
                    assert np.sign(total / draws - 0.05) != wrong
                    break


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_and_columns_does_not_matter(seed: int) -> None:
    """Where all patterns are weighed."""
    columns = _columns(seed, 10, 4)
    rng = np.random.default_rng(seed)
    order = rng.permutation(4)
    found = sign_flip_test(columns[rng.permutation(10)][:, order], alpha=0.05).p_values
    assert found == pytest.approx(np.array(sign_flip_test(columns, alpha=0.05).p_values)[order], abs=1e-12)


def test_the_joint_level() -> None:
    """The whole of it for copies, Sidak's for unrelated columns, in between for others; 0 columns do not count."""
    rng = np.random.default_rng(17)
    column = rng.normal(size=(4000, 1))
    assert marginal_level(np.repeat(column, 3, axis=1), 0.05) == pytest.approx(0.05, rel=0.03)
    assert marginal_level(rng.normal(size=(4000, 5)), 0.05) == pytest.approx(1 - 0.95**0.2, rel=0.06)
    some = marginal_level(column + 0.5 * rng.normal(size=(4000, 5)), 0.05)
    assert 0.012 < some < 0.04
    assert marginal_level(np.column_stack([column, np.zeros(4000)]), 0.05) == 0.05
    assert marginal_level(np.zeros((4, 2)), 0.05) == 0.05


def test_a_large_set_needs_few_operations() -> None:
    """100,000 questions and six scores: no more draws than of a small set, of six numbers each."""
    rng = np.random.default_rng(18)
    base = rng.normal(size=(100_000, 1))
    columns = base + 0.5 * rng.normal(size=(100_000, 6))
    columns -= columns.mean(axis=0)
    for statistic in (0.0, 1.9, 2.7, 9.0):
        found = sign_flip_test(columns + statistic / np.sqrt(100_000), alpha=0.05)
        assert found.settled
        assert found.draws <= 50_000
