"""Which stage loses a passage? Scores by stage, and the stage that lost each gold passage of a lost question.

- `scores`: the score `stages.recall`. `losses`: finds where a gold passage was lost.
"""

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.run.judged import JudgedTest

hookimpl = pluggy.HookimplMarker("pytest")

SCORES: Final = {"extensions.stages.scores": ("stages",)}


@hookimpl(trylast=True)
def pytest_rageval_before_judge(
    test: "JudgedTest", threshold_input: "ThresholdInput"
) -> "ThresholdInput | None":
    """Say of each lost question which stage lost its gold passages."""
    outcomes = threshold_input.score.outcomes
    if all(
        outcome.evidence.ranking is None or outcome.evidence.ranking.stages is None for outcome in outcomes
    ):
        return None
    from pytest_rageval.extensions.stages.losses import explained  # noqa: PLC0415 - few retrievers report stages

    return explained(test, threshold_input)
