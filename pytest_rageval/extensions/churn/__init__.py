"""What did this change move? `rbo` and `churn` compare rankings with those of the baseline, and need no gold passages.

- `scores`: their definitions, and the comparison of a ranking with that of the baseline.
"""

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from pytest_rageval.core.outcome import Score
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.run.judged import JudgedTest

hookimpl = pluggy.HookimplMarker("pytest")

NAMES: Final = ("rbo", "churn")
SCORES: Final = {"extensions.churn.scores": NAMES}


@hookimpl
def pytest_rageval_evaluate_call(threshold: "Threshold") -> "Score | None":
    """Refuse a call without a bound, which compares with nothing."""
    if threshold.spec.partition("@")[0] in NAMES and not threshold.has_bound:
        from pytest_rageval.core.errors import InputError  # noqa: PLC0415 - every run of pytest imports this module

        raise InputError(
            f"rageval.score({threshold.spec!r}) has no bound, and without one nothing is compared with the baseline.\n"
            f'Write it in a marker: rageval_threshold("rbo@5", max_drop=0.1).'
        )
    return None


@hookimpl
def pytest_rageval_before_judge(
    test: "JudgedTest", threshold_input: "ThresholdInput"
) -> "ThresholdInput | None":
    """Compare the rankings with those of the baseline."""
    if threshold_input.threshold.spec.partition("@")[0] not in NAMES:
        return None
    from pytest_rageval.extensions.churn.scores import compared  # noqa: PLC0415 - see above

    return compared(test, threshold_input)
