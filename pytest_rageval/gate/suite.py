"""The gate of the whole suite: one test of all its questions, for drops that are too small to show test by test."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from pytest_rageval.core.document import SuiteEntry
from pytest_rageval.gate.drop_tests import question_clusters
from pytest_rageval.gate.sentences import odds_text
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.digests import text_digest
from pytest_rageval.stats.intervals import SCORE_TOLERANCE
from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values, unseen_gain

KEY_DIGITS: Final = 16  # number of hex digits of a question's digest
MAX_TESTS: Final = 3  # number of tests that the line names

MIN_N_INFERIORITY: Final = 120
"""Pooled questions from which differences of unlike sizes must pass the inferiority test too."""


class ScoreContribution(TypedDict):
    """The attributes of `SuiteScore`, by the digest of the question."""

    score: str
    drops: dict[str, float]
    allowed: float
    beyond: float
    clusters: dict[str, str]


class SuiteContribution(TypedDict):
    """What a gated test contributes: JSON, which xdist's workers send to the process that decides.

    `gated` is the number of gated tests in the baseline, `alpha` the smallest level of the thresholds.
    """

    gated: int
    alpha: float
    scores: list[ScoreContribution]


def contribution(results: Sequence[ThresholdResult], *, gated: int) -> SuiteContribution | None:
    """Return what one of several gated tests contributes; None if no drop was tested.

    Thresholds with the burden "exclude" are not part of it, nor are those whose evaluation stopped early.
    """
    tested = [
        part
        for result in results
        for part in (result.slices or (result,))
        if part.drop is not None and not part.threshold.policy.strict
    ]
    if not tested:
        return None
    return {
        "gated": gated,
        "alpha": min(part.threshold.policy.alpha for part in tested),
        "scores": [*map(_score_contribution, tested)],
    }


def _score_contribution(part: ThresholdResult) -> ScoreContribution:
    comparison, threshold, drop = part.comparison, part.threshold, part.drop
    if comparison is None or drop is None:
        raise ValueError(f"{threshold.name}: no drop was tested")
    keys = [
        text_digest(f"{example.id} {example.full_question}")[:KEY_DIGITS] for example in comparison.examples
    ]
    clusters: dict[str, str] = {}
    if drop.cluster is not None:
        roots = question_clusters(comparison.examples, drop.cluster)
        first: dict[object, str] = {}
        clusters = {key: first.setdefault(root, key) for key, root in zip(keys, roots, strict=True)}
    return {
        "score": threshold.name,
        "drops": dict(zip(keys, comparison.drops, strict=True)),
        "allowed": threshold.max_drop or 0.0,
        "beyond": drop.beyond,
        "clusters": clusters,
    }


def suite_entry(contributions: Mapping[str, SuiteContribution], *, seed: int) -> SuiteEntry | None:
    """Return the key `suite` of the report; None if fewer than two tests were compared."""
    if not contributions:
        return None
    scores = [
        SuiteScore(nodeid, **score)
        for nodeid, test in sorted(contributions.items())
        for score in test["scores"]
    ]
    gated = max(test["gated"] for test in contributions.values())
    alpha = min(test["alpha"] for test in contributions.values())
    result = suite_drop_test(scores, gated=gated, alpha=alpha, seed=seed)
    if result is None:
        return None
    return {
        "verdict": "fail" if result.fails else "pass",
        "p_value": result.p_value,
        "alpha": result.level,
        "n": result.n,
        "worse": result.worse,
        "better": result.better,
        "gated": gated,
        "tests": dict(result.effects),
    }


def suite_lines(suite: SuiteEntry | None) -> Iterator[str]:
    """Yield a line about a suite that got worse, which names the tests by their part of the drop."""
    if suite is None or suite["verdict"] != "fail":
        return
    parts = {nodeid: part for nodeid, part in suite["tests"].items() if part > 0}
    total, first = sum(parts.values()), [*parts.items()][:MAX_TESTS]
    if sum(sorted(parts.values())[-MAX_TESTS:]) > total / 2:
        where = "Most of the drop is in"
        named = ", ".join(f"{nodeid} {part / total:.0%}" for nodeid, part in first)
    else:
        where, named = "Look for a common cause, such as the index", ", ".join(nodeid for nodeid, _ in first)
    more = len(parts) - MAX_TESTS
    yield (
        f"the suite got worse: {suite['worse']:,} of {suite['n']:,} questions of its "
        f"{len(suite['tests'])} gated tests are worse, {suite['better']} better "
        f"(chance alone: {odds_text(suite['p_value'])}). {where}: {named}"
        f"{f', and {more} more' if more > 0 else ''}"
    )


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
