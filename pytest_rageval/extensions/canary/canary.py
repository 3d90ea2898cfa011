"""Canary: tests whether generator and judge still score as in the baseline, on questions with the same passages.

It detects changes of the models, such as a new version at the server, which would look like a change of the retriever.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from statistics import fmean
from typing import Final
from zlib import crc32

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.gate.comparison import fingerprint_changes, is_comparable
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput
from pytest_rageval.lib.text import counted
from pytest_rageval.models.messages import FIRST_RUN_LOCAL_SAMPLE
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun
from pytest_rageval.stats.intervals import SCORE_TOLERANCE
from pytest_rageval.stats.noninferiority import inferiority_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values, unseen_gain
from pytest_rageval.stats.power import detectable_drop

ALPHA: Final = 0.01
"""The probability of a false alarm of one canary: half of it in the test, half in all tests. An alarm is an error."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The result of a canary. The names of the fields are keys of the JSON report."""

    questions: int  # number of questions with the same passages that have a score in the baseline and now
    before: float  # their mean score in the baseline
    now: float  # their mean score with new replies of the models
    # Two-sided p-value under the null hypothesis that both means are equal: twice the smaller one of this test and of
    # all tests so far, at most 1.
    p_value: float
    # The change of the mean that would be found in 80% of runs; None if no change would.
    detectable: float | None
    pooled: int  # number of questions of all tests so far

    @property
    def shifted(self) -> bool:
        return self.p_value <= ALPHA

    def reason(self) -> str:
        others = f", of {self.pooled} in all tests so far," if self.pooled > self.questions else ""
        return (
            f"the judge or the generator changed, perhaps not the retriever. {counted(self.questions, 'question')} "
            f"with the same passages as in the baseline{others} had {self.before:.3f} then and {self.now:.3f} with new "
            f"replies (p = {self.p_value:.2g} ≤ {ALPHA:g}).\n"
            "Find out whether the server's model changed. Then write a new baseline on the commit to compare with, "
            "with --rageval-refresh --rageval-update-baseline."
        )


class CanaryPool:
    """The changes of all canaries of a process, as shares of the scale; a question counts once, with their mean.

    A new version of a judge moves the scores of all tests, each by too little to be seen in one.
    """

    def __init__(self, _session: Session) -> None:
        self._changes: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, changes: Mapping[str, float]) -> list[float]:
        for question, change in changes.items():
            self._changes[question].append(change)
        return list(map(fmean, self._changes.values()))


def run_canary(
    test: TestRun, request: ScoreRequest, threshold_input: ThresholdInput, count: int
) -> Canary | None:
    """Score `count` questions with the same passages as in the baseline again, with new replies instead of cached ones.

    None if the score uses no model, has no comparable baseline, or no question has the same passages.
    """
    baseline = threshold_input.baseline
    outcomes = _new_outcomes(test, request, threshold_input.score.outcomes, baseline, count)
    examples = {} if baseline.before is None else baseline.before.examples
    pairs = {
        f"{outcome.example.id} {outcome.example.full_question}": (then, outcome.value)
        for outcome in outcomes
        if outcome.value is not None and (then := examples[outcome.example.id].get("score")) is not None
    }
    if not pairs:
        return None
    low, high = threshold_input.score.scale
    drops = {question: then - now for question, (then, now) in pairs.items()}
    unit = max([high - low, *map(abs, drops.values())]) if isfinite(high - low) else 1.0
    shares = {question: drop / unit for question, drop in drops.items()}
    pooled = test.session.resource(CanaryPool).add(shares)
    values = list(shares.values())
    p_value = _two_sided_p_value(values)
    if len(pooled) > len(values):
        p_value = min(1.0, 2 * min(p_value, _two_sided_p_value(pooled)))
    then, now = (fmean(column) for column in zip(*pairs.values(), strict=True))
    detectable = detectable_drop(values, alpha=ALPHA / 2)
    found = None if detectable is None or detectable > 1 else detectable * unit
    return Canary(len(pairs), then, now, p_value, found, len(pooled))


def _two_sided_p_value(drops: Sequence[float]) -> float:
    return min(1.0, 2 * min(_p_value([sign * drop for drop in drops]) for sign in (1, -1)))


def _p_value(drops: Sequence[float]) -> float:
    """The one-sided p-value of a drop.

    The baseline has means over several runs: where a model is right in most of them, the score is a little higher now
    for many questions, and much lower for few. Sign flips alone take this for a rise in up to 13% of canaries.
    """
    largest = max(1.0, *map(abs, drops))
    [p_value] = drop_p_values([PairedDrops(drops, largest=largest)], alpha=ALPHA / 4).p_values
    if p_value > ALPHA or all(abs(drop) >= largest - SCORE_TOLERANCE for drop in drops if drop):
        return p_value
    return max(p_value, inferiority_p_value(drops, largest=unseen_gain(drops, largest, whole_scale=True)))


def plan_canaries(
    test: TestRun, thresholds: Sequence[Threshold], compared: Sequence[Threshold], count: int
) -> None:
    """Count their requests. In the run, another question may be chosen in place of one that has no score."""
    by_request = {item.request: item for item in compared}
    # The session has these outcomes already: they are not counted again.
    outcomes = test.session.evaluator.outcomes(
        test.components, test.evalset, [*by_request], all_requests=test.requests(thresholds)
    )
    for request, threshold in by_request.items():
        runs = outcomes[request]
        if not isinstance(runs, RagevalError):
            _new_outcomes(test, request, runs[0], test.look_up_baseline(threshold), count)


def _new_outcomes(
    test: TestRun, request: ScoreRequest, outcomes: Iterable[Outcome], baseline: BaselineLookup, count: int
) -> list[Outcome]:
    """Return the outcomes, with new replies, of `count` random questions with the passages of the baseline."""
    before, session = baseline.before, test.session
    if before is None or not session.definition(request).asks:
        return []
    if fingerprint_changes(before, baseline.fingerprint):
        return []
    same = [
        outcome.example
        for outcome in outcomes
        # In a plan no outcome has a value.
        if (outcome.value is not None or "lacks replies" in session.settings.effects)
        and _has_same_passages(outcome, before)
    ]
    chosen = Random(session.settings.seed).sample(same, min(count, len(same)))  # noqa: S311 - no secret
    if not chosen:
        return []
    resolved, score = session.resolve(request)
    # The same rankings, with requests that are unique to the run, so that no reply is cached.
    repeat = FIRST_RUN_LOCAL_SAMPLE + crc32(session.context.run.encode())
    pipeline = session.pipeline(test.components, request).repetition(repeat)

    async def evaluate() -> list[Outcome]:
        return await score.evaluate(pipeline, chosen, resolved)

    found = session.loop.run(evaluate())
    session.evaluator.check_answered()
    return found


def _has_same_passages(outcome: Outcome, before: BaselineScore) -> bool:
    ranking = outcome.evidence.ranking
    if ranking is None or not is_comparable(outcome.example, before):
        return False
    example = before.examples[outcome.example.id]
    return example.get("score") is not None and example.get("ranking") == ranking.labels
