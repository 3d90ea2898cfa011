"""A mean corrected for the judge's errors."""

import numpy as np
import pytest

from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean
from pytest_rageval.stats.intervals import wilson_interval

HUMAN = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0] * 5
JUDGE = [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0] * 5
REST = [1.0] * 700 + [0.0] * 300


def test_a_worked_example() -> None:
    """Hand-computed values: the mean comes from the 40 pairs.

    The interval comes from these and four pairs at the scale's ends, with its own λ.
    """
    found = prediction_powered_mean(HUMAN, JUDGE, REST)
    # Of 40 answers, people label 25 right and the judge 30; the judge's 5 errors are wrong answers called right.
    centres, margins = [], []
    for n, human, judge, both in ((40, 25, 30, 25), (44, 27, 32, 26)):
        var_human, var_judge = (k * (n - k) / n / (n - 1) / n for k in (human, judge))
        cov = (both - human * judge / n) / (n - 1) / n
        tuning = cov / var_judge * 1000 / (1000 + n)
        variance = var_human - 2 * tuning * cov + tuning**2 * (var_judge + 0.7 * 0.3 / 999)
        centres.append(human / n + tuning * (0.7 - judge / n))
        margins.append(1.959964 * variance**0.5)
    assert found.value == pytest.approx(centres[0], abs=1e-12)
    assert found.low == pytest.approx(centres[1] - margins[1], abs=1e-6)
    assert found.high == pytest.approx(centres[1] + margins[1], abs=1e-6)


@pytest.mark.parametrize("labels", [HUMAN, [1.0] * 10, [1.0]])
def test_a_judge_without_errors_has_its_own_mean(labels: list[float]) -> None:
    found = prediction_powered_mean(labels, labels, REST)
    assert found.value == pytest.approx((sum(labels) + 700) / (len(labels) + 1000), abs=1e-12)


def test_a_judge_that_contradicts_the_labels_corrects_nothing() -> None:
    found = prediction_powered_mean(HUMAN, [1 - score for score in HUMAN], REST)
    assert found.value == pytest.approx(25 / 40, abs=1e-12)


def test_a_judge_with_constant_verdicts_gives_the_interval_of_the_labels() -> None:
    found = prediction_powered_mean(HUMAN, [1.0] * 40, [1.0] * 1000)
    assert found.value == pytest.approx(25 / 40, abs=1e-12)
    assert (found.low, found.high) == pytest.approx(wilson_interval(25, 40), abs=0.02)


@pytest.mark.parametrize("judge", [[0.1] * 3, [0.0, 5e-324, 0.0]])
def test_verdicts_that_differ_by_rounding_are_one(judge: list[float]) -> None:
    found = prediction_powered_mean([0.0, 1.0, 1.0], judge, [judge[0]] * 10)
    assert found.value == pytest.approx(2 / 3, abs=1e-9)


def test_a_good_judge_narrows_the_interval() -> None:
    found = prediction_powered_mean(HUMAN, JUDGE, REST)
    low, high = wilson_interval(25, 40)
    assert found.high - found.low < 0.8 * (high - low)


def test_chance_agreement_has_an_interval_of_positive_width() -> None:
    """Ten items do not prove a perfect judge."""
    found = prediction_powered_mean([1.0] * 10, [1.0] * 10, [1.0] * 1000)
    assert found.value == found.high == 1
    assert found.low < 0.8


@pytest.mark.parametrize(("human", "rest"), [([], [1.0, 0.0]), ([1.0], []), ([1.0], [1.0])])
def test_too_few_scores_give_none(human: list[float], rest: list[float]) -> None:
    assert prediction_powered_mean(human, human, rest) is None


def test_scores_of_different_items_are_refused() -> None:
    with pytest.raises(ValueError, match="not 2 and 1"):
        prediction_powered_mean([0, 1], [1], REST)


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("wrong", [1.5, -1.0, float("nan")])
def test_scores_beyond_the_scale_are_refused(which: int, wrong: float) -> None:
    samples = [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    samples[which][0] = wrong
    with pytest.raises(ValueError, match=r"outside the scale 0 … 1"):
        prediction_powered_mean(*samples)


@pytest.mark.slow
def test_the_interval_covers_the_truth() -> None:
    """The interval covers the truth in 94% of 1,000 simulations of 50 labels and a judge who is right in 85%."""
    rng = np.random.default_rng(0)
    covered, widths, alone = 0, 0.0, 0.0
    for _ in range(1000):
        truth = (rng.random(1050) < 0.6).astype(float)
        # The judge errs on one wrong item in three and on one right item in forty.
        judge = np.where(rng.random(1050) < np.where(truth == 1, 0.025, 0.3375), 1 - truth, truth)
        found = prediction_powered_mean(truth[:50].tolist(), judge[:50].tolist(), judge[50:].tolist())
        covered += found.low <= 0.6 <= found.high
        widths += found.high - found.low
        low, high = wilson_interval(int(truth[:50].sum()), 50)
        alone += high - low
    assert covered >= 940
    assert widths < 0.85 * alone


def test_graded_scores_get_an_item_at_each_end() -> None:
    """The interval of 60 graded labels, by hand: two more items, and Student's quantile at 60 degrees of freedom."""
    human, judge, rest = [0.2, 0.4, 0.6] * 20, [0.4, 0.4, 0.8] * 20, [0.4, 0.8] * 50
    found = prediction_powered_mean(human, judge, rest)
    assert found.value == pytest.approx(0.4 + 0.75 * 100 / 160 * (0.6 - 8 / 15), abs=1e-12)
    y, f = np.array([*human, 0, 1]), np.array([*judge, 8 / 15, 8 / 15])
    tuning = np.cov(y, f)[0, 1] / f.var(ddof=1) * 100 / 162
    spread = ((y - tuning * f).var(ddof=1) / 62 + tuning**2 * np.var(rest, ddof=1) / 100) ** 0.5
    margin = 2.000298 * (61 / 60) ** 0.5 * spread
    centre = y.mean() + tuning * (0.6 - f.mean())
    assert (found.low, found.high) == pytest.approx((centre - margin, centre + margin), abs=1e-6)
    agreeing = prediction_powered_mean(human, human, rest)
    assert agreeing.high > agreeing.low


@pytest.mark.slow
@pytest.mark.parametrize("weak", [0.2, 0.7])
@pytest.mark.parametrize("n", [20, 50, 100, 200])
@pytest.mark.parametrize("kind", ["near the end", "few below 1", "in the middle"])
def test_the_interval_of_graded_scores_covers(kind: str, n: int, weak: float) -> None:
    """It covers the true mean in at least 94% of 600 runs, also near an end of the scale with a weak judge."""
    rng = np.random.default_rng([n, int(10 * weak), len(kind)])

    def draw(count: int) -> np.ndarray:
        if kind == "near the end":
            return rng.beta(9, 1, count)
        if kind == "few below 1":
            return np.where(rng.random(count) < 0.95, 1.0, rng.choice([0, 0.25, 0.5, 0.75], count))
        return rng.beta(2, 2, count)

    mean = {"near the end": 0.9, "few below 1": 0.95 + 0.05 * 0.375, "in the middle": 0.5}[kind]
    covered = 0
    for _ in range(600):
        human = draw(n + 1000)
        judge = weak * human + (1 - weak) * rng.random(n + 1000)
        found = prediction_powered_mean(human[:n].tolist(), judge[:n].tolist(), judge[n:].tolist())
        covered += found.low <= mean <= found.high
    assert covered >= 600 * 0.94
