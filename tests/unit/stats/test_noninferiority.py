"""The test that excludes a drop."""

import math
import random

import numpy as np
import pytest

from pytest_rageval.stats import noninferiority as module
from pytest_rageval.stats.noninferiority import inferiority_p_value, noninferiority_p_value, null_weights


@pytest.mark.parametrize(("n", "margin"), [(20, 0.05), (58, 0.05), (59, 0.05), (149, 0.02), (1000, 0.001)])
def test_without_change_the_unseen_losses_decide(n: int, margin: float) -> None:
    """If no score changed, p is (1 - margin)^n: the probability that n examples show no full loss."""
    assert noninferiority_p_value([0.0] * n, margin) == pytest.approx((1 - margin) ** n, abs=1e-12)


def test_losses_alone_are_a_binomial_test() -> None:
    """With 3 losses in 200 and a margin of 5%, p is the binomial tail."""
    tail = sum(math.comb(200, k) * 0.05**k * 0.95 ** (200 - k) for k in range(4))
    assert noninferiority_p_value([1.0] * 3 + [0.0] * 197, 0.05) == pytest.approx(tail, abs=1e-12)


def test_losses_and_gains_follow_the_restricted_estimate() -> None:
    n, lost, gained, margin = 30, 2, 4, 0.1
    # b/(q + d) + c/q = 2(n - b - c)/(1 - 2q - d), solved for q, the probability of a gain
    half = (lost + gained - margin * (2 * n - lost + gained)) / (4 * n)
    q = half + math.sqrt(half**2 + gained * margin * (1 - margin) / (2 * n))
    world = (q + margin, q, 1 - 2 * q - margin)
    assert lost / world[0] + gained / world[1] == pytest.approx(2 * (n - lost - gained) / world[2])
    tail = sum(
        math.comb(n, b) * math.comb(n - b, c) * world[0] ** b * world[1] ** c * world[2] ** (n - b - c)
        for b in range(n + 1)
        for c in range(n - b + 1)
        if b - c <= lost - gained
    )
    drops = [1.0] * lost + [-1.0] * gained + [0.0] * (n - lost - gained)
    assert noninferiority_p_value(drops, margin) == pytest.approx(tail, abs=1e-12)


@pytest.mark.parametrize("drops", [[], [0.05], [1.0, 0.0], [0.3] * 10, [-0.1, 0.2]])
def test_what_dropped_that_much_is_not_excluded(drops: list[float]) -> None:
    """The p-value is 1 if the observed drop reaches the margin or there is no example."""
    assert noninferiority_p_value(drops, 0.05) == 1.0


def test_the_world_has_the_margin_as_its_mean() -> None:
    for seen in ([-0.5, 0.0, 0.4], [-0.5, 0.0, 0.01], [0.0]):
        values = np.array(seen)
        world = null_weights(values, np.full(len(values), 1 / len(values)), 0.05, 1.0)
        assert world.min() >= 0
        assert world.sum() == pytest.approx(1, abs=1e-12)
        assert world @ np.append(values, 1.0) == pytest.approx(0.05, abs=1e-12)
        assert (world[-1] > 1e-9) == (max(seen) < 0.05)


def test_real_differences_are_those_of_draws() -> None:
    """For real-valued drops, p is within four standard errors of 20,000 samples plus the allowance of the grid."""
    rng = random.Random(3)
    drops = np.array([rng.choice([0.0, 0.0, rng.uniform(-0.4, 0.6)]) for _ in range(80)])
    exact = noninferiority_p_value(drops.tolist(), 0.05)
    values = np.append(np.sort(drops), 1.0)
    world = null_weights(values[:-1], np.full(80, 1 / 80), 0.05, 1.0)
    samples = np.random.default_rng(0).choice(values, p=world, size=(20_000, 80)).mean(axis=1)
    drawn = np.mean(samples <= drops.mean())
    assert 0.01 < exact < 0.5
    assert exact == pytest.approx(drawn, abs=4 * math.sqrt(drawn * (1 - drawn) / 20_000) + 1e-3)


