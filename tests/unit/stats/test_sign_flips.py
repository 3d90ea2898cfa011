"""Step-down p-values of the largest sum under random sign flips."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

from pytest_rageval.stats import sign_flips as module
from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.sign_flips import RESAMPLING_RISK, marginal_level, sign_flip_test


def _columns(seed: int, rows: int, columns: int = 3, shift: float = 0.1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 0.3, (rows, 1)) + rng.normal(0, 0.2, (rows, columns))


def test_one_column_of_verdicts_is_mcnemar() -> None:
    """A single column of 0/1 differences has the p-value of McNemar's test, up to five standard errors."""
    for lost, gained in ((4, 0), (5, 2), (3, 3), (0, 2)):
        column = np.array([[1.0]] * lost + [[-1.0]] * gained + [[0.0]] * 5)
        found = sign_flip_test(column, alpha=0.05)
        expected = mcnemar_p_value(lost, gained, len(column))
        spread = np.sqrt(expected * (1 - expected) / found.draws)
        assert found.p_values[0] == pytest.approx(expected, abs=5 * spread + 1e-4)


def test_a_column_without_change_says_nothing() -> None:
    columns = _columns(1, 8, 2)
    both = sign_flip_test(np.column_stack([columns, np.zeros(8)]), alpha=0.05).p_values
    assert both == pytest.approx((*sign_flip_test(columns, alpha=0.05).p_values, 1.0), abs=0.02)
    assert sign_flip_test(np.zeros((5, 2)), alpha=0.05) == module.SignFlipResult((1.0, 1.0), 0, settled=True)
    assert sign_flip_test(np.zeros((0, 2)), alpha=0.05).p_values == (1.0, 1.0)


NAN = np.nan


