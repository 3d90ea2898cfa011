"""What a score says to a threshold."""

import pytest

from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import verdict_on
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome, Score


def _score(*values: float) -> Score:
    return Score("recall@5", [Outcome(Example(str(n), "q"), value) for n, value in enumerate(values)])


@pytest.mark.parametrize(
    ("low", "high", "status", "reason"),
    [
        (0.5, None, "pass", "0.500 is within bounds"),
        (None, 0.5, "pass", "0.500 is within bounds"),
        (0.5, 0.5, "pass", "0.500 is within bounds"),
        (0.4, 0.6, "pass", "0.500 is within bounds"),
        (0.75, None, "fail", "0.500 is below the minimum 0.75"),
        (None, 0.25, "fail", "0.500 is above the maximum 0.25"),
        (0.6, 0.9, "fail", "0.500 is below the minimum 0.6"),
        (0, 0.1, "fail", "0.500 is above the maximum 0.1"),
    ],
)
def test_a_mean_on_a_bound_passes(low: float | None, high: float | None, status: str, reason: str) -> None:
    """Below the minimum or above the maximum fails, and the reason is a sentence."""
    verdict = verdict_on(_score(1.0, 0.0), Threshold("recall@5", low, high))
    assert (verdict.status, verdict.reason) == (status, reason)


@pytest.mark.parametrize("off", [1e-15, -1e-15])
def test_the_last_bit_is_no_regression(off: float) -> None:
    """A mean that differs from a bound by rounding is on it."""
    assert verdict_on(_score(0.7 + off), Threshold("recall@5", 0.7, 0.7)).status == "pass"


@pytest.mark.parametrize("off", [1e-9, -1e-9])
def test_bounds_hold_in_full_precision(off: float) -> None:
    """Nothing is rounded to the digits that are shown."""
    assert verdict_on(_score(0.7 + off), Threshold("recall@5", 0.7, 0.7)).status == "fail"
