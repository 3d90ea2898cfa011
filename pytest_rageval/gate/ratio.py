"""The ratio of a retriever's time to the time of a reference retriever in the same run."""

from dataclasses import dataclass
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import REFERENCE_LATENCY, Score
from pytest_rageval.stats.intervals import Quantile

MIN_TIME_S: Final = 1e-9
"""A measured time of 0 counts as the resolution of a clock, a nanosecond, since times are divided by it."""

MIN_EXAMPLES: Final = 6
"""With fewer examples the interval of a ratio of medians is too narrow."""


@dataclass(frozen=True, slots=True)
class RatioTestResult:
    """The ratio of a score that is a time to the same score of the reference retriever.

    Attributes:
        reference: the score of the reference, in seconds, over the same examples.
        ratio: the score divided by that of the reference.
        interval: the 95% interval of the ratio; None with fewer examples than `min_examples`.
        n: number of examples with a time of both retrievers.
        min_examples: the smallest number of examples for which there is an interval.
    """

    reference: float
    ratio: float
    interval: tuple[float, float] | None
    n: int
    min_examples: int


def run_ratio_test(score: Score) -> RatioTestResult:
    """Compare a score that is a time with the reference, over the examples that were timed with both retrievers.

    Raises:
        InputError: the score is not a quantile of times, or no example has a time of the reference.
    """
    pairs = [
        (outcome.value, max(outcome.evidence.beside[REFERENCE_LATENCY], MIN_TIME_S))
        for outcome in score.outcomes
        if outcome.value is not None and REFERENCE_LATENCY in outcome.evidence.beside
    ]
    statistic = score.statistic
    if not (pairs and isinstance(statistic, Quantile)):
        raise InputError(f"{score.name}: there are no times of a reference retriever to compare with.")
    own, other = zip(*pairs, strict=True)
    # With fewer examples the quantile is the largest value, whose interval the bootstrap cannot estimate.
    min_examples = max(MIN_EXAMPLES, round(1 / (1 - statistic.level)))
    interval = None
    if len(pairs) >= min_examples:
        from pytest_rageval.stats.bootstrap import ratio_of_quantiles  # noqa: PLC0415 - imports numpy

        interval = ratio_of_quantiles(own, other, index=statistic.index(len(pairs)), seed=score.seed)
    reference = statistic.compute(other)
    return RatioTestResult(reference, statistic.compute(own) / reference, interval, len(pairs), min_examples)
