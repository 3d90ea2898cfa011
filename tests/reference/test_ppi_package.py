"""A corrected mean equals that of the package ppi-python, given the same λ and the same labelled items."""

from math import sqrt

import numpy as np
import pytest

from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean

pytestmark = pytest.mark.slow

ppi_py = pytest.importorskip("ppi_py", reason="the package ppi-python is not installed")


@pytest.mark.parametrize("accuracy", [0.6, 0.85, 0.95])
@pytest.mark.parametrize("labels", [20, 200])
def test_a_corrected_mean_equals_theirs(labels: int, accuracy: float) -> None:
    """Means agree to 1e-12.

    The package's variances divide by n instead of n - 1, which widens our interval by a known factor at most.
    """
    rng = np.random.default_rng(labels)
    truth = (rng.random(labels + 1000) < 0.6).astype(float)
    judge = np.where(rng.random(len(truth)) < accuracy, truth, 1 - truth)
    human, beside, rest = truth[:labels], judge[:labels], judge[labels:]
    ours = prediction_powered_mean(human.tolist(), beside.tolist(), rest.tolist())
    assert ours is not None
    slope = np.cov(human, beside)[0, 1] / beside.var(ddof=1)
    tuning = float(np.clip(slope, 0, 1)) * len(rest) / len(truth)
    value = ppi_py.ppi_mean_pointestimate(human, beside, rest, lam=tuning)
    assert ours.value == pytest.approx(float(np.ravel(value)[0]), abs=1e-12)
    # The package's interval, and its interval with the four items that ours adds to the labelled ones.
    more_human, more_beside = np.append(human, [0, 0, 1, 1]), np.append(beside, [0, 1, 0, 1])
    intervals = [
        np.ravel(ppi_py.ppi_mean_ci(ys, fs, rest, alpha=0.05, lam=tuning))
        for ys, fs in ((human, beside), (more_human, more_beside))
    ]
    low, high = min(interval[0] for interval in intervals), max(interval[1] for interval in intervals)
    assert 1 <= (ours.high - ours.low) / (high - low) <= sqrt(labels / (labels - 1))
    assert ours.low == pytest.approx(low, abs=0.05 * (high - low))
