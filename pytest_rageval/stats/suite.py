"""One test of the questions of several tests, for drops that are too small to show test by test."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_rageval.stats.intervals import SCORE_TOLERANCE
from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values, unseen_gain

MIN_N_INFERIORITY: Final = 120
"""Pooled questions from which differences of unlike sizes must pass the inferiority test too."""


class SuiteScore(NamedTuple):
    """The differences of one score in one test of a suite.

    `drops` has for each question its score in the baseline minus its new score; questions that several tests share have
    the same key. Scores with the same name in `score` have the same unit. `beyond` is the mean drop under the null
    hypothesis: 0, or `allowed` if more than that must be shown. `clusters` has the cluster of questions that depend on
    each other.
    """

    test: str
    score: str
    drops: Mapping[str, float]
    allowed: float = 0.0
    beyond: float = 0.0
    clusters: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class SuiteTestResult:
    """The result of the test of a suite.

    `exceeds` says whether the mean drop is larger than what the tests allow on average. `effects` has for each test its
    part of the mean standardised drop, the largest first; the parts sum to the whole.
    """

    p_value: float
    level: float
    n: int
    worse: int
    better: int
    exceeds: bool
    effects: Mapping[str, float]

    @property
    def fails(self) -> bool:
        """Whether the suite got worse: the drop is significant and larger than allowed."""
        return self.exceeds and self.p_value <= self.level


def suite_drop_test(
    scores: Sequence[SuiteScore], *, gated: int, alpha: float, seed: int = 0
) -> SuiteTestResult | None:
    """Test whether the questions of all gated tests together got worse.

    The differences of each score are divided by its unit: the root of the mean square of all differences of that score
    in the suite. A question counts once, with the mean over the tests and scores that share it. The test of the pooled
    questions is `pytest_rageval.stats.paired_tests.drop_p_values`, at the level `alpha / 2`; with differences of
    unlike sizes and at least 120 questions, the inferiority test must be significant too.

    The tests of the suite have the other half of `alpha`. A run of a part of the `gated` tests has the same part of the
    level, so that several such runs, of different tests, have `alpha / 2` together. The result is None with fewer than
    two gated tests, or if the run compared fewer than two.

    In simulations of 20 tests of 30 questions of which all drop by 10 points, the result is red in 100% of runs
    (`python tests/benchmarks/false_alarms.py 200 suite`).
    """
    tests = list(dict.fromkeys(score.test for score in scores))
    if min(gated, len(tests)) < 2:  # noqa: PLR2004 - one test has no suite
        return None
    units = _units(scores)
    sums: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    cluster_of: dict[str, str] = {}
    for score in scores:
        unit = units[score.score]
        for question, drop in score.drops.items():
            sums[question] += (drop - score.beyond) / unit
            counts[question] += 1
        cluster_of |= score.clusters
    effects, excess = dict.fromkeys(tests, 0.0), 0.0
    for score in scores:
        for question, drop in score.drops.items():
            share = 1 / (counts[question] * units[score.score] * len(counts))
            effects[score.test] += drop * share
            excess += (drop - score.allowed) * share
    values = [total / counts[question] for question, total in sums.items()]
    level = alpha / 2 * min(1.0, len(tests) / gated)
    return SuiteTestResult(
        _p_value(values, [cluster_of.get(question, question) for question in sums], level, seed),
        level,
        len(values),
        sum(value > SCORE_TOLERANCE for value in values),
        sum(value < -SCORE_TOLERANCE for value in values),
        excess > SCORE_TOLERANCE,
        dict(sorted(effects.items(), key=lambda item: -item[1])),
    )


def _units(scores: Sequence[SuiteScore]) -> dict[str, float]:
    squares: defaultdict[str, list[float]] = defaultdict(list)
    for score in scores:
        squares[score.score] += [drop * drop for drop in score.drops.values()]
    return {name: math.sqrt(math.fsum(all_) / len(all_)) or 1.0 for name, all_ in squares.items()}


def _p_value(values: Sequence[float], clusters: Sequence[str], alpha: float, seed: int) -> float:
    largest = max(1.0, *map(abs, values))
    dependent = clusters if len(set(clusters)) < len(clusters) else None
    drops = PairedDrops(values, largest=largest)
    [p_value] = drop_p_values([drops], alpha=alpha, clusters=dependent, seed=seed).p_values
    sizes = {round(abs(value), 9) for value in values if abs(value) > SCORE_TOLERANCE}
    if dependent is not None or p_value > alpha or len(sizes) < 2 or len(values) < MIN_N_INFERIORITY:  # noqa: PLR2004
        return p_value
    # Imported late: scores of 0 and 1 need no numpy.
    from pytest_rageval.stats.noninferiority import inferiority_p_value  # noqa: PLC0415

    return max(p_value, inferiority_p_value(values, largest=unseen_gain(values, largest)))
