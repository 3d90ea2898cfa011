"""Early stop: `--rageval-early-stop` scores the questions in random order until the verdict on a drop is clear."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.run.test import PartialScores, TestRun

hookimpl = pluggy.HookimplMarker("pytest")

OPTIONS: Final = ("early_stop",)


@hookimpl
def pytest_rageval_partial_scores(
    test: "TestRun", thresholds: "Sequence[Threshold]"
) -> "PartialScores | None":
    """Return the scores whose evaluation may stop early."""
    if not test.session.settings.stops_early:
        return None
    from pytest_rageval.extensions.early_stop.early_stop import EarlyScores  # noqa: PLC0415 - few runs stop early

    return EarlyScores.of(test, thresholds)