def test_a_coarser_grid_is_nearly_as_good() -> None:
    """A grid of 10,000 points changes the p-value by at most 10%."""
    rng = random.Random(4)
    drops = [rng.uniform(-0.3, 0.3) for _ in range(200)]
    fine, coarse = noninferiority_p_value(drops, 0.02), noninferiority_p_value(drops, 0.02, points=10_000)
    assert fine != coarse
    assert coarse == pytest.approx(fine, rel=0.1)


def test_scores_on_another_scale() -> None:
    drops = [0.25, -0.5, 0.0, 0.25, -0.25, 0.0, 0.5, -0.75] * 5
    grades = [4 * drop for drop in drops]
    assert noninferiority_p_value(grades, 0.2, largest=4) == pytest.approx(
        noninferiority_p_value(drops, 0.05), abs=1e-12
    )


@pytest.mark.parametrize(
    ("p_value", "drops", "margin", "message"),
    [
        *((noninferiority_p_value, [0.0], margin, "margin") for margin in (-0.1, 1.0, math.nan)),
        *((noninferiority_p_value, [drop], 0.1, "from -1.0 to 1.0") for drop in (1.5, -1.5, math.nan)),
        *((inferiority_p_value, [0.0], allowed, f"found {allowed}") for allowed in (1.0, -1.0)),
        *((inferiority_p_value, [drop], 0.0, "from -1.0 to 1.0") for drop in (1.5, math.nan)),
    ],
)
def test_what_cannot_be_is_refused(p_value, drops: list[float], margin: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        p_value(drops, margin)


@pytest.mark.parametrize("kind", ["verdicts", "sixths", "real"])
def test_sums_that_are_unlikely_need_not_be_followed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    cases = []
    for n in (3, 50, 400, 3000):
        if kind == "verdicts":
            drops = rng.choice([-1.0, 0.0, 1.0], n, p=[0.03, 0.95, 0.02])
        elif kind == "sixths":
            drops = rng.integers(-2, 3, n) / 6
        else:
            drops = rng.uniform(-0.3, 0.3, n) * (rng.random(n) < 0.2)
        cases.append(drops.tolist())
    narrow = [noninferiority_p_value(drops, 0.02) for drops in cases]
    monkeypatch.setattr(module, "_bernstein_reach", lambda variance, largest: 1e9)  # noqa: ARG005 - the arguments are unused
    assert narrow == pytest.approx(
        [noninferiority_p_value(drops, 0.02, points=1 << 24) for drops in cases], abs=1e-9
    )


def test_a_drop_is_shown_as_its_opposite_is_excluded() -> None:
    rng = random.Random(6)
    drops = [rng.choice([0.0, 0.5, -0.25, 1.0]) for _ in range(40)]
    negated = [-drop for drop in drops]
    assert inferiority_p_value(negated, 0.0) == noninferiority_p_value(drops, 0.0)
    for allowed in (0.0, 0.05, 0.3):
        values, counts = np.unique(negated, return_counts=True)
        if np.mean(negated) >= -allowed:
            assert inferiority_p_value(drops, allowed) == 1.0
            continue
        world = null_weights(values, counts / 40, -allowed, 1.0)
        assert world @ np.append(values, 1.0) == pytest.approx(-allowed, abs=1e-12)
        samples = (
            np.random.default_rng(7).choice(np.append(values, 1.0), p=world, size=(40_000, 40)).sum(axis=1)
        )
        drawn = np.mean(samples <= sum(negated) + 1e-9)
        error = 4 * math.sqrt(drawn * (1 - drawn) / 40_000) + 1e-4
        assert inferiority_p_value(drops, allowed) == pytest.approx(drawn, abs=error)


def test_losses_without_a_gain_are_weighed_against_those_not_seen() -> None:
    """If every example loses 0.25, p is the probability that n examples show none of the full gains that offset it."""
    assert inferiority_p_value([0.25] * 10) == pytest.approx(0.8**10, abs=1e-12)
    assert inferiority_p_value([0.25] * 10, largest=0.5) == pytest.approx((2 / 3) ** 10, abs=1e-12)
    assert inferiority_p_value([0.25] * 10, 0.25) == 1.0
    assert inferiority_p_value([0.25] * 10, 0.1) > inferiority_p_value([0.25] * 10)
    assert inferiority_p_value([]) == inferiority_p_value([0.0] * 9) == inferiority_p_value([-0.5]) == 1.0
