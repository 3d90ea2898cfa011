"""The drop that is detected in 80% of runs, the number of examples needed, and the effect of clusters."""

import math
from functools import cache
from statistics import NormalDist, fmean

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.power import (
    design_effect,
    detectable_drop,
    detectable_drop_unpaired,
    examples_needed,
    intraclass_correlation,
)

Z05, Z80 = 1.6448536269514722, 0.8416212335729143
RUNS, SAMPLES = 200, 12


def _called(runs: np.ndarray, max_drop: float, alpha: float, beyond: float = 0.0) -> np.ndarray:
    """Whether each run fails the gate, by McNemar's test or the normal limit of sign flips."""
    above = runs.mean(axis=1) > max_drop + 1e-12
    p_value = cache(mcnemar_p_value)
    if not beyond and np.isin(runs, (-1.0, 0.0, 1.0)).all():
        tables = zip((runs > 0).sum(axis=1), (runs < 0).sum(axis=1), strict=True)
        return above & np.array(
            [p_value(int(lost), int(gained), runs.shape[1]) <= alpha for lost, gained in tables]
        )
    shifted = runs - beyond
    statistic = shifted.sum(axis=1) / np.sqrt((shifted**2).sum(axis=1))
    return above & (statistic >= NormalDist().inv_cdf(1 - alpha))


