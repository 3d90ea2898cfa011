"""The gate of the whole suite: one test of all its questions, for drops that are too small to show test by test."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypedDict

from pytest_rageval.gate.drop_tests import question_clusters
from pytest_rageval.gate.sentences import odds_text
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.digests import text_digest
from pytest_rageval.reports.document import SuiteEntry
from pytest_rageval.reports.terminal import update_command
from pytest_rageval.stats.suite import SuiteScore, suite_drop_test

KEY_DIGITS: Final = 16  # number of hex digits of a question's digest
MAX_TESTS: Final = 3  # number of tests that the line names


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


def suite_lines(suite: SuiteEntry | None, merge: str = "") -> Iterator[str]:
    """Yield a line about a suite that got worse, which names the tests by their part of the drop; and the remedy.

    `merge`: see `update_command`.
    """
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
        f"fail: the suite got worse: {suite['worse']:,} of {suite['n']:,} questions of its "
        f"{len(suite['tests'])} gated tests are worse, {suite['better']} better "
        f"(chance alone: {odds_text(suite['p_value'])}). {where}: {named}"
        f"{f', and {more} more' if more > 0 else ''}"
    )
    yield f"accept these drops and all other changes: {update_command((), merge)}"
