"""A mean corrected for the judge's sensitivity and specificity."""

import numpy as np
import pytest

from pytest_rageval.extensions.calibration.calibration import Correction
from pytest_rageval.extensions.calibration.corrections import rogan_gladen
from pytest_rageval.extensions.calibration.gate import corrected_entry
from pytest_rageval.reports.notes import NOTE_TEXTS
from pytest_rageval.stats.intervals import Estimate

HUMAN = [1.0] * 50 + [0.0] * 50
JUDGE = [1.0] * 45 + [0.0] * 5 + [1.0] * 10 + [0.0] * 40


def test_the_share_of_right_answers_among_the_labels_plays_no_part() -> None:
    fewer = [1.0] * 10 + [0.0] * 50, [1.0] * 9 + [0.0] + [1.0] * 10 + [0.0] * 40
    scored = [1.0] * 30 + [0.0] * 70
    assert rogan_gladen(*fewer, scored).raw == pytest.approx(
        rogan_gladen(HUMAN, JUDGE, scored).raw, abs=1e-12
    )


def test_if_the_scored_answers_are_the_labelled_ones_it_is_the_mean_of_the_labels() -> None:
    human, judge = HUMAN[:80], JUDGE[:80]
    assert rogan_gladen(human, judge, judge).raw == pytest.approx(50 / 80, abs=1e-12)


def test_fractional_verdicts_count_by_their_mean() -> None:
    found = rogan_gladen([1.0, 1.0, 0.0], [0.75, 1.0, 0.25], [0.5, 0.75])
    assert found.raw == pytest.approx((0.625 - 0.25) / (0.875 - 0.25), abs=1e-12)


@pytest.mark.parametrize(("accepted", "raw", "value"), [(92, 72 / 70, 1), (18, -2 / 70, 0)])
def test_a_share_beyond_0_or_1_is_clipped(accepted: int, raw: float, value: int) -> None:
    found = rogan_gladen(HUMAN, JUDGE, [1.0] * accepted + [0.0] * (100 - accepted))
    assert (found.raw, found.estimate.value) == (pytest.approx(raw), value)
    assert 0 <= found.estimate.low <= value <= found.estimate.high <= 1
    assert 0.1 < found.estimate.high - found.estimate.low < 0.2


def test_too_few_right_labels_have_the_whole_interval() -> None:
    """One right label that the judge accepts does not show that it is better than chance."""
    found = rogan_gladen([1.0] + [0.0] * 100, [1.0] + [1.0] * 95 + [0.0] * 5, [1.0] * 97 + [0.0] * 3)
    assert (found.estimate.low, found.estimate.high) == (0, 1)


@pytest.mark.parametrize(
    ("human", "judge", "scored", "message"),
    [
        ([1, 1, 0, 0], [1, 0, 1, 0], [1, 0], r"no better than chance.*sensitivity is 0\.500.*0\.500"),
        ([1, 0], [0, 1], [1], "no better than chance"),
        (
            HUMAN,
            JUDGE,
            [0] * 100,
            r"verdict of 0\.000 fits no share of right ones with the sensitivity 0\.900",
        ),
        (HUMAN, JUDGE, [1] * 100, r"verdict of 1\.000 fits no share"),
        ([1, 1], [1, 0], [1], "2 labelled answers are right and 0 wrong"),
        ([1, 0], [1, 0], [], "no answer is scored"),
        ([1, 0.5], [1, 0], [1], "human must be 0 or 1"),
        ([1], [1, 0], [1], "one label for each verdict"),
        ([1, 0], [1, -0.1], [1], "outside 0 … 1"),
        ([1, 0], [1, 0], [float("nan")], "outside 0 … 1"),
    ],
)
def test_what_cannot_be_corrected_is_an_error(human, judge, scored, message) -> None:
    with pytest.raises(ValueError, match=message):
        rogan_gladen(human, judge, scored)


RATES = [(0.9, 0.9), (0.95, 0.7), (0.8, 0.6), (0.99, 0.99), (1.0, 0.9), (0.7, 0.6)]


def _coverage(rates, shares, scored, runs, *, labelled_are_scored=False) -> float:
    """Return the share of intervals with the truth, at 100 labels; samples that are refused are drawn anew."""
    rng = np.random.default_rng([int(100 * number) for number in (*rates, *shares)])

    def judged(truth):
        return np.where(rng.random(len(truth)) < np.where(truth == 1, rates[0], 1 - rates[1]), 1.0, 0.0)

    covered = done = 0
    while done < runs:
        human, truth = ((rng.random(n) < share) * 1.0 for n, share in zip((100, scored), shares, strict=True))
        judge, verdicts = judged(human), judged(truth)
        if labelled_are_scored:
            verdicts[:100] = judge
        try:
            found = rogan_gladen(human.tolist(), judge.tolist(), verdicts.tolist()).estimate
        except ValueError:
            continue
        covered += found.low <= shares[1] <= found.high
        done += 1
    return covered / runs


@pytest.mark.slow
@pytest.mark.parametrize("rates", RATES)
def test_the_interval_covers_under_label_shift(rates) -> None:
    """Of the labels 70% are right, of the scored answers 30%."""
    assert _coverage(rates, (0.7, 0.3), 400, 1000) >= 0.94


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.9), (0.7, 0.3), (0.8, 0.8), (0.5, 0.05), (0.9, 0.95)])
@pytest.mark.parametrize("scored", [200, 1000])
@pytest.mark.parametrize("rates", RATES)
def test_the_interval_covers(rates, scored, shares) -> None:
    assert _coverage(rates, shares, scored, 4000) >= 0.94


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("rates", RATES)
def test_the_interval_covers_if_the_labelled_answers_are_scored_too(rates) -> None:
    assert _coverage(rates, (0.7, 0.7), 400, 4000, labelled_are_scored=True) >= 0.94


CHANCE = "the judge is no better than chance"


@pytest.mark.parametrize(
    ("found", "entry", "text"),
    [
        (
            rogan_gladen(HUMAN, JUDGE, [1] * 92 + [0] * 8),
            {
                "mean": 1.0,
                "clipped": 72 / 70,
                "sensitivity": 0.9,
                "specificity": 0.8,
                "right": 50,
                "wrong": 50,
            },
            "; Rogan-Gladen 1.000 [0.889, 1.000], clipped from 1.029",
        ),
        (CHANCE, {"mean": None, "ci95": None, "refused": CHANCE}, f"; no Rogan-Gladen: {CHANCE}"),
        (None, None, ""),
    ],
)
def test_the_estimate_of_rogan_and_gladen_is_in_the_report(found, entry, text) -> None:
    corrected = corrected_entry(Correction(Estimate(0.5, 0.4, 0.6), 100, None, "", found), sampled=True)
    given = corrected["corrected"].get("rogan_gladen")
    assert given is entry or {name: given[name] for name in entry} == pytest.approx(entry)
    line = NOTE_TEXTS["corrected"](corrected)
    corrected = "corrected for the judge's errors: 0.500 [0.400, 0.600], by 100 labels drawn at random"
    assert line == f"{corrected}{text}"
