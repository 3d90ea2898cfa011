"""What the paired test can notice."""

import math
from statistics import fmean

import numpy as np
import pytest
from pytest_rageval.stats.paired import paired_test

from pytest_rageval.stats.power import detectable_drop, detectable_drop_unpaired, examples_needed
from tests.benchmarks.false_alarms import fails

Z05, Z80 = 1.6448536269514722, 0.8416212335729143


def test_the_textbook_formula_where_noise_is_large() -> None:
    """(z_alpha + z_80)·SD/sqrt(n), which a drop that adds losses of its own exceeds slightly."""
    drops = [1.0, -1.0] * 2000
    plain = (Z05 + Z80) / math.sqrt(4000)
    assert plain < detectable_drop(drops, alpha=0.05) < 1.03 * plain


def test_without_change_a_drop_needs_losses_enough() -> None:
    """z²/n: six losses and a bit of 200, of which five would be significant."""
    for nothing in ([0.0] * 200, [0.0] * 199 + [1e-300]):
        expected = pytest.approx((Z05 + Z80) ** 2 / 200)
        assert detectable_drop(nothing, alpha=0.05) == expected
    assert paired_test([1.0] * 5).p_value < 0.05 < paired_test([1.0] * 4).p_value


def test_few_examples_notice_nothing() -> None:
    """The detectable drop is then larger than any there can be."""
    assert detectable_drop([1.0], alpha=0.05) > 1
    assert detectable_drop([1.0, 0.0, -1.0], alpha=0.05) > 1


def test_without_examples_there_is_none() -> None:
    """Nothing can be said."""
    assert detectable_drop([], alpha=0.05) is None
    assert detectable_drop_unpaired([], alpha=0.05) is None
    assert examples_needed([], alpha=0.05) is None


def test_what_is_allowed_is_added_where_it_decides() -> None:
    """A large set finds any drop significant: what fails must be above the one allowed, with room."""
    drops = [1.0, -1.0] * 200 + [0.0] * 9600
    allowed = detectable_drop(drops, alpha=0.05, max_drop=0.1)
    # Where the true drop is d, the mean square is 0.04 + d.
    assert allowed - 0.1 == pytest.approx(Z80 * math.sqrt((0.04 + allowed) / 10_000))
    assert detectable_drop(drops, alpha=0.05) < 0.01


def test_a_smaller_level_asks_for_more() -> None:
    """As where several thresholds are tested."""
    drops = [1.0, -1.0, 0.0, 0.0, 0.0] * 20
    assert detectable_drop(drops, alpha=0.005) > detectable_drop(drops, alpha=0.05)
    drops = [1.0, *drops]
    assert examples_needed(drops, alpha=0.005) > examples_needed(drops, alpha=0.05)


def test_without_a_baseline_the_other_system_is_independent() -> None:
    """The differences of two of variance 1/4 have a variance of 1/2; losses are whole ones."""
    scores = [1.0, 0.0] * 500
    drop = detectable_drop_unpaired(scores, alpha=0.05)
    assert drop == pytest.approx((Z05 + Z80) * math.sqrt((0.5 + drop) / 1000))
    assert detectable_drop_unpaired([1.0] * 200, alpha=0.05) == detectable_drop([0.0] * 200, alpha=0.05)


def test_examples_needed_by_hand() -> None:
    """10 losses and 6 gains of 100: a drop of 4 points, mean square 0.16."""
    drops = [1.0] * 10 + [-1.0] * 6 + [0.0] * 84
    assert examples_needed(drops, alpha=0.05) == math.ceil(0.16 * ((Z05 + Z80) / 0.04) ** 2)
    # Two points above the one allowed are fewer standard errors away.
    assert examples_needed(drops, alpha=0.05, max_drop=0.035) == math.ceil(0.16 * (Z80 / 0.005) ** 2)


@pytest.mark.parametrize(("drops", "max_drop"), [([0.0] * 9, 0.0), ([-1.0, 0.0], 0.0), ([0.1, 0.1], 0.1)])
def test_no_number_of_examples_fails_what_did_not_drop(drops: list[float], max_drop: float) -> None:
    """Nothing is there to settle."""
    assert examples_needed(drops, alpha=0.05, max_drop=max_drop) is None


RUNS = 400


def _binary(rng: np.random.Generator, n: int, drop: float, noise: float) -> np.ndarray:
    """0/1 differences: half of the noise lost, half gained, and the drop lost as well."""
    u = rng.random((RUNS, n))
    return np.where(u < noise / 2 + drop, 1.0, 0.0) - np.where(u > 1 - noise / 2, 1.0, 0.0)


def _real(rng: np.random.Generator, n: int, drop: float, noise: float) -> np.ndarray:
    """Real differences likewise, losses of 0 to 1, twice as many for as large a drop."""
    sizes = rng.random((RUNS, n))
    return _binary(rng, n, 2 * drop, noise) * sizes


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.005])
@pytest.mark.parametrize("max_drop", [0.0, 0.05])
@pytest.mark.parametrize("n", [60, 200, 1000])
@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_the_detectable_binary_drop_fails_in_80_percent(
    n: int, noise: float, max_drop: float, alpha: float
) -> None:
    """Power within [0.7, 0.95], from differences without a drop; 400 runs have a standard error of 0.02."""
    whole = round(n * noise / 2)
    before = [1.0] * whole + [-1.0] * whole + [0.0] * (n - 2 * whole)
    drop = detectable_drop(before, alpha=alpha, max_drop=max_drop)
    rng = np.random.default_rng([n, whole])
    assert 0.7 <= fails(_binary(rng, n, drop, 2 * whole / n), max_drop, alpha).mean() <= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 200])
def test_the_detectable_real_drop_fails_in_80_percent(n: int) -> None:
    """Likewise where losses are of any size."""
    rng = np.random.default_rng(n)
    # One sample knows its noise only roughly; a typical one is meant.
    drop = fmean(detectable_drop(run.tolist(), alpha=0.05) for run in _real(rng, n, 0.0, 0.2)[:100])
    assert 0.7 <= fails(_real(rng, n, drop, 0.2), 0.0).mean() <= 0.95


@pytest.mark.parametrize("drop", [0.03, 0.06, 0.1])
def test_the_examples_needed_fail_in_80_percent(drop: float) -> None:
    """Power within [0.7, 0.95] with as many examples as an observed drop asks for."""
    observed = [1.0] * round(1000 * (0.05 + drop)) + [-1.0] * 50 + [0.0] * round(1000 * (0.9 - drop))
    n = examples_needed(observed, alpha=0.05)
    assert 0.7 <= fails(_binary(np.random.default_rng(n), n, drop, 0.1), 0.0).mean() <= 0.95
