"""The drop that shows in 80% of runs: it does."""

import math
from statistics import NormalDist, fmean

import numpy as np
import pytest

from pytest_rageval.stats.mcnemar import mid_p
from pytest_rageval.stats.power import examples_to_show, shown_drop

Z05, Z80 = 1.6448536269514722, 0.8416212335729143
RUNS, SAMPLES = 200, 12


def _called(runs: np.ndarray, max_drop: float, alpha: float, beyond: float = 0.0) -> np.ndarray:
    """Whether each run fails, by mid-p or the normal limit of sign flips."""
    above = runs.mean(axis=1) > max_drop + 1e-12
    if not beyond and np.isin(runs, (-1.0, 0.0, 1.0)).all():
        tables = zip((runs > 0).sum(axis=1), (runs < 0).sum(axis=1), strict=True)
        return above & np.array([mid_p(int(lost), int(gained)) <= alpha for lost, gained in tables])
    shifted = runs - beyond
    statistic = shifted.sum(axis=1) / np.sqrt((shifted**2).sum(axis=1))
    return above & (statistic >= NormalDist().inv_cdf(1 - alpha))


def _noise(rng: np.random.Generator, kind: str, runs: int, n: int) -> np.ndarray:
    """Without a drop: 16% of verdicts change; or 30% of graded scores, by up to 0.6."""
    if kind == "verdicts":
        return rng.choice([-1.0, 0.0, 1.0], (runs, n), p=[0.08, 0.84, 0.08])
    return np.where(rng.random((runs, n)) < 0.3, rng.uniform(-0.6, 0.6, (runs, n)), 0.0)


@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("max_drop", [0.0, 0.02])
@pytest.mark.parametrize("n", [60, 200, 1000])
@pytest.mark.parametrize("kind", ["verdicts", "graded"])
def test_the_drop_fails_in_80_percent(kind: str, n: int, max_drop: float, beyond: bool) -> None:  # noqa: FBT001
    """Power within [0.75, 0.95], on average over samples that it is computed from; losses as large as the largest."""
    rng = np.random.default_rng([n, int(100 * max_drop)])
    bound = max_drop if beyond else 0.0
    rates = []
    for sample in _noise(rng, kind, SAMPLES, n):
        loss = float(np.abs(sample).max())
        drop = shown_drop(sample.tolist(), alpha=0.05, max_drop=max_drop, beyond=bound)
        lost = rng.random((RUNS, n)) < drop / loss
        runs = np.where(lost, loss, _noise(rng, kind, RUNS, n))
        rates.append(_called(runs, max_drop, 0.05, bound).mean())
    assert 0.75 <= fmean(rates) <= 0.95


def test_without_change_few_losses_show() -> None:
    """Two more changes than were seen are allowed for; of 200 questions fewer than a dozen losses do."""
    found = shown_drop([0.0] * 200, alpha=0.05)
    scale = (Z05 + Z80) ** 2 / 200
    assert found**2 == pytest.approx(scale * (2 / 200 + found))
    assert 5 / 200 < found < 12 / 200


def test_the_size_of_losses_is_what_was_seen_or_is_said() -> None:
    """Large losses vary more, so that only larger drops show."""
    small = [0.1, -0.1, 0.0, 0.0] * 50
    assert shown_drop(small, alpha=0.05) < shown_drop(small, alpha=0.05, loss=1.0)
    assert shown_drop(small, alpha=0.05) == shown_drop(small, alpha=0.05, loss=0.1)
    assert shown_drop([0.0] * 50, alpha=0.05) == shown_drop([0.0] * 50, alpha=0.05, loss=1.0)


def test_clusters_are_fewer_questions() -> None:
    """A design effect of 2 is half of them; the two extra changes stay those of the whole."""
    drops = [1.0, -1.0, 0.0, 0.0] * 100
    whole, half = shown_drop(drops, alpha=0.05), shown_drop(drops, alpha=0.05, design_effect=2)
    assert half == pytest.approx(whole * math.sqrt(2), rel=0.05)
    observed = [1.0, 0.0, 0.0, 0.0] * 25 + [-1.0] * 10
    assert examples_to_show(observed, alpha=0.05, design_effect=2) == pytest.approx(
        2 * examples_to_show(observed, alpha=0.05), abs=1
    )


def test_a_smaller_level_and_a_larger_claim_ask_for_more() -> None:
    """In drop and in questions."""
    drops = [1.0, -1.0, 0.0, 0.0, 0.0] * 20
    assert shown_drop(drops, alpha=0.005) > shown_drop(drops, alpha=0.05)
    assert shown_drop(drops, alpha=0.05, max_drop=0.1, beyond=0.1) > shown_drop(
        drops, alpha=0.05, max_drop=0.1
    )
    drops = [1.0] * 15 + drops
    assert examples_to_show(drops, alpha=0.005) > examples_to_show(drops, alpha=0.05)
    beyond = examples_to_show(drops, alpha=0.05, max_drop=0.05, beyond=0.05)
    assert beyond > examples_to_show(drops, alpha=0.05, max_drop=0.05)


def test_questions_to_show_by_hand() -> None:
    """10 losses and 6 gains of 100: a drop of 4 points, mean square 0.16."""
    drops = [1.0] * 10 + [-1.0] * 6 + [0.0] * 84
    assert examples_to_show(drops, alpha=0.05) == math.ceil(0.16 * ((Z05 + Z80) / 0.04) ** 2)
    assert examples_to_show(drops, alpha=0.05, max_drop=0.035) == math.ceil(0.16 * (Z80 / 0.005) ** 2)
    square = 0.16 - 2 * 0.02 * 0.04 + 0.02**2
    assert examples_to_show(drops, alpha=0.05, max_drop=0.02, beyond=0.02) == math.ceil(
        square * ((Z05 + Z80) / 0.02) ** 2
    )


def test_nothing_to_compute_from() -> None:
    """No question, or no drop."""
    assert shown_drop([], alpha=0.05) is None
    for drops, max_drop in (([], 0.0), ([0.0] * 9, 0.0), ([-1.0, 0.0], 0.0), ([0.1, 0.1], 0.1)):
        assert examples_to_show(drops, alpha=0.05, max_drop=max_drop) is None


@pytest.mark.parametrize("beyond", [0.0, 0.02])
def test_the_questions_to_show_suffice_in_80_percent(beyond: float) -> None:
    """Power within [0.75, 0.9] with as many questions as an observed graded drop asks for."""
    rng = np.random.default_rng(3)
    observed = np.r_[rng.uniform(0.1, 1, 60), rng.uniform(-0.6, 0, 30), np.zeros(310)]
    n = examples_to_show(observed.tolist(), alpha=0.05, max_drop=0.02, beyond=beyond)
    runs = rng.choice(observed, (1000, n))
    assert 0.75 <= _called(runs, 0.02, 0.05, beyond).mean() <= 0.9