def _noise(rng: np.random.Generator, kind: str, runs: int, n: int) -> np.ndarray:
    """Differences without a drop: 16% of verdicts change, or 30% of graded scores by up to 0.6."""
    if kind == "verdicts":
        return rng.choice([-1.0, 0.0, 1.0], (runs, n), p=[0.08, 0.84, 0.08])
    return np.where(rng.random((runs, n)) < 0.3, rng.uniform(-0.6, 0.6, (runs, n)), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("max_drop", [0.0, 0.02])
@pytest.mark.parametrize("n", [60, 200, 1000])
@pytest.mark.parametrize("kind", ["verdicts", "graded"])
def test_the_drop_fails_in_80_percent(kind: str, n: int, max_drop: float, beyond: bool) -> None:  # noqa: FBT001
    """The detectable drop fails in 75% to 95% of runs on average, if losses are as large as the largest one."""
    rng = np.random.default_rng([n, int(100 * max_drop)])
    bound = max_drop if beyond else 0.0
    rates = []
    for sample in _noise(rng, kind, SAMPLES, n):
        loss = float(np.abs(sample).max())
        drop = detectable_drop(sample.tolist(), alpha=0.05, max_drop=max_drop, beyond=bound)
        lost = rng.random((RUNS, n)) < drop / loss
        runs = np.where(lost, loss, _noise(rng, kind, RUNS, n))
        rates.append(_called(runs, max_drop, 0.05, bound).mean())
    assert 0.75 <= fmean(rates) <= 0.95


def test_without_change_few_losses_are_detected() -> None:
    """If no verdict changed, 3 losses are significant, and the drop at which 80% of runs have 3 is detectable."""
    for n in (30, 200, 5000):
        drop = detectable_drop([0.0] * n, alpha=0.05)
        assert binom.sf(2, n, drop) == pytest.approx(0.8, abs=0.005)


def test_the_power_of_verdicts_equals_an_enumeration() -> None:
    """At the detectable drop, the probabilities of all tables that fail the threshold sum to 80%."""
    n, share = 40, 2 / 40
    for max_drop in (0.0, 0.1):
        drop = detectable_drop([1.0, -1.0] * 2 + [0.0] * 36, alpha=0.05, max_drop=max_drop)
        power = sum(
            multinomial.pmf([lost, gained, n - lost - gained], n, [share + drop, share, 1 - 2 * share - drop])
            for lost in range(n + 1)
            for gained in range(n + 1 - lost)
            if lost - gained > n * max_drop + 1e-9 and mcnemar_p_value(lost, gained, n) <= 0.05
        )
        assert power == pytest.approx(0.8, abs=0.01)


def test_the_size_of_losses_is_estimated_or_given() -> None:
    small = [0.1, -0.1, 0.0, 0.0] * 50
    assert detectable_drop(small, alpha=0.05) < detectable_drop(small, alpha=0.05, loss=1.0)
    assert detectable_drop(small, alpha=0.05) == detectable_drop(small, alpha=0.05, loss=0.1)
    assert detectable_drop([0.0] * 50, alpha=0.05) == detectable_drop([0.0] * 50, alpha=0.05, loss=1.0)


def test_clusters_are_fewer_questions() -> None:
    """A design effect of 2 halves the number of questions; the two extra changes still count for the whole set."""
    drops = [1.0, -1.0, 0.0, 0.0] * 100
    whole, half = detectable_drop(drops, alpha=0.05), detectable_drop(drops, alpha=0.05, design_effect=2)
    assert half == pytest.approx(whole * math.sqrt(2), rel=0.05)
    observed = [1.0, 0.0, 0.0, 0.0] * 25 + [-1.0] * 10
    assert examples_needed(observed, alpha=0.05, design_effect=2) == pytest.approx(
        2 * examples_needed(observed, alpha=0.05), rel=0.05
    )


def test_a_smaller_level_and_a_larger_claim_ask_for_more() -> None:
    drops = [1.0, -1.0, 0.0, 0.0, 0.0] * 20
    assert detectable_drop(drops, alpha=0.005) > detectable_drop(drops, alpha=0.05)
    assert detectable_drop(drops, alpha=0.05, max_drop=0.1, beyond=0.1) > detectable_drop(
        drops, alpha=0.05, max_drop=0.1
    )
    drops = [1.0] * 15 + drops
    assert examples_needed(drops, alpha=0.005) > examples_needed(drops, alpha=0.05)
    beyond = examples_needed(drops, alpha=0.05, max_drop=0.05, beyond=0.05)
    assert beyond > examples_needed(drops, alpha=0.05, max_drop=0.05)


def _rounded_up(number: float) -> int:
    """Round up to two significant digits."""
    unit = 10 ** max(0, len(str(math.ceil(number))) - 2)
    return math.ceil(number / unit) * unit


def test_examples_needed_by_hand() -> None:
    """10 losses and 6 gains of 100 are a drop of 4 points with a mean square of 0.16."""
    drops = [1.0] * 10 + [-1.0] * 6 + [0.0] * 84
    assert examples_needed(drops, alpha=0.05) == _rounded_up(0.16 * ((Z05 + Z80) / 0.04) ** 2)
    assert examples_needed(drops, alpha=0.05, max_drop=0.035) == _rounded_up(0.16 * (Z80 / 0.005) ** 2)
    square = 0.16 - 2 * 0.02 * 0.04 + 0.02**2
    assert examples_needed(drops, alpha=0.05, max_drop=0.02, beyond=0.02) == _rounded_up(
        square * ((Z05 + Z80) / 0.02) ** 2
    )


def test_few_examples_detect_nothing() -> None:
    """With one or three examples, the detectable drop exceeds the largest possible drop."""
    assert detectable_drop([1.0], alpha=0.05) > 1
    assert detectable_drop([1.0, 0.0, -1.0], alpha=0.05) > 1


def test_without_a_baseline_the_other_system_is_independent() -> None:
    scores = [1.0, 0.0] * 500
    drop = detectable_drop_unpaired(scores, alpha=0.05)
    assert drop == pytest.approx((Z05 + Z80) * math.sqrt((0.5 + drop) / 1000))
    assert detectable_drop_unpaired([1.0] * 200, alpha=0.05) == pytest.approx((Z05 + Z80) ** 2 / 200)
    assert detectable_drop_unpaired([4 * score for score in scores], alpha=0.05) == pytest.approx(4 * drop)


def test_nothing_to_compute_from() -> None:
    assert detectable_drop([], alpha=0.05) is None
    assert detectable_drop_unpaired([], alpha=0.05) is None
    for drops, max_drop in (
        ([], 0.0),
        ([0.0] * 9, 0.0),
        ([-1.0] * 9, 0.0),
        ([1.0] * 4, 0.0),
        ([0.1] * 9, 0.1),
    ):
        assert examples_needed(drops, alpha=0.05, max_drop=max_drop) is None


@pytest.mark.parametrize("beyond", [0.0, 0.02])
def test_the_examples_needed_fail_in_80_percent(beyond: float) -> None:
    """With the computed number of examples, an observed graded drop fails in 75% to 90% of runs."""
    rng = np.random.default_rng(3)
    observed = np.r_[rng.uniform(0.1, 1, 60), rng.uniform(-0.6, 0, 30), np.zeros(310)]
    n = examples_needed(observed.tolist(), alpha=0.05, max_drop=0.02, beyond=beyond)
    runs = rng.choice(observed, (1000, n))
    assert 0.75 <= _called(runs, 0.02, 0.05, beyond).mean() <= 0.9


@pytest.mark.parametrize(
    ("sizes", "correlation", "effect"),
    [
        ([1] * 50, 1.0, 1.0),
        ([], 1.0, 1.0),
        ([25] * 8, 1.0, 25.0),
        ([25] * 8, 0.0, 1.0),
        ([10] * 8, 0.5, 5.5),
        ([1, 3], 1.0, 10 / 4),
    ],
)
def test_the_design_effect_by_hand(sizes: list[int], correlation: float, effect: float) -> None:
    assert design_effect(sizes, correlation) == pytest.approx(effect)


def test_the_design_effect_is_how_much_more_a_mean_varies() -> None:
    """The design effect is the variance of 5,000 means of six correlated clusters relative to independent values."""
    rng = np.random.default_rng(1)
    sizes = [2, 4, 8, 8, 16, 22]
    shared = np.repeat(rng.normal(size=(5000, 6)), sizes, axis=1) * np.sqrt(0.4)
    values = shared + rng.normal(size=(5000, 60)) * np.sqrt(0.6)
    variance_ratio = values.mean(axis=1).var() / (1 / 60)
    assert design_effect(sizes, 0.4) == pytest.approx(variance_ratio, rel=0.1)


def test_the_intraclass_correlation_is_found() -> None:
    """The estimate of 400 unequal clusters is within a few standard errors of the true correlation; NaN is skipped."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 12, 400)
    clusters = np.repeat(np.arange(400), sizes)
    for true in (0.0, 0.3, 0.8):
        values = rng.normal(size=400)[clusters] * np.sqrt(true)
        values += rng.normal(size=len(clusters)) * np.sqrt(1 - true)
        values[::17] = math.nan
        estimate = intraclass_correlation(values.tolist(), clusters.tolist())
        assert estimate == pytest.approx(true, abs=0.07)


def test_the_intraclass_correlation_is_negative_where_clusters_are_alike() -> None:
    """If each cluster holds one 0 and one 1, the clusters differ less than by chance, and the correlation is -1."""
    assert intraclass_correlation([1, 0, 1, 0, 1, 0], "aabbcc") == -1.0


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([], []), ([1.0], "a"), ([1.0, 0.0], "aa"), ([1.0, 0.0], "ab"), ([1.0, 1.0, 1.0], "aab")],
)
def test_where_the_intraclass_correlation_is_undefined(values: list[float], clusters: str) -> None:
    assert intraclass_correlation(values, clusters) is None


def test_values_and_clusters_are_of_the_same_questions() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        intraclass_correlation([1.0, 0.0], "a")
