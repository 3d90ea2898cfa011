"""The ratio of a retriever's time to that of a reference retriever, measured in the same run."""

from dataclasses import dataclass
from typing import Final

from pytest_rageval.errors import InputError
from pytest_rageval.scores import REFERENCE_LATENCY, Score
from pytest_rageval.stats.intervals import Quantile

__all__ = ["RatioTest", "ratio_test"]

NANOSECOND: Final = 1e-9
"""The shortest time of a clock, for which a time of 0 counts."""

LEAST: Final = 6
"""Below, the interval of a ratio of medians is too narrow."""


@dataclass(frozen=True, slots=True)
class RatioTest:
    """A score that is a time, over the same score of the reference.

    Attributes:
        reference: the score of the reference, over the same examples.
        ratio: of the two.
        interval: the 95% interval of the ratio; None with fewer examples than `least`.
        n: number of examples.
        least: number of examples from which on there is an interval.
    """

    reference: float
    ratio: float
    interval: tuple[float, float] | None
    n: int
    least: int


def ratio_test(score: Score) -> RatioTest:
    """Compare a score with the reference, by the examples at which both were timed.

    Raises:
        InputError: the score is not a quantile of times measured with those of a reference.
    """
    pairs = [
        (outcome.value, max(outcome.evidence.beside[REFERENCE_LATENCY], NANOSECOND))
        for outcome in score.outcomes
        if outcome.value is not None and REFERENCE_LATENCY in outcome.evidence.beside
    ]
    statistic = score.statistic
    if not (pairs and isinstance(statistic, Quantile)):
        raise InputError(f"{score.name}: there are no times of a reference retriever to compare with.")
    own, other = zip(*pairs, strict=True)
    # Of fewer examples the quantile is their largest value, whose interval cannot be found by resampling.
    least = max(LEAST, round(1 / (1 - statistic.level)))
    interval = None
    if len(pairs) >= least:
        from pytest_rageval.stats.bootstrap import ratio_of_quantiles  # noqa: PLC0415 - brings numpy

        interval = ratio_of_quantiles(own, other, place=statistic.place(len(pairs)), seed=score.seed)
    reference = statistic.of(other)
    return RatioTest(reference, statistic.of(own) / reference, interval, len(pairs), least)
