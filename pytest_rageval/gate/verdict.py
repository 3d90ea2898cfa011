"""What a score says to a threshold."""

from dataclasses import dataclass
from typing import Literal

from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.scores import Score

__all__ = ["Verdict", "verdict_on"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a threshold ended, and why in a sentence."""

    status: Literal["pass", "fail"]
    reason: str


def verdict_on(score: Score, threshold: Threshold) -> Verdict:
    """Compare the mean with the bounds, in full precision; a mean on a bound passes.

    The mean of n equal numbers can differ from them in the last bit, which is
    no regression: within 1e-12 of a bound counts as on it.
    """
    slack = 1e-12
    if threshold.min is not None and score < threshold.min - slack:
        return Verdict("fail", f"{_beside(score, threshold.min)} is below the minimum {threshold.min:g}")
    if threshold.max is not None and score > threshold.max + slack:
        return Verdict("fail", f"{_beside(score, threshold.max)} is above the maximum {threshold.max:g}")
    return Verdict("pass", f"{score:.3f} is within bounds")


def _beside(score: float, bound: float) -> str:
    """The score in three digits, or in as many as tell it from the bound."""
    shown = (f"{score:.{digits}f}" for digits in range(3, 12))
    return next((text for text in shown if float(text) != bound), f"{score:.12f}")
