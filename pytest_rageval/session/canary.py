"""A canary: do generator and judge still score as in the baseline where the retriever returned the same passages?"""

from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Final

from pytest_rageval.errors import StaleBaselineError
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.gate.comparison import compare
from pytest_rageval.gate.threshold_results import ThresholdInput
from pytest_rageval.plural import counted
from pytest_rageval.session.pipelines import Components
from pytest_rageval.session.session import Session
from pytest_rageval.stats.paired_tests import PairedDrops, joint_drop_test

__all__ = ["Canary", "ask_anew"]

ALPHA: Final = 0.01
"""The probability that a canary raises a false alarm: each alarm ends a test as an error."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The means over `questions` with the same passages: in the baseline, and with new replies of the models.

    `p_value` is that of "both are equal", two-sided. The names are those of the report.
    """

    questions: int
    before: float
    now: float
    p_value: float

    @property
    def shifted(self) -> bool:
        """True if generator or judge score differently from the baseline."""
        return self.p_value <= ALPHA

    def reason(self) -> str:
        """Why the score cannot be compared with the baseline."""
        return (
            f"the judge or the generator changed, perhaps not the retriever. {counted(self.questions, 'question')} "
            f"with the same passages as in the baseline had {self.before:.3f} then and {self.now:.3f} with new replies "
            f"(p = {self.p_value:.2g} ≤ {ALPHA:g}).\n"
            "Find out whether the server's model changed. Then write a new baseline on the commit to compare with, "
            "with --rageval-refresh --rageval-update-baseline."
        )


def ask_anew(
    session: Session, components: Components, request: ScoreRequest, case: ThresholdInput
) -> Canary | None:
    """Score questions with the same passages as in the baseline again, with new replies instead of cached ones.

    Returns:
        None where the score asks no model, has no baseline, or no question has the same passages.
    """
    wanted, baseline = session.settings.canary, case.baseline
    if not wanted or baseline.before is None or not session.definition(request).dependencies:
        return None
    try:
        comparison = compare(case.score, baseline.fingerprint, baseline.before)
    except StaleBaselineError:
        return None
    same = []
    for pair in comparison.pairs:
        ranking = pair.outcome.evidence.ranking
        if ranking is not None and pair.old_ranking == tuple(ranking.labels):
            same.append(pair.outcome.example)
    chosen = Random(session.settings.seed).sample(same, min(wanted, len(same)))  # noqa: S311 - no secret
    before = {name: kept.get("score") for name, kept in baseline.before.examples.items()}
    outcomes = session.score_anew(components, chosen, request) if chosen else []
    pairs = [
        (then, outcome.value)
        for outcome in outcomes
        if outcome.value is not None and (then := before[outcome.example.id]) is not None
    ]
    if not pairs:
        return None
    drops = [then - now for then, now in pairs]
    largest = max([case.score.scale[1] - case.score.scale[0], *map(abs, drops)])
    tails = [
        joint_drop_test([PairedDrops([sign * drop for drop in drops], largest=largest)], alpha=ALPHA / 2)
        .scores[0]
        .p_value
        for sign in (1, -1)
    ]
    then, now = (fmean(column) for column in zip(*pairs, strict=True))
    return Canary(len(pairs), then, now, min(1.0, 2 * min(tails)))