def _enumerated(columns: np.ndarray) -> list[float]:
    """The p-values from all sequences of rows and signs, of which each column takes the first ones that it has."""
    known, values = ~np.isnan(columns), np.nan_to_num(columns)
    rows = np.flatnonzero(np.any(values != 0, axis=1))
    ends = [
        stats.binom.cdf(range(n + 1), n, k / n)
        for n, k in zip(known.sum(axis=0), known[rows].sum(axis=0), strict=True)
    ]
    drawn: Counter[tuple[float, ...]] = Counter()
    for low, high in pairwise(sorted({0.0, *np.concatenate(ends)})):
        counts = tuple(int(np.searchsorted(end, (low + high) / 2)) for end in ends)
        states = Counter({(counts, (0.0,) * len(ends), (0.0,) * len(ends)): high - low})
        while states:
            following: Counter[tuple] = Counter()
            for (left, sums, squares), weight in states.items():
                useful = [row for row in rows if np.any(known[row] & (np.array(left) > 0))]
                if not useful:
                    drawn[
                        tuple(s / np.sqrt(q) if q else 0.0 for s, q in zip(sums, squares, strict=True))
                    ] += weight
                for row, sign in product(useful, (-1, 1)):
                    taken = known[row] & (np.array(left) > 0)
                    state = (
                        tuple(map(int, left - taken)),
                        tuple(np.round(sums + sign * taken * values[row], 9)),
                        tuple(np.round(squares + taken * values[row] ** 2, 9)),
                    )
                    following[state] += weight / (2 * len(useful))
            states = following
    observed = values.sum(axis=0) / np.sqrt((values**2).sum(axis=0))
    order = np.argsort(-observed, kind="stable")
    p_values = np.ones(len(observed))
    for j, column in enumerate(order):
        reached = [w for t, w in drawn.items() if max(np.array(t)[order[j:]]) >= observed[column] - 1e-7]
        p_values[column] = max(sum(reached), p_values[order[j - 1]] if j else 0.0)
    return p_values.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "columns",
    [
        # The second column lacks a question, or an unchanged one; two slices, alone and beside the whole.
        [[1, 1, 1, 0.5], [1, 1, 1, NAN]],
        [[1, 1, 1, 0, 0], [1, 0.5, 1, 0, NAN]],
        [[1, 1, 1, 0, NAN], [NAN, NAN, 0.5, 1, 1]],
        [[1, 0.5, 1, NAN, NAN], [NAN, NAN, NAN, 1, 0]],
        [[1, 1, 0.5, -1], [1, 1, NAN, NAN], [NAN, NAN, 0.5, -1]],
    ],
)
def test_a_missing_value_is_no_value(columns: list[list[float]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column is resampled from the rows that it has; the p-values are those of an enumeration."""
    monkeypatch.setattr(module, "MIN_DRAWS", 40_000)
    table = np.array(columns, dtype=float).T
    found = sign_flip_test(table, alpha=0.05)
    for p_value, expected in zip(found.p_values, _enumerated(table), strict=True):
        spread = np.sqrt(expected * (1 - expected) / found.draws)
        assert p_value == pytest.approx(expected, abs=5 * spread + 1e-4)


def test_each_column_is_resampled_as_if_alone() -> None:
    """Beside the whole set, the statistic of a slice of four questions is distributed as if there were no others."""
    whole = np.r_[np.ones(4), -np.ones(3), np.zeros(13)]
    known = np.column_stack([np.ones(20, dtype=bool), np.arange(20) < 4])
    scaled = np.where(known, whole[:, None], 0.0)[:7]
    columns = module._Columns(scaled, known[:7], known.sum(axis=0))
    blocks = module._draw_statistics(columns, np.random.default_rng(1), 40_000)
    statistics = np.concatenate(list(blocks))
    for column, (lost, gained, n) in enumerate([(4, 3, 20), (4, 0, 4)]):
        observed = (lost - gained) / np.sqrt(lost + gained)
        expected = mcnemar_p_value(lost, gained, n)
        assert np.mean(statistics[:, column] >= observed - 1e-9) == pytest.approx(expected, abs=0.01)


def test_the_same_column_twice_costs_nothing() -> None:
    """A copy of a column does not change its p-value, unlike Bonferroni's correction."""
    column = _columns(2, 12, 1)
    once, twice = (sign_flip_test(np.repeat(column, k, axis=1), alpha=0.05).p_values for k in (1, 2))
    assert twice == pytest.approx(once * 2, abs=1e-12)


def test_columns_are_independent_of_their_scale() -> None:
    columns = _columns(3, 10)
    scaled = sign_flip_test(columns * [1, 100, 0.01], alpha=0.05).p_values
    assert scaled == pytest.approx(sign_flip_test(columns, alpha=0.05).p_values, abs=1e-12)


@pytest.mark.slow
def test_many_even_rows_are_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2,000 even rows, p-values use the normal limit and agree with drawn patterns."""
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
    """If one row outweighs a thousand others, patterns are drawn: p is 1/5, while the normal limit would give 0.16."""
    column = np.r_[100.0, np.full(500, 0.01), np.full(500, -0.01)][:, None]
    result = sign_flip_test(column, alpha=0.05)
    assert result.draws
    assert result.p_values[0] == pytest.approx(1 / 5, abs=0.015)


@pytest.mark.slow
def test_the_seed_decides_the_p_value_but_not_the_verdict() -> None:
    """Ten seeds give the same verdict on each of five columns, also if p is near 0.05."""
    base = _columns(11, 24, 1, shift=0.0)
    base -= base.mean()
    for shift in (0.1, 0.11, 0.12, 0.13, 0.2):
        several = [sign_flip_test(base + shift, alpha=0.05, seed=seed) for seed in range(10)]
        settled = [found for found in several if found.settled]
        assert len({found.p_values[0] <= 0.05 for found in settled}) <= 1
        if len(settled) < len(several):
            assert all(found.p_values[0] > 0.05 for found in several if not found.settled)


def test_it_stops_where_the_verdict_is_clear() -> None:
    base = _columns(12, 40, 1, shift=0.0)
    base = (base - base.mean()) / base.std()
    draws_by_shift = {
        shift: sign_flip_test(base + shift, alpha=0.05).draws for shift in (0.0, 0.25, 0.27, 0.6)
    }
    assert draws_by_shift[0.0] == draws_by_shift[0.6] == 10_000
    assert max(draws_by_shift.values()) > 20_000


def test_at_the_cap_it_counts_as_not_significant() -> None:
    """If the cap on draws is reached, the p-value is the largest that the draws allow, which is above the level."""
    columns = _columns(13, 40, 1, shift=0.0)
    columns += 0.0875 - columns.mean()
    whole = sign_flip_test(columns, alpha=0.05, max_draws=1_000_000)
    capped = sign_flip_test(columns, alpha=whole.p_values[0] + 1e-4, max_draws=2000)
    assert not capped.settled
    assert capped.draws == 2000
    assert capped.p_values[0] > whole.p_values[0] + 1e-4


def test_a_small_level_needs_no_draws() -> None:
    """At a level of 1e-9, which would take too many draws, the bound on the tail gives the p-value."""
    columns = np.abs(_columns(14, 200, 2)) + 0.5
    result = sign_flip_test(columns, alpha=1e-9)
    assert result.settled
    assert result.draws <= 10_000
    assert max(result.p_values) < 1e-9


def test_a_p_value_is_small_and_not_zero() -> None:
    """`NormalDist` gives 0 where a statistic is above 8.3; beyond 38 no float is small enough."""
    for rows in (100, 400, 2000):
        [p_value] = sign_flip_test(np.ones((rows, 1)), alpha=0.05).p_values
        bound = module.TAIL_FACTOR * stats.norm.sf(np.sqrt(rows))
        assert 0 < p_value <= max(bound * (1 + 1e-9), 1e-300)


def test_the_bound_on_the_tail_is_one() -> None:
    rng = np.random.default_rng(15)
    for _ in range(50):
        column = rng.normal(0.4, 1, (int(rng.integers(2, 13)), 1))
        statistic = float(column.sum() / np.sqrt((column**2).sum()))
        bound = module.TAIL_FACTOR * module.NormalDist().cdf(-statistic)
        assert sign_flip_test(column, alpha=0.05).p_values[0] <= bound


def test_wrong_decisions_are_as_rare_as_promised() -> None:
    """None of 3,000, at twice and at half the level, where one in 10,000 is promised."""
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
def test_the_order_of_columns_does_not_matter(seed: int) -> None:
    columns = _columns(seed, 10, 4)
    order = np.random.default_rng(seed).permutation(4)
    p_values = sign_flip_test(columns[:, order], alpha=0.05).p_values
    assert p_values == pytest.approx(np.array(sign_flip_test(columns, alpha=0.05).p_values)[order], abs=1e-12)


def test_the_joint_level() -> None:
    """It is alpha for copies, Sidak's for unrelated columns, and in between for others."""
    rng = np.random.default_rng(17)
    column = rng.normal(size=(4000, 1))
    assert marginal_level(np.repeat(column, 3, axis=1), 0.05) == pytest.approx(0.05, rel=0.03)
    assert marginal_level(rng.normal(size=(4000, 5)), 0.05) == pytest.approx(1 - 0.95**0.2, rel=0.06)
    some = marginal_level(column + 0.5 * rng.normal(size=(4000, 5)), 0.05)
    assert 0.012 < some < 0.04
    assert marginal_level(np.column_stack([column, np.zeros(4000)]), 0.05) == 0.05
    assert marginal_level(np.zeros((4, 2)), 0.05) == 0.05


def test_a_large_set_needs_few_operations() -> None:
    """100,000 questions and six scores need at most 50,000 draws, of one number per score."""
    rng = np.random.default_rng(18)
    base = rng.normal(size=(100_000, 1))
    columns = base + 0.5 * rng.normal(size=(100_000, 6))
    columns -= columns.mean(axis=0)
    for statistic in (0.0, 1.9, 2.7, 9.0):
        result = sign_flip_test(columns + statistic / np.sqrt(100_000), alpha=0.05)
        assert result.settled
        assert result.draws <= 50_000
